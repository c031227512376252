//! Surveys: every block that the trees of a committed image refer to, a few indirect blocks at a
//! time.
//!
//! A survey reads the last committed consistency point, whatever the running one has changed in
//! memory: no committed block is overwritten before the next commit (Lemma 1). So a survey depends
//! on the media alone, may take any number of steps, and keeps only the indirect blocks in memory
//! that it has not read yet.

use everglade_format::indirect::BlockKind;
use everglade_format::inode::INODES_PER_BLOCK;
use everglade_format::metafile::INODE_FILE;
use everglade_format::{FileId, Header, Indirect, Inode, Layer, Pointer, SPAN};

use crate::read::load::{BlockName, Gather, LoadCx, Stop};
use crate::tree::position::Position;

/// Blocks read in one step.
const STEP_BLOCKS: usize = 64;

/// Called for each block: with the file's inode, the position in the file, and the pointer to the
/// block.
pub(super) type Visit<'v> = &'v mut dyn FnMut(&Inode, Position, Pointer);

/// The blocks of one tree.
pub(super) struct Walk {
    inode: Inode,
    layer: Layer,
    volume: Option<FileId>,
    root: bool,
    /// Indirect blocks that are yet to be read.
    left: Vec<(Position, Pointer)>,
}

impl Walk {
    pub(super) fn new(inode: Inode, layer: Layer, volume: Option<FileId>) -> Walk {
        Walk {
            inode,
            layer,
            volume,
            root: true,
            left: Vec::new(),
        }
    }

    /// Runs the next step. Returns true when all blocks were visited. Blocks below `skip` are left
    /// out.
    pub(super) fn step(
        &mut self,
        cx: &mut LoadCx<'_>,
        skip: Option<Position>,
        visit: Visit<'_>,
    ) -> Result<bool, Stop> {
        if std::mem::take(&mut self.root) {
            let position = (self.inode.levels, 0);
            self.tell(position, self.inode.root, skip, visit);
            return Ok(self.left.is_empty());
        }
        let from = self.left.len().saturating_sub(STEP_BLOCKS);
        let kind = BlockKind::indirect(self.layer);
        let mut gather = Gather::default();
        let mut pages = Vec::with_capacity(self.left.len() - from);
        for ((level, index), pointer) in &self.left[from..] {
            let page = cx.page(*pointer).and_then(|page| {
                Header::expect(&page, kind, *level, self.inode.id, *index)?;
                Ok(page)
            });
            let name = BlockName {
                volume: self.volume,
                file: self.inode.id,
                level: *level,
                index: *index,
            };
            pages.extend(gather.add(page.map_err(|stop| stop.at(name, *pointer))));
        }
        gather.finish()?;
        for (((level, index), _), page) in self.left.split_off(from).into_iter().zip(pages) {
            for slot in 0..SPAN {
                let child = Indirect(&page).pointer(slot, self.layer)?;
                self.tell((level - 1, index * SPAN + slot), child, skip, visit);
            }
        }
        Ok(self.left.is_empty())
    }

    fn tell(
        &mut self,
        position: Position,
        pointer: Pointer,
        skip: Option<Position>,
        visit: Visit<'_>,
    ) {
        if !pointer.has_block() {
            return;
        }
        visit(&self.inode, position, pointer);
        if position.0 > 0 && skip != Some(position) {
            self.left.push((position, pointer));
        }
    }
}

/// The blocks of all files of an image.
pub(super) struct Survey {
    layer: Layer,
    volume: Option<FileId>,
    skip: Option<(FileId, Position)>,
    inodes: Option<Walk>,
    /// Blocks of inodes that are yet to be read.
    leaves: Vec<(u64, Pointer)>,
    files: Vec<Inode>,
    now: Option<Walk>,
}

impl Survey {
    /// A survey of the aggregate, or of an image of a volume, given by the inode of its inode file.
    /// Blocks below block `skip` are left out.
    pub(super) fn new(
        inode_file: &Inode,
        volume: Option<FileId>,
        skip: Option<(FileId, Position)>,
    ) -> Survey {
        let layer = match volume {
            None => Layer::Aggregate,
            Some(_) => Layer::Volume,
        };
        Survey {
            layer,
            volume,
            skip,
            inodes: Some(Walk::new(inode_file.clone(), layer, volume)),
            leaves: Vec::new(),
            files: Vec::new(),
            now: None,
        }
    }

    /// Runs the next step. Returns true when all blocks were visited.
    pub(super) fn step(&mut self, cx: &mut LoadCx<'_>, visit: Visit<'_>) -> Result<bool, Stop> {
        let skip_in = |id: FileId, skip: Option<(FileId, Position)>| {
            skip.filter(|(file, _)| *file == id)
                .map(|(_, position)| position)
        };
        if let Some(walk) = &mut self.inodes {
            let leaves = &mut self.leaves;
            let skip = skip_in(INODE_FILE, self.skip);
            let is_done = walk.step(cx, skip, &mut |inode, position, pointer| {
                if position.0 == 0 {
                    leaves.push((position.1, pointer));
                }
                visit(inode, position, pointer);
            })?;
            if is_done {
                self.inodes = None;
            }
            return Ok(false);
        }
        if let Some(walk) = &mut self.now {
            if walk.step(cx, skip_in(walk.inode.id, self.skip), visit)? {
                self.now = None;
            }
            return Ok(false);
        }
        if let Some(inode) = self.files.pop() {
            self.now = Some(Walk::new(inode, self.layer, self.volume));
            return Ok(false);
        }
        if self.leaves.is_empty() {
            return Ok(true);
        }
        self.read_inodes(cx)?;
        Ok(false)
    }

    fn read_inodes(&mut self, cx: &mut LoadCx<'_>) -> Result<(), Stop> {
        let from = self.leaves.len().saturating_sub(STEP_BLOCKS);
        let mut gather = Gather::default();
        let mut pages = Vec::new();
        for (index, pointer) in &self.leaves[from..] {
            let name = BlockName {
                volume: self.volume,
                file: INODE_FILE,
                level: 0,
                index: *index,
            };
            let page = cx.page(*pointer).map_err(|stop| stop.at(name, *pointer));
            pages.extend(gather.add(page).map(|page| (*index, page)));
        }
        gather.finish()?;
        let mut files = Vec::new();
        for (index, page) in pages {
            for slot in 0..INODES_PER_BLOCK {
                let id = u32::try_from(index * INODES_PER_BLOCK + slot);
                let id = FileId(id.unwrap_or(u32::MAX));
                let slot = usize::try_from(slot).expect("below 14");
                // The inode file itself is not in it.
                files.extend(Inode::decode_from(&page, slot, id, self.layer)?);
            }
        }
        self.leaves.truncate(from);
        self.files = files;
        Ok(())
    }
}
