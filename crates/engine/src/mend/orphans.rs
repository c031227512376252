//! Orphans: blocks in use whose only reference is in a block that cannot be read.
//!
//! Below an indirect block of an overflow file there are places of maps as they were before the
//! last consistency point. Their content is not needed; they only have to be freed. They are
//! exactly the blocks that are in use in the active map and that no tree refers to. The search goes
//! through the number space in windows, each with a survey of its own, so that memory is bounded
//! whatever the size of the pool.

use everglade_format::metafile::ACTIVE_MAP;
use everglade_format::volume::SUPERBLOCK_VVBN;
use everglade_format::{BITS_PER_BLOCK, Block, FileId, Inode, bitmap};

use super::survey::Survey;
use super::view::View;
use crate::read::load::{Gather, LoadCx, Stop};
use crate::tree::File;
use crate::tree::position::Position;

/// Blocks of the active map in a window: 16 MiB.
const WINDOW_BLOCKS: u64 = 4096;
/// Blocks of the active map read in one step.
const STEP_BLOCKS: u64 = 64;

/// See the module's documentation.
pub(super) struct Orphans {
    inode_file: Inode,
    volume: Option<FileId>,
    skip: Option<(FileId, Position)>,
    /// The first map block of the window.
    first: u64,
    referenced: Vec<Block>,
    survey: Option<Survey>,
    /// Map blocks of the window that were compared.
    compared: u64,
    pub(super) found: Vec<u64>,
}

impl Orphans {
    /// A search in the aggregate, or in a volume's active image, given by the inode of its inode
    /// file. References below `skip` do not count.
    pub(super) fn new(
        inode_file: &Inode,
        volume: Option<FileId>,
        skip: Option<(FileId, Position)>,
    ) -> Orphans {
        Orphans {
            inode_file: inode_file.clone(),
            volume,
            skip,
            first: 0,
            referenced: Vec::new(),
            survey: None,
            compared: 0,
            found: Vec::new(),
        }
    }

    /// Runs the next step. Returns true when all orphans are found.
    pub(super) fn step(&mut self, view: &View<'_>, cx: &mut LoadCx<'_>) -> Result<bool, Stop> {
        let map = self.map(view, cx)?;
        let end = map.inode.block_count();
        let window = WINDOW_BLOCKS.min(end.saturating_sub(self.first));
        if window == 0 {
            return Ok(true);
        }
        if self.referenced.is_empty() {
            let blocks = usize::try_from(window).expect("at most 4,096");
            self.referenced = vec![[0; everglade_format::BLOCK_SIZE]; blocks];
            self.survey = Some(Survey::new(&self.inode_file, self.volume, self.skip));
            self.compared = 0;
        }
        if let Some(survey) = &mut self.survey {
            let (first, is_volume) = (self.first, self.volume.is_some());
            let referenced = &mut self.referenced;
            let is_done = survey.step(cx, &mut |_, _, pointer| {
                let number = if is_volume {
                    pointer.vvbn.0
                } else {
                    pointer.pvbn.0
                };
                let block = (number / BITS_PER_BLOCK).checked_sub(first);
                let block = block.and_then(|block| usize::try_from(block).ok());
                if let Some(bits) = block.and_then(|block| referenced.get_mut(block)) {
                    bitmap::set(bits, number % BITS_PER_BLOCK);
                }
            })?;
            if is_done {
                self.survey = None;
            }
            return Ok(false);
        }
        let some = STEP_BLOCKS.min(window - self.compared);
        let mut gather = Gather::default();
        let mut pages = Vec::new();
        for block in self.compared..self.compared + some {
            let leaf = map.leaf(cx, self.first + block).map(|leaf| leaf.to_page());
            pages.extend(gather.add(leaf).map(|page| (block, page)));
        }
        gather.finish()?;
        for (block, page) in pages {
            let place = usize::try_from(block).expect("in the window");
            let mut left = Box::new(*page);
            bitmap::subtract(&mut left, &self.referenced[place]);
            let base = (self.first + block) * BITS_PER_BLOCK;
            let numbers = bitmap::ones(&left).map(|bit| base + bit);
            let superblock = self.volume.map(|_| SUPERBLOCK_VVBN.0);
            self.found
                .extend(numbers.filter(|it| Some(*it) != superblock));
        }
        self.compared += some;
        if self.compared == window {
            self.first += window;
            self.referenced.clear();
        }
        Ok(false)
    }

    /// The active map.
    fn map(&self, view: &View<'_>, cx: &mut LoadCx<'_>) -> Result<File, Stop> {
        match self.volume {
            None => view.file(cx, ACTIVE_MAP),
            Some(volume) => view.file_of(cx, volume, &self.inode_file, ACTIVE_MAP),
        }
    }
}
