//! Media: blocks by pvbn, verified as they are read; recently read metadata is kept.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use everglade_env::{DeviceId, DiskError, Storage};
use everglade_format::config::Uuid;
use everglade_format::{BLOCK_SIZE, Block, Geometry, Pvbn, Tag, TagKey};

use crate::labels::Labels;

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

pub(crate) struct Media<'a> {
    storage: &'a dyn Storage,
    devices: &'a [DeviceId],
    pub(crate) geometry: Geometry,
    pub(crate) key: &'a TagKey,
    pub(crate) uuid: Uuid,
    kept: RefCell<HashMap<u64, (Tag, Rc<Block>)>>,
}

impl<'a> Media<'a> {
    pub(crate) fn new(storage: &'a dyn Storage, labels: &'a Labels) -> Self {
        let config = &labels.config;
        Media {
            storage,
            devices: &labels.devices,
            geometry: config.geometry().expect("checked when it was decoded"),
            key: &labels.key,
            uuid: config.uuid,
            kept: RefCell::new(HashMap::new()),
        }
    }

    /// Reads a block of metadata whose tag must be `tag`.
    pub(crate) fn read(&self, pvbn: Pvbn, tag: Tag) -> Result<Rc<Block>, Fault> {
        let (found, block) = self.read_any(pvbn)?;
        if found == tag {
            Ok(block)
        } else {
            Err(Fault::Tag(found))
        }
    }

    /// One block of metadata, whatever it is, and its tag.
    pub(crate) fn read_any(&self, pvbn: Pvbn) -> Result<(Tag, Rc<Block>), Fault> {
        if let Some(kept) = self.kept.borrow().get(&pvbn.0) {
            return Ok(kept.clone());
        }
        let mut block = [0; BLOCK_SIZE];
        self.read_run(pvbn, &mut block)?;
        let found = (self.key.tag(&block), Rc::new(block));
        let mut kept = self.kept.borrow_mut();
        if kept.len() >= KEPT_BLOCKS {
            kept.clear();
        }
        kept.insert(pvbn.0, found.clone());
        Ok(found)
    }

    /// Blocks from `pvbn` on, which must all be in one extent, as they are.
    pub(crate) fn read_run(&self, pvbn: Pvbn, buffer: &mut [u8]) -> Result<(), Fault> {
        let place = self.geometry.locate(pvbn).ok_or(Fault::Outside)?;
        if (buffer.len() / BLOCK_SIZE) as u64 > place.run {
            return Err(Fault::Outside);
        }
        let device = self.devices[place.member as usize];
        let offset = place.dbn.0 * BLOCK_SIZE as u64;
        let result = self.storage.read(device, offset, buffer);
        result.map_err(Fault::Disk)
    }
}
