//! The home reactor reads what a scrub has listed, one run at a time, from all drives that have it.

use everglade_env::{BLOCK_SIZE, Completion, DeviceId, DiskError, Nanos, Op, Outside, Page};
use everglade_format::seat::COPIES_MAX;

use crate::home::scrubbing::READ_BLOCKS;
use crate::media::pace::Bite;
use crate::reactor::Core;
use crate::reactor::loading::Inflight;

impl<O: Outside> Core<O> {
    /// Reads the next run, if there is one and none is being read.
    pub(super) fn scrub(&mut self, aggregate: u32) {
        let now = self.outside.now();
        let Some(home) = self.homes.get_mut(&aggregate) else {
            return;
        };
        if home.aggregate.is_halted() {
            return home.scrub.abandon();
        }
        if home.scrub.is_resting(now) {
            return;
        }
        let bite = home.aggregate.media.pace.bite(now);
        // What is noted is written by the next consistency points; this is called again after each.
        if !home
            .aggregate
            .media
            .copies
            .has_room(READ_BLOCKS * COPIES_MAX)
        {
            return;
        }
        let layout = home.aggregate.media.layout();
        let (run, place, drives) = loop {
            let Some(run) = home.scrub.take_run(bite) else {
                return self.scrub_parity(aggregate, bite);
            };
            // Its member was removed since: the block is elsewhere.
            let Some(place) = layout.locate_column(run.first) else {
                continue;
            };
            let drives = layout.drives_with(place.member).to_vec();
            // A block of a parity group whose drive is missing is on no other one.
            if !drives.is_empty() {
                break (run, place, drives);
            }
        };
        let count = run.tags.len();
        home.scrub.note_asked(&home.aggregate.media.pace, now);
        home.scrub.begin_reading(run, drives.clone());
        for (drive, device) in drives.into_iter().enumerate() {
            let op = Op::Read {
                device,
                offset: place.offset,
                pages: Page::several(count),
            };
            self.submit(op, Inflight::Scrub { aggregate, drive });
        }
    }

    /// Goes on with scrubs that have rested.
    pub(super) fn wake_scrubs(&mut self, now: Nanos) {
        for aggregate in self.resting.clone() {
            let home = self.homes.get(&aggregate);
            let until = home.and_then(|home| home.scrub.rests_until());
            if until.is_none_or(|at| at <= now) {
                self.resting.remove(&aggregate);
                self.scrub(aggregate);
            }
        }
    }

    /// Drives have answered a scrub, which may rest now.
    fn note_answered(&mut self, aggregate: u32) {
        let now = self.outside.now();
        let home = self.homes.get_mut(&aggregate).expect("it scrubs here");
        home.scrub.note_answered(&home.aggregate.media.pace, now);
        if home.scrub.rests_until().is_some() {
            self.resting.insert(aggregate);
        }
    }

    /// Reads the next stripes, if there are any and none are being read.
    fn scrub_parity(&mut self, aggregate: u32, bite: Bite) {
        let now = self.outside.now();
        let home = self.homes.get_mut(&aggregate).expect("as above");
        let Some(run) = home.scrub.take_stripes(bite) else {
            if home.scrub.is_waiting() {
                self.wake_home(aggregate);
            }
            return;
        };
        let media = &home.aggregate.media;
        let version = media.stripes_version();
        home.scrub.note_asked(&media.pace, now);
        let layout = media.layout();
        let rows = layout.rows(run.group);
        let drives = rows.members.iter().map(|it| layout.full_drive(*it));
        let drives: Vec<Option<DeviceId>> = drives.collect();
        home.scrub
            .parity
            .begin_reading(run, rows.clone(), drives.clone(), version);
        for (column, device) in drives.into_iter().enumerate() {
            let Some(device) = device else { continue };
            let op = Op::Read {
                device,
                offset: run.first * BLOCK_SIZE as u64,
                pages: Page::several(run.count),
            };
            self.submit(op, Inflight::ScrubColumn { aggregate, column });
        }
    }

    pub(super) fn complete_scrub_column(
        &mut self,
        (aggregate, column): (u32, usize),
        completion: Completion,
    ) {
        let Some(home) = self.homes.get_mut(&aggregate) else {
            return;
        };
        if completion.result == Err(DiskError::Gone)
            && let Some(device) = home.scrub.parity.device(column)
        {
            self.lose(aggregate, device);
        }
        let home = self.homes.get_mut(&aggregate).expect("as above");
        let pages = completion.result.is_ok().then(|| {
            let pages = completion.pages.into_iter();
            pages.map(Page::freeze).collect()
        });
        if !home.scrub.parity.answered(column, pages) {
            return;
        }
        let shared = home.aggregate.clone();
        let wrong = home.scrub.parity.compare(shared.media.stripes_version());
        home.scrub.add_wrong_parity(wrong);
        shared.set_scrub(home.scrub.info());
        self.note_answered(aggregate);
        if wrong > 0 {
            self.ask_for_commit(&shared);
        }
        self.scrub(aggregate);
    }

    pub(super) fn complete_scrub(
        &mut self,
        (aggregate, drive): (u32, usize),
        completion: Completion,
    ) {
        let Some(home) = self.homes.get_mut(&aggregate) else {
            return;
        };
        let device = home.scrub.device(drive);
        if completion.result == Err(DiskError::Gone) {
            self.lose(aggregate, device);
        }
        let home = self.homes.get_mut(&aggregate).expect("as above");
        let pages = completion.result.is_ok().then(|| {
            let pages = completion.pages.into_iter();
            pages.map(Page::freeze).collect()
        });
        if !home.scrub.answered(drive, pages) {
            return;
        }
        let shared = home.aggregate.clone();
        let has_notes = home.scrub.compare(&shared.media, &shared.key);
        let is_waiting = home.scrub.is_waiting();
        shared.set_scrub(home.scrub.info());
        self.note_answered(aggregate);
        if has_notes {
            self.ask_for_commit(&shared);
        }
        match is_waiting {
            true => self.wake_home(aggregate),
            false => self.scrub(aggregate),
        }
    }
}
