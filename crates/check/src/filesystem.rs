//! One interface for both kinds of file system: an aggregate, and a volume inside its container.

use std::rc::Rc;
use std::sync::Arc;

use everglade_format::indirect::BlockKind;
use everglade_format::{
    Block, CpNumber, Damage, FileId, Header, Indirect, Inode, Layer, Pointer, Pvbn, SPAN, metafile,
};

use crate::media::{Fault, Media};
use crate::problem::Object;

/// The parts of a file system that only a volume has.
#[derive(Clone)]
pub(crate) struct Inside<'a> {
    pub(crate) volume: FileId,
    pub(crate) name: Arc<str>,
    pub(crate) aggregate: &'a FileSystem<'a>,
    pub(crate) container: &'a Inode,
    /// For a clone, the containers of its parents, the nearest first; they have the blocks of its
    /// base.
    pub(crate) above: Vec<Inode>,
}

impl Inside<'_> {
    /// The slot of a vvbn: its own, or of a block of the base that of a parent.
    pub(crate) fn slot(&self, vvbn: u64) -> Result<Pointer, Fault> {
        let own = pointer_at(self.aggregate, self.container, vvbn)?;
        if !own.is_hole() {
            return Ok(own);
        }
        for container in &self.above {
            let slot = pointer_at(self.aggregate, container, vvbn)?;
            if !slot.is_hole() {
                return Ok(slot);
            }
        }
        Ok(Pointer::HOLE)
    }
}

pub(crate) struct FileSystem<'a> {
    pub(crate) media: &'a Media<'a>,
    /// The last committed consistency point: no block has a later one.
    pub(crate) cp: CpNumber,
    /// True if blocks were lost: blocks they named may be in use without a reference.
    pub(crate) has_lost: bool,
    /// `None` for the aggregate.
    pub(crate) inside: Option<Inside<'a>>,
}

impl FileSystem<'_> {
    pub(crate) fn layer(&self) -> Layer {
        match self.inside {
            None => Layer::Aggregate,
            Some(_) => Layer::Volume,
        }
    }

    /// The file system as a whole.
    pub(crate) fn object(&self) -> Object {
        match &self.inside {
            None => Object::Aggregate,
            Some(inside) => Object::Volume {
                volume: inside.volume,
                name: inside.name.clone(),
            },
        }
    }

    /// A file of this file system; `name` says which.
    pub(crate) fn file(&self, file: FileId, name: Arc<str>) -> Object {
        match &self.inside {
            None => Object::File { file, name },
            Some(inside) => Object::VolumeFile {
                volume: inside.volume,
                volume_name: inside.name.clone(),
                file,
                name,
            },
        }
    }

    /// A metafile of it.
    pub(crate) fn metafile(&self, file: FileId) -> Object {
        let known = metafile::METAFILES.iter().find(|known| known.id == file);
        let name = match known {
            Some(known) => known.name,
            None if file == metafile::INODE_FILE => "inode file",
            None => "unknown metafile",
        };
        self.file(file, name.into())
    }

    /// The present place of the block that `pointer` names.
    pub(crate) fn pvbn_of(&self, pointer: &Pointer) -> Option<Pvbn> {
        let pvbn = match &self.inside {
            None => pointer.pvbn,
            Some(inside) => inside.slot(pointer.vvbn.0).ok()?.pvbn,
        };
        (pvbn.0 != 0).then_some(pvbn)
    }

    /// The block that `pointer` names, through the container in a volume, with the content it
    /// expects.
    pub(crate) fn read(&self, pointer: &Pointer) -> Result<Rc<Block>, Fault> {
        let Some(inside) = &self.inside else {
            return self.media.read(pointer.pvbn, pointer.tag);
        };
        let slot = inside.slot(pointer.vvbn.0)?;
        if slot.is_hole() {
            return Err(Fault::Unmapped);
        }
        if slot.tag != pointer.tag {
            return Err(Fault::Disagreement);
        }
        self.media.read(slot.pvbn, slot.tag)
    }
}

/// The pointer to leaf `fbn`, if all blocks on the way to it are right.
pub(crate) fn pointer_at(fs: &FileSystem<'_>, inode: &Inode, fbn: u64) -> Result<Pointer, Fault> {
    if fbn >= Inode::reach(inode.levels) {
        return Ok(Pointer::HOLE);
    }
    let mut pointer = inode.root;
    let unknown = |_: Damage| Fault::Unknown;
    for level in (1..=inode.levels).rev() {
        if pointer.is_hole() {
            break;
        }
        let block = fs.read(&pointer).map_err(|_| Fault::Unknown)?;
        let kind = BlockKind::indirect(fs.layer());
        let index = fbn / Inode::reach(level);
        Header::expect(&block, kind, level, inode.id, index).map_err(unknown)?;
        let slot = fbn / Inode::reach(level - 1) % SPAN;
        pointer = Indirect(&block)
            .pointer(slot, fs.layer())
            .map_err(unknown)?;
    }
    Ok(pointer)
}
