//! What one block held, version by version.

use everglade_env::{BLOCK_SIZE, Page, PageRef};

use super::OpId;
use crate::digest::fingerprint;

/// One possible content of a block.
#[derive(Clone, Debug)]
pub(super) struct Content {
    print: u128,
    /// The bytes, as long as a read could still return them or an operation build on them.
    page: Option<PageRef>,
}

impl Content {
    pub(super) fn zero() -> Content {
        Content::of(PageRef::zero())
    }

    pub(super) fn of(page: PageRef) -> Content {
        Content {
            print: fingerprint(&page[..]),
            page: Some(page),
        }
    }

    /// This content with `piece` written into it at `at`.
    pub(super) fn overwritten(&self, at: usize, piece: &[u8]) -> Content {
        let old = self
            .page
            .as_ref()
            .expect("the last version keeps its bytes");
        let mut page = if piece.len() == BLOCK_SIZE {
            Page::zeroed()
        } else {
            Page::copy_of(old)
        };
        page[at..at + piece.len()].copy_from_slice(piece);
        Content::of(page.freeze())
    }

    /// True if it agrees with `bytes`, which sit at `at` in the block.
    pub(super) fn agrees(&self, at: usize, bytes: &[u8]) -> bool {
        match &self.page {
            Some(page) => &page[at..at + bytes.len()] == bytes,
            None => bytes.len() == BLOCK_SIZE && self.print == fingerprint(bytes),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Version {
    /// Who wrote it; `None` for what was there at first.
    pub(super) op: Option<OpId>,
    pub(super) contents: Vec<Content>,
}

/// All versions of a block, oldest first. Never empty.
#[derive(Clone, Debug)]
pub(super) struct BlockHistory {
    versions: Vec<Version>,
}

impl Default for BlockHistory {
    fn default() -> Self {
        BlockHistory::starting_with(PageRef::zero())
    }
}

impl BlockHistory {
    pub(super) fn starting_with(page: PageRef) -> BlockHistory {
        BlockHistory {
            versions: vec![Version {
                op: None,
                contents: vec![Content::of(page)],
            }],
        }
    }

    pub(super) fn versions(&self) -> &[Version] {
        &self.versions
    }

    /// What it may hold once everything under way is done.
    pub(super) fn last(&self) -> &[Content] {
        &self.versions.last().expect("never empty").contents
    }

    pub(super) fn push(&mut self, op: OpId, mut contents: Vec<Content>) {
        contents.dedup_by_key(|content| content.print);
        self.versions.push(Version {
            op: Some(op),
            contents,
        });
    }

    /// `op` is acknowledged and nobody reads: what came before is needed for crashes only.
    pub(super) fn settle(&mut self, op: OpId) {
        for version in self
            .versions
            .iter_mut()
            .rev()
            .skip_while(|v| v.op != Some(op))
            .skip(1)
        {
            let settled = version
                .contents
                .iter()
                .all(|content| content.page.is_none());
            if settled {
                break;
            }
            version
                .contents
                .iter_mut()
                .for_each(|content| content.page = None);
        }
    }

    /// `op` changed nothing after all.
    pub(super) fn withdraw(&mut self, op: OpId) {
        self.versions.retain(|version| version.op != Some(op));
    }

    /// `op` changed everything or nothing.
    pub(super) fn doubt(&mut self, op: OpId) {
        let Some(index) = self
            .versions
            .iter()
            .position(|version| version.op == Some(op))
        else {
            return;
        };
        let before = self.versions[index - 1].contents.clone();
        let contents = &mut self.versions[index].contents;
        for content in before {
            if contents.iter().all(|known| known.print != content.print) {
                contents.push(content);
            }
        }
    }

    /// The last version was read and held `bytes`: contents that differ are no longer possible.
    pub(super) fn resolve(&mut self, at: usize, bytes: &[u8]) {
        let last = self.versions.last_mut().expect("never empty");
        if last.contents.len() > 1 {
            last.contents.retain(|content| content.agrees(at, bytes));
        }
    }

    /// Indices of the versions from `first` on, among those `happened`, that agree with `bytes`:
    /// the least and the greatest.
    pub(super) fn fitting(
        &self,
        first: usize,
        at: usize,
        bytes: &[u8],
        happened: impl Fn(OpId) -> bool,
    ) -> Option<(usize, usize)> {
        let fits = |index: &usize| {
            let version = &self.versions[*index];
            version.op.is_none_or(&happened)
                && version
                    .contents
                    .iter()
                    .any(|content| content.agrees(at, bytes))
        };
        let mut all = (first..self.versions.len()).filter(fits);
        let least = all.next()?;
        Some((least, all.last().unwrap_or(least)))
    }
}
