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

use everglade_env::{DeviceId, Nanos};
use everglade_format::{CpNumber, Extent};

use crate::home::sweep::{CHUNK_BLOCKS, Chunk, Sweep};
use crate::media::copies::CatchUpInfo;
use crate::media::pace::{Bite, Job, Pace};

/// What one consistency point copies.
#[derive(Clone, Copy, Debug)]
struct Share {
    /// Blocks that are copied.
    blocks: u64,
    /// Chunks that are passed, also those without used blocks.
    chunks: u64,
    /// Blocks of a chunk.
    chunk_blocks: u64,
    /// Chunks that are read together, while the ones before them are written.
    ahead: usize,
}

impl Share {
    const NOTHING: Share = Share {
        blocks: 0,
        ..Share::SMALL
    };
    /// 1 MiB, in reads of 128 KiB.
    const SMALL: Share = Share {
        blocks: 256,
        chunks: 1024,
        chunk_blocks: 32,
        ahead: 1,
    };
    /// 32 MiB, in reads of 1 MiB.
    const LARGE: Share = Share {
        blocks: 8192,
        chunks: 1024,
        chunk_blocks: CHUNK_BLOCKS,
        ahead: 4,
    };
}

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
    cp: Option<CpNumber>,
    share: Share,
    copied: u64,
    chunks: u64,
    began: Nanos,
    /// When the next share is due.
    rests_until: Nanos,
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
            cp: None,
            share: Share::NOTHING,
            copied: 0,
            chunks: 0,
            began: 0,
            rests_until: 0,
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

    /// A consistency point copies from now on, if it has not begun to.
    pub(crate) fn begin_share(&mut self, cp: CpNumber, pace: &Pace, now: Nanos) {
        let Some(active) = self.0.as_mut().filter(|active| active.cp != Some(cp)) else {
            return;
        };
        let share = match pace.bite(now) {
            _ if now < active.rests_until => Share::NOTHING,
            Bite::Large => Share::LARGE,
            Bite::Small => Share::SMALL,
        };
        (active.cp, active.share, active.began) = (Some(cp), share, now);
        (active.copied, active.chunks) = (0, 0);
    }

    /// The consistency point has copied its share.
    pub(crate) fn end_share(&mut self, pace: &Pace, now: Nanos) {
        let Some(active) = self.0.as_mut().filter(|it| it.share.blocks > 0) else {
            return;
        };
        let took = now.saturating_sub(active.began);
        active.rests_until = now + pace.rest(Job::CatchUp, took, now);
    }

    /// When the next share is due; `None` if no drive catches up.
    pub(crate) fn rests_until(&self) -> Option<Nanos> {
        self.0.as_ref().map(|active| active.rests_until)
    }

    /// Returns what the consistency point copies next; nothing if it has done its share, or all is
    /// copied.
    pub(crate) fn next_chunks(&self) -> Vec<Chunk> {
        let Some(active) = &self.0 else {
            return Vec::new();
        };
        let share = active.share;
        if active.copied >= share.blocks || active.chunks >= share.chunks {
            return Vec::new();
        }
        active.sweep.next_chunks(share.ahead, share.chunk_blocks)
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
        catching.begin_share(CpNumber(7), &Pace::default(), 10);
        for chunk in catching.next_chunks() {
            passed.push((chunk.first, chunk.count, chunk.dbn));
            catching.advance(chunk, 1);
        }
        assert_eq!(catching.next_chunks(), []);
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

    /// Copies a share, with so many blocks in use of each 32. Returns chunks and their blocks.
    fn share(catching: &mut CatchUp, used: u64) -> (u64, u64) {
        let (mut count, mut blocks) = (0, 0);
        loop {
            let chunks = catching.next_chunks();
            if chunks.is_empty() {
                return (count, blocks);
            }
            for chunk in chunks {
                catching.advance(chunk, chunk.count * used / 32);
                (count, blocks) = (count + 1, blocks + chunk.count);
            }
        }
    }

    #[test]
    fn a_consistency_point_copies_its_share() {
        let pace = Pace::default();
        let extents = vec![extent(0, 1 << 20, 300)];
        let mut catching = CatchUp::begin(DeviceId(3), extents.clone(), (CpNumber(1), 0));
        for cp in 1..3 {
            catching.begin_share(CpNumber(cp), &pace, 10 * cp);
            assert_eq!(share(&mut catching, 32), (32, 8192));
            catching.begin_share(CpNumber(cp), &pace, 10 * cp);
            assert_eq!(share(&mut catching, 32), (0, 0), "it has done its share");
            catching.end_share(&pace, 10 * cp + 5);
            assert_eq!(catching.rests_until(), Some(10 * cp + 5));
        }
        let mut empty = CatchUp::begin(DeviceId(3), extents, (CpNumber(1), 0));
        empty.begin_share(CpNumber(2), &pace, 10);
        assert_eq!(share(&mut empty, 0).0, 1024);
    }

    #[test]
    fn it_copies_little_at_once_and_rests_while_clients_are_there() {
        let pace = Pace::default();
        pace.hear(100);
        let extents = vec![extent(0, 1 << 20, 300)];
        let mut catching = CatchUp::begin(DeviceId(3), extents, (CpNumber(1), 0));
        catching.begin_share(CpNumber(1), &pace, 100);
        assert_eq!(share(&mut catching, 32), (8, 256));
        catching.end_share(&pace, 110);
        assert_eq!(
            catching.rests_until(),
            Some(110 + pace.rest(Job::CatchUp, 10, 110))
        );
        catching.begin_share(CpNumber(2), &pace, 111);
        assert_eq!(share(&mut catching, 32), (0, 0), "it rests");
        catching.end_share(&pace, 112);
        assert_eq!(catching.rests_until(), Some(150), "as before");
        catching.begin_share(CpNumber(3), &pace, 150);
        assert_eq!(share(&mut catching, 32), (8, 256));
    }
}
