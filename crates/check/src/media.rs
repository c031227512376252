//! Media: blocks by pvbn, verified as they are read; recently read metadata is kept.
//!
//! A block of a group of drives is on each of its current drives. Reads of metadata take the first
//! drive that has the content they expect. So damage to one drive hides nothing; `contents`
//! compares each drive.
//!
//! A block of a parity group is on one drive. If that drive does not have it, it is reconstructed
//! ([`crate::rows`]).

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use everglade_env::{DiskError, Storage};
use everglade_format::config::Uuid;
use everglade_format::{BLOCK_SIZE, Block, Geometry, Pvbn, Tag, TagKey};

use crate::labels::{Drive, Labels};
use crate::rows::Rows;

/// Metadata blocks kept: 16 MiB. When it is full it starts again empty, which costs each block in
/// use one more read.
const KEPT_BLOCKS: usize = 4096;

/// The reason why a block cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Its number belongs to no extent.
    Outside,
    /// The device failed.
    Disk(DiskError),
    /// Its content has another tag.
    Tag(Tag),
    /// The container has no block for its vvbn.
    Unmapped,
    /// The container expects another content.
    Disagreement,
    /// The way to it is damaged, which was reported.
    Unknown,
}

/// A block that was read: its content, or the other tag that was found.
type Kept = Result<Rc<Block>, Tag>;

pub(crate) struct Media<'a> {
    pub(crate) storage: &'a dyn Storage,
    /// For each member, the drives that have its blocks.
    drives: Vec<Vec<Drive>>,
    pub(crate) rows: Vec<Rows>,
    pub(crate) geometry: Geometry,
    pub(crate) key: &'a TagKey,
    pub(crate) uuid: Uuid,
    /// Blocks by number and expected tag: the block, or the tag that was found.
    kept: RefCell<HashMap<(u64, Tag), Kept>>,
}

impl<'a> Media<'a> {
    pub(crate) fn new(storage: &'a dyn Storage, labels: &'a Labels) -> Self {
        let config = &labels.config;
        let members = (0..).take(config.members.len());
        Media {
            storage,
            drives: members.map(|member| labels.drives_of(member)).collect(),
            rows: Rows::all(storage, labels),
            geometry: config.geometry().expect("checked when it was decoded"),
            key: &labels.key,
            uuid: config.uuid,
            kept: RefCell::new(HashMap::new()),
        }
    }

    /// Returns the drives that have a block; none if it is in no extent.
    pub(crate) fn drives_of(&self, pvbn: Pvbn) -> &[Drive] {
        match self.geometry.locate(pvbn) {
            Some(place) => &self.drives[place.member as usize],
            None => &[],
        }
    }

    /// Reads a block of metadata whose tag must be `tag`, from the first drive that has it.
    pub(crate) fn read(&self, pvbn: Pvbn, tag: Tag) -> Result<Rc<Block>, Fault> {
        if let Some(kept) = self.kept.borrow().get(&(pvbn.0, tag)) {
            return kept.clone().map_err(Fault::Tag);
        }
        let mut first = None;
        for drive in self.drives_of(pvbn) {
            let fault = match self.read_from(*drive, pvbn) {
                Ok((found, block)) if found == tag => {
                    let block = Rc::new(block);
                    self.keep(pvbn, tag, Ok(block.clone()));
                    return Ok(block);
                }
                Ok((found, _)) => Fault::Tag(found),
                Err(fault) => fault,
            };
            first.get_or_insert(fault);
        }
        if let Some(block) = self.reconstruct(pvbn, tag) {
            let block = Rc::new(block);
            self.keep(pvbn, tag, Ok(block.clone()));
            return Ok(block);
        }
        let fault = first.unwrap_or_else(|| self.absent(pvbn));
        if let Fault::Tag(found) = fault {
            self.keep(pvbn, tag, Err(found));
        }
        Err(fault)
    }

    /// Reconstructs a block of a parity group; `None` if it is in none, or no content has this tag.
    pub(crate) fn reconstruct(&self, pvbn: Pvbn, tag: Tag) -> Option<Block> {
        let place = self.geometry.locate(pvbn)?;
        let mut rows = self.rows.iter();
        let (rows, column) = rows.find_map(|rows| Some((rows, rows.column_of(place.member)?)))?;
        let at = (column, place.dbn.0);
        rows.reconstruct(self.storage, at, |block| self.key.tag(block) == tag)
    }

    /// True if a block is in a parity group.
    pub(crate) fn is_in_rows(&self, pvbn: Pvbn) -> bool {
        let place = self.geometry.locate(pvbn);
        place.is_some_and(|place| {
            let mut rows = self.rows.iter();
            rows.any(|rows| rows.column_of(place.member).is_some())
        })
    }

    /// Why a block that no drive has cannot be read.
    pub(crate) fn absent(&self, pvbn: Pvbn) -> Fault {
        match self.geometry.locate(pvbn) {
            Some(_) => Fault::Disk(DiskError::Gone),
            None => Fault::Outside,
        }
    }

    fn keep(&self, pvbn: Pvbn, tag: Tag, found: Result<Rc<Block>, Tag>) {
        let mut kept = self.kept.borrow_mut();
        if kept.len() >= KEPT_BLOCKS {
            kept.clear();
        }
        kept.insert((pvbn.0, tag), found);
    }

    /// One block, whatever it is, and its tag.
    pub(crate) fn read_from(&self, drive: Drive, pvbn: Pvbn) -> Result<(Tag, Block), Fault> {
        let mut block = [0; BLOCK_SIZE];
        self.read_run(drive, pvbn, &mut block)?;
        Ok((self.key.tag(&block), block))
    }

    /// Blocks from `pvbn` on, which must all be in one extent of a member that `drive` has the
    /// blocks of, as they are.
    pub(crate) fn read_run(
        &self,
        drive: Drive,
        pvbn: Pvbn,
        buffer: &mut [u8],
    ) -> Result<(), Fault> {
        let place = self.geometry.locate(pvbn).ok_or(Fault::Outside)?;
        if (buffer.len() / BLOCK_SIZE) as u64 > place.run {
            return Err(Fault::Outside);
        }
        let offset = place.dbn.0 * BLOCK_SIZE as u64;
        let result = self.storage.read(drive.device, offset, buffer);
        result.map_err(Fault::Disk)
    }
}
