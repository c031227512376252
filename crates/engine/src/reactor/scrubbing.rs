//! The home reactor reads what a scrub has listed, one run at a time, from all drives that have it.

use everglade_env::{Completion, DiskError, Op, Outside, Page};
use everglade_format::seat::COPIES_MAX;

use crate::home::scrubbing::READ_BLOCKS;
use crate::reactor::Core;
use crate::reactor::loading::Inflight;

impl<O: Outside> Core<O> {
    /// Reads the next run, if there is one and none is being read.
    pub(super) fn scrub(&mut self, aggregate: u32) {
        let Some(home) = self.homes.get_mut(&aggregate) else {
            return;
        };
        if home.aggregate.is_halted() {
            return home.scrub.abandon();
        }
        // What is noted is written by the next consistency points; this is called again after each.
        if !home
            .aggregate
            .media
            .copies
            .has_room(READ_BLOCKS * COPIES_MAX)
        {
            return;
        }
        let Some(run) = home.scrub.take_run() else {
            return;
        };
        let layout = home.aggregate.media.layout();
        let place = layout.locate_column(run.first);
        let place = place.expect("a block in use is in an extent");
        let drives = layout.drives_with(place.member).to_vec();
        let count = run.tags.len();
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
        if has_notes {
            self.ask_for_commit(&shared);
        }
        match is_waiting {
            true => self.wake_home(aggregate),
            false => self.scrub(aggregate),
        }
    }
}
