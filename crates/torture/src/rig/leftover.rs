//! What a power cut leaves of writes that were not flushed: nothing, or an arbitrary part.
//!
//! The cache filter of nbdkit keeps them in an unlinked file, at the offsets they have on the
//! device. The rig opens that file before it kills the process, so the file can still be read
//! afterwards. Then the rig copies an arbitrary part of its blocks to the backing file, or none: a
//! disk with a volatile cache might have written any of them before the power cut. (The filter's
//! own way of making room, `cache-max-size`, is of no use: nbdkit 1.32 throws unflushed blocks
//! away, which no disk does.)

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::SeekFrom;

use crate::{Failure, Random};

const BLOCK: usize = 4096;

/// What becomes of unflushed writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// All of them are gone.
    Everything,
    /// So many of 256 blocks are not.
    Some(u64),
}

/// The cache of a process that is about to be killed.
pub(super) struct Leftover {
    cache: File,
}

impl Leftover {
    /// Takes hold of the unlinked file below `folder` that the process has open.
    pub(super) fn of(process: u32, folder: &Path) -> Result<Leftover, Failure> {
        let descriptors = Path::new("/proc").join(process.to_string()).join("fd");
        let list = fs::read_dir(&descriptors);
        let list = list.map_err(|error| Failure::at("list", &descriptors, &error))?;
        for entry in list.flatten() {
            let target = fs::read_link(entry.path()).unwrap_or_default();
            let is_unlinked = target.to_string_lossy().ends_with(" (deleted)");
            if is_unlinked && target.starts_with(folder) {
                let cache = File::open(entry.path());
                let cache = cache.map_err(|error| Failure::at("open", &target, &error))?;
                return Ok(Leftover { cache });
            }
        }
        let text = format!("process {process} has no cache below {}", folder.display());
        Err(Failure::Rig(text))
    }

    /// Moves the chosen part to the backing file. Returns how many blocks that were.
    pub(super) fn settle(
        &self,
        loss: Loss,
        backing: &Path,
        random: &mut Random,
    ) -> Result<u64, Failure> {
        let Loss::Some(of_256) = loss else {
            return Ok(0);
        };
        let problem = |error: std::io::Error| Failure::at("move blocks to", backing, &error);
        let disk = File::options().write(true).open(backing);
        let disk = disk.map_err(problem)?;
        let mut block = [0; BLOCK];
        let mut moved = 0;
        let mut at = 0;
        while let Some((begin, end)) = self.extent(at) {
            for offset in (begin..end).step_by(BLOCK) {
                if random.below(256) < of_256 {
                    self.cache
                        .read_exact_at(&mut block, offset)
                        .map_err(problem)?;
                    disk.write_all_at(&block, offset).map_err(problem)?;
                    moved += 1;
                }
            }
            at = end;
        }
        Ok(moved)
    }

    /// The next range that holds anything.
    fn extent(&self, at: u64) -> Option<(u64, u64)> {
        let begin = rustix::fs::seek(&self.cache, SeekFrom::Data(at)).ok()?;
        let end = rustix::fs::seek(&self.cache, SeekFrom::Hole(begin)).ok()?;
        let block = BLOCK as u64;
        Some((begin / block * block, end / block * block)).filter(|(begin, end)| begin < end)
    }
}
