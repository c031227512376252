//! Notes: what administrators' programs keep in the aggregate, such as the snapshot policies of its volumes (B-16).
//! For the engine it is a text, replaced as a whole.
//!
//! ```text
//! set() in a freeze ─▶ write() while the aggregate is finished ─▶ committed with that consistency point
//! ```
//!
//! 1. The text becomes another one together with every other change of the same freeze, or not at all. People see it
//!    from the freeze on, as they do names.
//! 2. It has at most [`NOTES_BYTES_MAX`] bytes and is admitted like other growth, but refused where that would have to
//!    wait for deletions or for other writers: what keeps schedules does so under a lock. Blocks that a shorter text leaves behind stay,
//!    empty.
//! 3. One that cannot be read costs nobody any data: the aggregate serves without it, and a new text replaces it. Only
//!    where its indirect block is lost it cannot be replaced either, which is said.
//! 4. An aggregate that never had any has no file for it.

use std::sync::Arc;

use everglade_format::indirect::BlockKind;
use everglade_format::metafile::NOTES;
use everglade_format::notes::{
    NOTES_BLOCKS_MAX, NOTES_BYTES_MAX, NOTES_PER_BLOCK, decode, encode_into,
};
use everglade_format::planted::{self, Bug};
use everglade_format::{CpNumber, Damage, Header, Inode, Kind, Layer};

use crate::admin::Error;
use crate::cp::Home;
use crate::load::{LoadCx, Stop};
use crate::tree::{Content, File};

/// The text, or why it cannot be read.
pub(crate) type Text = Result<Arc<[u8]>, String>;

/// See the module's documentation.
pub(crate) struct Notes {
    text: Text,
    /// Blocks from the first on that may hold some of it.
    blocks: u64,
    is_changed: bool,
    /// Why it cannot be replaced.
    stuck: Option<String>,
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
    pub(crate) fn load(file: &File, cx: &mut LoadCx<'_>) -> Result<Notes, Stop> {
        let blocks = file.inode.block_count();
        if blocks > NOTES_BLOCKS_MAX || file.inode.levels > 1 {
            let expected = format!("at most {NOTES_BLOCKS_MAX} blocks and one level");
            return Err(Damage::new("size of the notes", expected, blocks).into());
        }
        let mut notes = Notes {
            blocks,
            ..Notes::default()
        };
        let root = file.inode.root;
        if file.inode.levels == 1 && !root.is_hole() {
            let kind = BlockKind::indirect(Layer::Aggregate);
            let found = cx.page_or_damage(root)?.and_then(|page| {
                let header = Header::expect(&page, kind, 1, NOTES, 0);
                header.map(drop).map_err(|damage| damage.to_string())
            });
            if let Err(reason) = found {
                (notes.text, notes.stuck) = (Err(reason.clone()), Some(reason));
                return Ok(notes);
            }
        }
        let mut gather = crate::load::Gather::default();
        let mut text = Ok(Vec::new());
        for block in 0..blocks {
            let Some(part) = gather.add(part(file, cx, block)) else {
                continue;
            };
            text = text.and_then(|mut text: Vec<u8>| {
                text.extend(part?);
                Ok(text)
            });
        }
        gather.finish()?;
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

/// What is in a block, or why it cannot be read.
fn part(file: &File, cx: &mut LoadCx<'_>, block: u64) -> Result<Result<Vec<u8>, String>, Stop> {
    let pointer = file.pointer(cx, 0, block)?;
    if pointer.is_hole() {
        return Ok(Ok(Vec::new()));
    }
    let found = cx.page_or_damage(pointer)?;
    Ok(found.and_then(|page| {
        Header::expect(&page, BlockKind::Notes, 0, NOTES, block)
            .and_then(|_| decode(&page).map(<[u8]>::to_vec))
            .map_err(|damage| damage.to_string())
    }))
}

/// Replaces the text.
pub(crate) fn set(home: &mut Home, cp: CpNumber, seconds: u64, text: &[u8]) -> Result<(), Error> {
    if text.len() > NOTES_BYTES_MAX {
        return Err(Error::Limit(format!(
            "{} bytes of notes; an aggregate keeps at most {NOTES_BYTES_MAX}",
            text.len()
        )));
    }
    if let Some(reason) = &home.fs.notes.stuck {
        return Err(Error::Unavailable(format!(
            "the aggregate's notes are damaged and cannot be replaced: {reason}"
        )));
    }
    home.fs.files.entry(NOTES).or_insert_with(|| {
        let inode = Inode::new(NOTES, Kind::Metafile, cp, seconds);
        let mut file = File::new(inode, Layer::Aggregate);
        file.inode_changed = true;
        file
    });
    let notes = &mut home.fs.notes;
    notes.text = Ok(text.into());
    notes.is_changed = !planted::is(Bug::NotesForgotten);
    home.aggregate.set_notes(notes.text());
    Ok(())
}
