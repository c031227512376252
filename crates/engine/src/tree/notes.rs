//! Notes: a text that administrators' programs keep in the aggregate, such as the snapshot policies
//! of its volumes (B-16). The engine does not interpret it, and replaces it as a whole.
//!
//! ```text
//! set() in a freeze ─▶ write() while the aggregate is finished ─▶ committed by that superblock
//! ```
//!
//! 1. A new text is committed together with all other changes of the same freeze. Administrators
//!    see it from the freeze on, as they see new names.
//! 2. The text has at most [`everglade_format::notes::NOTES_BYTES_MAX`] bytes. A change is admitted
//!    like other growth, but it is refused if it would have to wait for deletions or for other
//!    writers, because the schedule waits for it under a lock. A shorter text leaves empty blocks
//!    behind.
//! 3. If the text cannot be read, the aggregate serves without it, and a new text replaces a
//!    damaged one. Replacing it is refused if its blocks are unknown, because its indirect block or
//!    its inode is damaged. Replacing it is also refused if it was not read because a device did
//!    not answer: a later start can read it, and a change would lose it.
//! 4. An aggregate that never had notes has no file for them.

use std::collections::BTreeSet;
use std::sync::Arc;

use everglade_env::PageRef;
use everglade_format::indirect::BlockKind;
use everglade_format::metafile::NOTES;
use everglade_format::notes::{NOTES_BLOCKS_MAX, NOTES_PER_BLOCK, decode, encode_into};
use everglade_format::{Damage, Header, Indirect, Layer, Pointer, Pvbn, SPAN};

use crate::read::load::{LoadCx, Stop};
use crate::tree::{Content, File};

/// The reasons why the text is not available.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// The text is damaged for good, so another text may replace it.
    #[error("{0}")]
    Damaged(String),
    /// A device did not answer when the aggregate was opened. It may be read after a restart, and
    /// nothing takes its place until then.
    #[error("{0}")]
    Unanswered(String),
}

/// The text, or why it cannot be read.
pub(crate) type Text = Result<Arc<[u8]>, Unreadable>;

/// See the module's documentation.
pub(crate) struct Notes {
    pub(crate) text: Text,
    /// Blocks from the first on that may hold some of it.
    pub(crate) blocks: u64,
    pub(crate) is_changed: bool,
    /// The reason why it cannot be replaced.
    pub(crate) stuck: Option<Unreadable>,
}

impl Default for Notes {
    fn default() -> Self {
        Notes {
            text: Ok(Arc::default()),
            blocks: 0,
            is_changed: false,
            stuck: None,
        }
    }
}

impl Notes {
    /// Reads them.
    pub(crate) fn load(
        file: &File,
        cx: &mut LoadCx<'_>,
        is_place: impl Fn(Pvbn) -> bool,
    ) -> Result<Notes, Stop> {
        let mut notes = Notes {
            blocks: file.inode.block_count(),
            ..Notes::default()
        };
        if let Err(reason) = check_tree(file, cx, is_place)? {
            (notes.text, notes.stuck) = (Err(reason.clone()), Some(reason));
            return Ok(notes);
        }
        let mut gather = crate::read::load::Gather::default();
        let mut text = Ok(Vec::new());
        for block in 0..notes.blocks {
            let Some(part) = gather.add(part(file, cx, block)) else {
                continue;
            };
            text = text.and_then(|mut text: Vec<u8>| {
                text.extend(part?);
                Ok(text)
            });
        }
        gather.finish()?;
        if let Err(reason @ Unreadable::Unanswered(_)) = &text {
            notes.stuck = Some(reason.clone());
        }
        notes.text = text.map(Arc::from);
        Ok(notes)
    }

    pub(crate) fn text(&self) -> Text {
        self.text.clone()
    }

    pub(crate) fn is_changed(&self) -> bool {
        self.is_changed
    }

    /// Puts the text into the blocks of the file.
    pub(crate) fn write(&mut self, file: &mut File, cx: &mut LoadCx<'_>) -> Result<(), Stop> {
        let text = self.text.as_deref().expect("only a text is set");
        let mut parts = text.chunks(NOTES_PER_BLOCK);
        let blocks = blocks(text.len());
        file.grow(blocks);
        for block in 0..blocks.max(self.blocks) {
            let page = file.modify(cx, 0, block, Content::Fresh)?;
            encode_into(page, parts.next().unwrap_or_default());
        }
        self.blocks = blocks;
        self.is_changed = false;
        Ok(())
    }
}

/// Blocks that a text of this length takes.
pub(crate) fn blocks(bytes: usize) -> u64 {
    bytes.div_ceil(NOTES_PER_BLOCK).max(1) as u64
}

/// Checks whether the blocks can be found, and freed when they are replaced; returns the reason if
/// not.
fn check_tree(
    file: &File,
    cx: &mut LoadCx<'_>,
    is_place: impl Fn(Pvbn) -> bool,
) -> Result<Result<(), Unreadable>, Stop> {
    let (blocks, levels, root) = (file.inode.block_count(), file.inode.levels, file.inode.root);
    if blocks > NOTES_BLOCKS_MAX || levels > 1 {
        let expected = format!("at most {NOTES_BLOCKS_MAX} blocks and one level");
        let found = format!("{blocks} blocks and {levels} levels");
        return Ok(Err(Damage::new("size of the notes", expected, found).into()));
    }
    if root.is_hole() {
        return Ok(Ok(()));
    }
    let mut known = BTreeSet::new();
    let mut check = |pointer: Pointer| match pointer.has_block() {
        true if !is_place(pointer.pvbn) => Err(Unreadable::Damaged(format!(
            "they have pvbn {}, which no device has",
            pointer.pvbn.0
        ))),
        true if !known.insert(pointer.pvbn.0) => Err(Unreadable::Damaged(format!(
            "they have pvbn {} twice",
            pointer.pvbn.0
        ))),
        _ => Ok(()),
    };
    if let Err(reason) = check(root) {
        return Ok(Err(reason));
    }
    if levels == 0 {
        return Ok(Ok(()));
    }
    let found = page(cx, root)?.and_then(|page| {
        let kind = BlockKind::indirect(Layer::Aggregate);
        Header::expect(&page, kind, 1, NOTES, 0)?;
        (0..SPAN).try_for_each(|slot| check(Indirect(&page).pointer(slot, Layer::Aggregate)?))
    });
    Ok(found)
}

/// A page, or why there is none: the block is to blame, or its device.
fn page(cx: &mut LoadCx<'_>, pointer: Pointer) -> Result<Result<PageRef, Unreadable>, Stop> {
    match cx.page_or_damage(pointer) {
        Err(Stop::Failed(error)) => Ok(Err(Unreadable::Unanswered(error.to_string()))),
        found => Ok(found?.map_err(Unreadable::Damaged)),
    }
}

impl From<Damage> for Unreadable {
    fn from(damage: Damage) -> Self {
        Unreadable::Damaged(damage.to_string())
    }
}

/// The text of a block, or the reason why it cannot be read.
fn part(file: &File, cx: &mut LoadCx<'_>, block: u64) -> Result<Result<Vec<u8>, Unreadable>, Stop> {
    let pointer = file.pointer(cx, 0, block)?;
    if pointer.is_hole() {
        return Ok(Ok(Vec::new()));
    }
    let found = page(cx, pointer)?;
    Ok(found.and_then(|page| {
        Header::expect(&page, BlockKind::Notes, 0, NOTES, block)?;
        Ok(decode(&page)?.to_vec())
    }))
}
