//! A scrub: every block in use is read from every drive that has it, and compared with its tag.
//!
//! ```text
//! a consistency point lists blocks that the last one uses, with their tags ─▶ batch
//!   └▶ they are read from all drives, outside of consistency points
//!        ├▶ right on one drive, wrong on another ─▶ noted, and written again (`media::copies`)
//!        └▶ right on none ─▶ a suspect: lost, if the next consistency point has it still in use
//! ```
//!
//! 1. A block may be freed and used anew while it is read. So what is found is acted upon, and
//!    counted, only if the maps still say then that the block has this tag.
//! 2. The next batch is listed by a later consistency point, so the rest between them is the pace.
//! 3. A drive that is catching up is not read: it gets all blocks anyhow.
//! 4. In a parity group, the parity of each stripe with a block in use is compared with its data
//!    ([`crate::home::parity_scrub`]).
//! 5. The position is in memory only. Who keeps it can have a scrub go on from there after a
//!    restart.

use std::collections::VecDeque;

use everglade_env::{DeviceId, Nanos, PageRef};
use everglade_format::{Extent, Pvbn, Tag, TagKey};

use crate::change::EarlierScrub;
use crate::home::parity_scrub::{ParityScrub, RUN_STRIPES, StripeRun};
use crate::home::sweep::{Chunk, Sweep};
use crate::media::Media;
use crate::media::copies::Note;
use crate::media::pace::{Bite, Job, Pace};
use crate::pool::scrub::{ScrubInfo, ScrubState};

/// Blocks that one consistency point lists: 4 MiB of each drive.
const BATCH_BLOCKS: usize = 1024;
/// Chunks that it looks at, with or without blocks in use.
const CHUNKS_MAX: usize = 1024;
/// Blocks in one read: their tags take about a tenth of a millisecond.
pub(crate) const READ_BLOCKS: usize = 64;
/// The same while clients are there.
const READ_BLOCKS_SMALL: usize = 16;

/// Blocks that are neighbours, with their tags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TaggedRun {
    pub(crate) first: Pvbn,
    pub(crate) tags: Vec<Tag>,
}

/// A run that is being read.
struct Reading {
    run: TaggedRun,
    drives: Vec<DeviceId>,
    /// The pages of each drive that has answered; none if it could not read.
    pages: Vec<Option<Vec<PageRef>>>,
    left: usize,
}

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Scrub {
    sweep: Sweep,
    info: ScrubInfo,
    batch: VecDeque<TaggedRun>,
    /// Blocks and chunks of the batch.
    listed: (usize, usize),
    reading: Option<Reading>,
    /// When the drives were last asked for something.
    asked: Nanos,
    /// When it reads on, if it rests.
    rests_until: Option<Nanos>,
    /// Blocks that no drive has right, unless they were freed since.
    suspects: Vec<(Pvbn, Tag)>,
    pub(crate) parity: ParityScrub,
}

impl Scrub {
    /// Begins anew, or goes on if it is paused or under way. If there was none, it goes on where
    /// `earlier` was, which a restart has ended.
    pub(crate) fn start(
        &mut self,
        extents: Vec<Extent>,
        seconds: u64,
        earlier: Option<EarlierScrub>,
    ) {
        match (self.info.state, earlier) {
            (ScrubState::Running, _) => return,
            (ScrubState::Paused, _) => {}
            (ScrubState::Never, Some(earlier)) => {
                self.sweep = Sweep::of(extents);
                self.sweep.skip(earlier.read_blocks);
                self.info = ScrubInfo {
                    read_copies: earlier.read_copies,
                    wrong_blocks: earlier.wrong_blocks,
                    lost_blocks: earlier.lost_blocks,
                    begun_seconds: earlier.begun_seconds,
                    ..ScrubInfo::default()
                };
            }
            _ => {
                self.sweep = Sweep::of(extents);
                self.info = ScrubInfo {
                    begun_seconds: seconds,
                    ..ScrubInfo::default()
                };
            }
        }
        self.note_progress();
        self.info = ScrubInfo {
            state: ScrubState::Running,
            resumed_seconds: seconds,
            resumed_blocks: self.info.passed_blocks,
            ended_seconds: None,
            ..self.info
        };
    }

    /// Waits after what is being read.
    pub(crate) fn pause(&mut self) {
        if self.info.state == ScrubState::Running {
            self.info.state = ScrubState::Paused;
        }
    }

    pub(crate) fn info(&self) -> ScrubInfo {
        self.info
    }

    fn note_progress(&mut self) {
        (self.info.passed_blocks, self.info.total_blocks) = self.sweep.progress();
    }

    fn is_running(&self) -> bool {
        self.info.state == ScrubState::Running
    }

    /// True if drives are being read.
    pub(crate) fn is_reading(&self) -> bool {
        self.reading.is_some() || self.parity.is_reading()
    }

    /// True if it waits for a consistency point.
    pub(crate) fn is_waiting(&self) -> bool {
        let is_idle = self.batch.is_empty() && self.reading.is_none() && self.parity.is_idle();
        self.is_running() && is_idle
    }

    /// So many blocks of parity were wrong.
    pub(crate) fn add_wrong_parity(&mut self, blocks: u64) {
        self.info.wrong_blocks += blocks;
    }

    /// Begins a batch, if one is due.
    pub(crate) fn begin_batch(&mut self) {
        if self.is_waiting() {
            self.listed = (0, 0);
            self.info.read_blocks = self.info.passed_blocks;
        }
    }

    /// Returns the chunk whose blocks are to be listed next; `None` if the batch is full, or
    /// everything was listed.
    pub(crate) fn next_chunk(&self) -> Option<Chunk> {
        let (blocks, chunks) = self.listed;
        let is_due = self.is_running() && self.reading.is_none();
        let has_room = blocks < BATCH_BLOCKS && chunks < CHUNKS_MAX;
        self.sweep.next_chunk().filter(|_| is_due && has_room)
    }

    /// Adds the blocks in use of a chunk, ascending.
    pub(crate) fn list(&mut self, chunk: Chunk, blocks: impl IntoIterator<Item = (Pvbn, Tag)>) {
        for (pvbn, tag) in blocks {
            self.listed.0 += 1;
            let last = self.batch.back_mut();
            let is_next = |run: &&mut TaggedRun| {
                let count = run.tags.len();
                run.first.0 + count as u64 == pvbn.0 && count < READ_BLOCKS
            };
            match last.filter(is_next) {
                Some(run) if pvbn.0 > chunk.first => run.tags.push(tag),
                _ => self.batch.push_back(TaggedRun {
                    first: pvbn,
                    tags: vec![tag],
                }),
            }
        }
        self.listed.1 += 1;
        self.sweep.advance(chunk);
        self.note_progress();
    }

    /// Returns what no drive has right.
    pub(crate) fn suspects(&self) -> &[(Pvbn, Tag)] {
        &self.suspects
    }

    /// So many of the suspects are still in use and lost, and so many were reconstructed.
    pub(crate) fn judge_suspects(&mut self, lost: u64, reconstructed: u64) {
        self.suspects.clear();
        self.info.lost_blocks += lost;
        self.info.wrong_blocks += reconstructed;
    }

    /// Ends it, if everything was read and judged.
    pub(crate) fn end_if_over(&mut self, seconds: u64) {
        if self.is_waiting() && self.sweep.is_over() && self.suspects.is_empty() {
            self.info.state = ScrubState::Done;
            self.info.ended_seconds = Some(seconds);
            self.info.read_blocks = self.info.passed_blocks;
        }
    }

    /// True if it rests at this time. If it does not, the rest is over.
    pub(crate) fn is_resting(&mut self, now: Nanos) -> bool {
        self.rests_until = self.rests_until.filter(|at| now < *at);
        self.rests_until.is_some()
    }

    /// When it reads on, if it rests.
    pub(crate) fn rests_until(&self) -> Option<Nanos> {
        self.rests_until
    }

    /// Drives are asked for something.
    pub(crate) fn note_asked(&mut self, pace: &Pace, now: Nanos) {
        self.asked = now;
        pace.set_busy(Job::Scrub, true);
    }

    /// Drives have answered.
    pub(crate) fn note_answered(&mut self, pace: &Pace, now: Nanos) {
        pace.set_busy(Job::Scrub, false);
        let rest = pace.rest(Job::Scrub, now.saturating_sub(self.asked), now);
        let has_more = self.is_running() && !self.is_waiting();
        self.rests_until = (rest > 0 && has_more).then_some(now + rest);
    }

    /// Takes the run that is to be read next, unless one is being read.
    pub(crate) fn take_run(&mut self, bite: Bite) -> Option<TaggedRun> {
        if !self.is_running() || self.reading.is_some() {
            return None;
        }
        let mut run = self.batch.pop_front()?;
        let most = match bite {
            Bite::Large => READ_BLOCKS,
            Bite::Small => READ_BLOCKS_SMALL,
        };
        if run.tags.len() > most {
            let tags = run.tags.split_off(most);
            let first = Pvbn(run.first.0 + most as u64);
            self.batch.push_front(TaggedRun { first, tags });
        }
        Some(run)
    }

    /// Takes the stripes whose parity is to be read next, when no blocks are to be read.
    pub(crate) fn take_stripes(&mut self, bite: Bite) -> Option<StripeRun> {
        let is_due = self.is_running() && self.reading.is_none() && self.batch.is_empty();
        let most = match bite {
            Bite::Large => RUN_STRIPES,
            Bite::Small => READ_BLOCKS_SMALL,
        };
        match is_due {
            true => self.parity.take_run(most),
            false => None,
        }
    }

    /// A run is being read from these drives.
    pub(crate) fn begin_reading(&mut self, run: TaggedRun, drives: Vec<DeviceId>) {
        self.reading = Some(Reading {
            run,
            pages: drives.iter().map(|_| None).collect(),
            left: drives.len(),
            drives,
        });
    }

    /// Returns a drive that is being read.
    pub(crate) fn device(&self, drive: usize) -> DeviceId {
        let reading = self.reading.as_ref().expect("it is being read");
        reading.drives[drive]
    }

    /// A drive has answered. True if that was the last one.
    pub(crate) fn answered(&mut self, drive: usize, pages: Option<Vec<PageRef>>) -> bool {
        let reading = self.reading.as_mut().expect("it is being read");
        reading.pages[drive] = pages;
        reading.left -= 1;
        reading.left == 0
    }

    /// All drives have answered: notes what is wrong. A run that a drive could not read is read
    /// block by block. Returns true if something is to be written again.
    pub(crate) fn compare(&mut self, media: &Media, key: &TagKey) -> bool {
        let Reading {
            run, drives, pages, ..
        } = self.reading.take().expect("it was read");
        if run.tags.len() > 1 && pages.iter().any(Option::is_none) {
            for (index, tag) in run.tags.iter().enumerate().rev() {
                self.batch.push_front(TaggedRun {
                    first: Pvbn(run.first.0 + index as u64),
                    tags: vec![*tag],
                });
            }
            return false;
        }
        let layout = media.layout();
        let mut has_notes = false;
        for (index, tag) in run.tags.iter().enumerate() {
            let pvbn = Pvbn(run.first.0 + index as u64);
            let found = pages.iter().map(|pages| {
                let page = pages.as_ref()?.get(index)?;
                (key.tag(page) == *tag).then_some(page)
            });
            let found: Vec<Option<&PageRef>> = found.collect();
            self.info.read_copies += found.len() as u64;
            let Some(right) = found.iter().flatten().next() else {
                self.suspects.push((pvbn, *tag));
                continue;
            };
            for ((drive, found), pages) in drives.iter().zip(&found).zip(&pages) {
                // A drive that was lost meanwhile gets everything when it comes back.
                if found.is_some() || !layout.is_full(*drive) {
                    continue;
                }
                self.info.wrong_blocks += 1;
                let is_unreadable = pages.is_none();
                if is_unreadable {
                    media.copies.count(*drive, |it| it.read_errors += 1);
                }
                let note = Note {
                    tag: *tag,
                    page: (*right).clone(),
                    drive: *drive,
                    is_counted: is_unreadable,
                };
                has_notes |= media.copies.note(pvbn, note);
            }
        }
        has_notes
    }

    /// The aggregate has halted.
    pub(crate) fn abandon(&mut self) {
        self.batch.clear();
        self.rests_until = None;
        self.parity.abandon();
        self.pause();
    }
}

#[cfg(test)]
mod tests {
    use everglade_format::Dbn;

    use super::*;

    fn extents() -> Vec<Extent> {
        vec![Extent {
            base: 0,
            length: 1024,
            group: 0,
            column: 0,
            member: 0,
            first_dbn: Dbn(0),
        }]
    }

    #[test]
    fn while_clients_are_there_a_scrub_reads_little_and_rests() {
        let pace = Pace::default();
        let mut scrub = Scrub::default();
        scrub.start(extents(), 10, None);
        scrub.begin_batch();
        let chunk = scrub.next_chunk().expect("the first");
        scrub.list(chunk, (0..40).map(|block| (Pvbn(block), Tag(7))));
        let run = scrub.take_run(pace.bite(100)).expect("listed");
        assert_eq!(run.tags.len(), 40);
        scrub.note_asked(&pace, 100);
        scrub.note_answered(&pace, 110);
        assert_eq!(scrub.rests_until(), None, "no client is there");

        scrub.list(chunk, (40..80).map(|block| (Pvbn(block), Tag(7))));
        pace.hear(120);
        let run = scrub.take_run(pace.bite(120)).expect("listed");
        assert_eq!((run.first, run.tags.len()), (Pvbn(40), 16));
        scrub.note_asked(&pace, 120);
        assert!(pace.is_busy());
        scrub.note_answered(&pace, 130);
        assert!(!pace.is_busy());
        let until = 130 + pace.rest(Job::Scrub, 10, 130);
        assert!(scrub.is_resting(until - 1) && !scrub.is_resting(until));
        let run = scrub.take_run(Bite::Large).expect("listed");
        assert_eq!((run.first, run.tags.len()), (Pvbn(56), 24));
        scrub.note_answered(&pace, 140);
        assert_eq!(scrub.rests_until(), None, "it waits for the next batch");
    }

    /// Passes over chunks without blocks in use, as a consistency point does, until it is over.
    fn run(scrub: &mut Scrub) -> Vec<u64> {
        let mut passed = Vec::new();
        while scrub.info().state == ScrubState::Running {
            scrub.begin_batch();
            while let Some(chunk) = scrub.next_chunk() {
                passed.push(chunk.first);
                scrub.list(chunk, []);
            }
            scrub.end_if_over(20);
        }
        passed
    }

    #[test]
    fn a_scrub_goes_on_where_an_earlier_one_had_read_everything() {
        let mut scrub = Scrub::default();
        let earlier = EarlierScrub {
            read_blocks: 600,
            wrong_blocks: 3,
            begun_seconds: 5,
            ..EarlierScrub::default()
        };
        scrub.start(extents(), 9, Some(earlier));
        let begun = scrub.info();
        assert_eq!((begun.begun_seconds, begun.resumed_seconds), (5, 9));
        assert_eq!((begun.passed_blocks, begun.resumed_blocks), (512, 512));
        assert_eq!(run(&mut scrub), [512, 768], "a chunk is not cut");
        let ended = scrub.info();
        assert_eq!(
            (ended.state, ended.ended_seconds),
            (ScrubState::Done, Some(20))
        );
        assert_eq!((ended.read_blocks, ended.wrong_blocks), (1024, 3));
        // The next one is a new one, whatever there was once.
        scrub.start(extents(), 30, Some(earlier));
        let begun = scrub.info();
        assert_eq!((begun.begun_seconds, begun.wrong_blocks), (30, 0));
        assert_eq!(begun.ended_seconds, None);
        assert_eq!(run(&mut scrub), [0, 256, 512, 768]);
    }

    #[test]
    fn what_is_listed_and_not_read_is_not_passed_for_the_next_start() {
        let mut scrub = Scrub::default();
        scrub.start(extents(), 1, None);
        scrub.begin_batch();
        let chunk = scrub.next_chunk().expect("the first");
        scrub.list(chunk, [(Pvbn(7), Tag::default())]);
        assert_eq!(
            (scrub.info().passed_blocks, scrub.info().read_blocks),
            (256, 0)
        );
        scrub.pause();
        scrub.start(extents(), 2, None);
        assert_eq!(scrub.info().begun_seconds, 1, "it goes on");
    }
}
