//! A drive that catches up: how far it has got (decision 0041).
//!
//! ```text
//! begin ─▶ every block that is written from now on goes to the drive, too
//!   └▶ in each consistency point some of the blocks that the last one uses are copied to it
//!        └▶ all are copied ─▶ a consistency point after that of the beginning regains the drive
//! ```
//!
//! A block is used by the last consistency point, or it was written since the beginning. So when
//! all used blocks were copied once, the drive has every block.
//!
//! The position is in memory only: after a restart the drive catches up from the beginning.

use everglade_env::DeviceId;
use everglade_format::{CpNumber, Extent};

use crate::home::sweep::{Chunk, Sweep};
use crate::media::copies::CatchUpInfo;

/// Blocks that are copied in one consistency point: 16 MiB.
const BLOCKS_MAX: u64 = 4096;
/// Chunks that are read together, while the ones before them are written.
const CHUNKS_AHEAD: usize = 4;
/// Chunks that are looked at in one consistency point, with or without used blocks.
const CHUNKS_MAX: u64 = 1024;

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct CatchUp(Option<Active>);

struct Active {
    device: DeviceId,
    begun: CpNumber,
    begun_seconds: u64,
    /// Over the extents of its column.
    sweep: Sweep,
    /// The consistency point that copies, and its work.
    cp: CpNumber,
    copied: u64,
    chunks: u64,
}

impl CatchUp {
    /// Begins in a consistency point, with the extents of the drive's column, at this time.
    pub(crate) fn begin(
        device: DeviceId,
        extents: Vec<Extent>,
        (cp, seconds): (CpNumber, u64),
    ) -> CatchUp {
        CatchUp(Some(Active {
            device,
            begun: cp,
            begun_seconds: seconds,
            sweep: Sweep::of(extents),
            cp,
            copied: 0,
            chunks: 0,
        }))
    }

    /// The drive that catches up.
    pub(crate) fn device(&self) -> Option<DeviceId> {
        self.0.as_ref().map(|active| active.device)
    }

    /// The drive is not used any more, or has everything.
    pub(crate) fn end(&mut self) {
        self.0 = None;
    }

    /// Returns what a consistency point copies next; nothing if it has done its share, or all is
    /// copied.
    pub(crate) fn next_chunks(&mut self, cp: CpNumber) -> Vec<Chunk> {
        let Some(active) = self.0.as_mut() else {
            return Vec::new();
        };
        if active.cp != cp {
            (active.cp, active.copied, active.chunks) = (cp, 0, 0);
        }
        if active.copied >= BLOCKS_MAX || active.chunks >= CHUNKS_MAX {
            return Vec::new();
        }
        active.sweep.next_chunks(CHUNKS_AHEAD)
    }

    /// Records that a chunk was copied: so many of its blocks are used.
    pub(crate) fn advance(&mut self, chunk: Chunk, used: u64) {
        let Some(active) = &mut self.0 else {
            return;
        };
        active.copied += used;
        active.chunks += 1;
        active.sweep.advance(chunk);
    }

    /// Returns the drive if it has everything when consistency point `cp` is flushed.
    pub(crate) fn has_caught_up(&self, cp: CpNumber) -> Option<DeviceId> {
        let active = self.0.as_ref()?;
        (active.sweep.is_over() && cp > active.begun).then_some(active.device)
    }

    /// Returns how far the drive is; `None` if no drive catches up.
    pub(crate) fn progress(&self) -> Option<CatchUpInfo> {
        let active = self.0.as_ref()?;
        let (passed_blocks, total_blocks) = active.sweep.progress();
        Some(CatchUpInfo {
            device: active.device,
            passed_blocks,
            total_blocks,
            begun_seconds: active.begun_seconds,
        })
    }
}

#[cfg(test)]
mod tests {
    use everglade_format::Dbn;

    use super::*;

    fn extent(base: u64, length: u64, first: u64) -> Extent {
        Extent {
            base,
            length,
            group: 0,
            column: 0,
            member: 0,
            first_dbn: Dbn(first),
        }
    }

    #[test]
    fn all_blocks_of_the_column_are_passed_once_and_a_later_consistency_point_has_them() {
        let extents = vec![extent(0, 512, 300), extent(2048, 256, 1000)];
        let mut catching = CatchUp::begin(DeviceId(3), extents, (CpNumber(7), 100));
        let mut passed = Vec::new();
        for chunk in catching.next_chunks(CpNumber(7)) {
            passed.push((chunk.first, chunk.count, chunk.dbn));
            catching.advance(chunk, 1);
        }
        assert_eq!(catching.next_chunks(CpNumber(7)), []);
        assert_eq!(passed, [(0, 256, 300), (256, 256, 556), (2048, 256, 1000)]);
        let progress = catching.progress().expect("it catches up");
        assert_eq!((progress.passed_blocks, progress.total_blocks), (768, 768));
        assert_eq!(
            (progress.device, progress.begun_seconds),
            (DeviceId(3), 100)
        );
        assert_eq!(catching.has_caught_up(CpNumber(7)), None, "it began in it");
        assert_eq!(catching.has_caught_up(CpNumber(8)), Some(DeviceId(3)));
    }

    #[test]
    fn a_consistency_point_copies_its_share() {
        let extents = vec![extent(0, 1 << 20, 300)];
        let mut catching = CatchUp::begin(DeviceId(3), extents, (CpNumber(1), 0));
        let mut share = |cp| {
            let mut count = 0;
            loop {
                let chunks = catching.next_chunks(CpNumber(cp));
                if chunks.is_empty() {
                    return count;
                }
                for chunk in chunks {
                    catching.advance(chunk, chunk.count);
                    count += 1;
                }
            }
        };
        assert_eq!((share(1), share(2)), (16, 16));
        let extents = vec![extent(0, 1 << 20, 0)];
        let mut empty = CatchUp::begin(DeviceId(3), extents, (CpNumber(1), 0));
        let mut count = 0;
        while let Some(chunk) = empty.next_chunks(CpNumber(2)).first() {
            empty.advance(*chunk, 0);
            count += 1;
        }
        assert_eq!(count, CHUNKS_MAX);
    }
}
