//! The history of one block's content, version by version.

use everglade_env::{BLOCK_SIZE, Page, PageRef};

use super::OpId;
use crate::digest::fingerprint;

/// One possible content of a block.
#[derive(Clone, Debug)]
pub(super) struct Content {
    print: u128,
    /// The bytes, as long as a read could still return them or an operation build on them.
    page: Option<PageRef>,
    /// True if the content is unknown: an operation built on bytes that could not be read.
    wild: bool,
}

impl Content {
    pub(super) fn zero() -> Content {
        Content::of(PageRef::zero())
    }

    pub(super) fn of(page: PageRef) -> Content {
        Content {
            print: fingerprint(&page[..]),
            page: Some(page),
            wild: false,
        }
    }

    /// This content with `piece` written into it at `at`.
    pub(super) fn overwritten(&self, at: usize, piece: &[u8]) -> Content {
        let mut page = match &self.page {
            _ if piece.len() == BLOCK_SIZE => Page::zeroed(),
            Some(old) => Page::copy_of(old),
            // The content of the last version keeps its bytes, unless it could not be read.
            None => {
                return Content {
                    print: 0,
                    page: None,
                    wild: true,
                };
            }
        };
        page[at..at + piece.len()].copy_from_slice(piece);
        Content::of(page.freeze())
    }

    /// True if it agrees with `bytes`, which sit at `at` in the block.
    pub(super) fn agrees(&self, at: usize, bytes: &[u8]) -> bool {
        if self.wild {
            return true;
        }
        match &self.page {
            Some(page) => &page[at..at + bytes.len()] == bytes,
            None => bytes.len() == BLOCK_SIZE && self.print == fingerprint(bytes),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Version {
    /// The operation that wrote the version; `None` for the initial content.
    pub(super) op: Option<OpId>,
    pub(super) contents: Vec<Content>,
    /// The block that holds it is damaged: an error is an answer.
    pub(super) marked: bool,
    /// It wrote a part of the block: the rest is what the version before it had.
    pub(super) in_part: bool,
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
                marked: false,
                in_part: false,
            }],
        }
    }

    /// A block that could not be read: it holds what one of these versions holds, or answers with
    /// an error.
    pub(super) fn unreadable<'v>(versions: impl Iterator<Item = &'v Version>) -> BlockHistory {
        let mut contents: Vec<Content> = Vec::new();
        for content in versions.flat_map(|version| &version.contents) {
            if contents.iter().all(|known| known.print != content.print) {
                contents.push(content.clone());
            }
        }
        let (op, marked) = (None, true);
        BlockHistory {
            versions: vec![Version {
                op,
                contents,
                marked,
                in_part: false,
            }],
        }
    }

    /// The block that holds the last version is damaged.
    pub(super) fn mark(&mut self) {
        self.versions.last_mut().expect("never empty").marked = true;
    }

    /// True if a version that agrees with `bytes` is damaged.
    pub(super) fn may_be_damaged(&self, bytes: &[u8]) -> bool {
        let agrees = |version: &Version| version.contents.iter().any(|it| it.agrees(0, bytes));
        let mut versions = self.versions.iter();
        versions.any(|version| version.marked && agrees(version))
    }

    /// True if one of the versions from `first` on may answer with an error.
    pub(super) fn is_marked(&self, first: usize, happened: impl Fn(OpId) -> bool) -> bool {
        self.versions[first..]
            .iter()
            .any(|version| version.marked && version.op.is_none_or(&happened))
    }

    pub(super) fn versions(&self) -> &[Version] {
        &self.versions
    }

    /// Returns the possible contents once all operations under way are done.
    pub(super) fn last(&self) -> &[Content] {
        &self.versions.last().expect("never empty").contents
    }

    /// `whole` says that nothing of what the block held is left.
    pub(super) fn push(&mut self, op: OpId, mut contents: Vec<Content>, whole: bool) {
        contents.dedup_by_key(|content| content.print);
        let marked = !whole && self.is_marked(self.versions.len() - 1, |_| true);
        self.versions.push(Version {
            op: Some(op),
            contents,
            marked,
            in_part: !whole,
        });
    }

    /// Settles `op`, which is acknowledged, without readers: earlier versions are needed for
    /// crashes only.
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
        let before = self.versions[index - 1].clone();
        let doubtful = &mut self.versions[index];
        doubtful.marked |= before.marked;
        let contents = &mut doubtful.contents;
        for content in before.contents {
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
