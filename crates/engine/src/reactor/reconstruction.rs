//! Reconstruction: a block of a parity group whose own drive does not have it is found from the
//! other columns of its stripe (L-03, L-04).
//!
//! All columns that are there are read. What is found has the tag that the pointer says: else a set
//! of columns is taken for wrong, and left out ([`everglade_raid::recovery`]).
//!
//! Neighbours whose drive is missing are found together: each other column is read in one run.
//!
//! 1. A stripe may be written while it is read here. Then its columns do not go together. So a
//!    reconstruction that finds nothing is repeated if stripes were written meanwhile
//!    ([`crate::media::Media::stripes_version`]). One that finds the block blames no other column
//!    then.
//! 2. Blocks that are wrong on a drive in use are noted, and written again by a consistency point
//!    ([`crate::media::copies`]).
//! 3. A block that is not found because a drive does not answer is not lost: it may be found later.
//!    A probe tells this from a medium that has lost blocks.
//! 4. A column is read several times before it counts as lost. One drive is out already, mostly,
//!    and what is lost here is lost from parity, too, with the next write of the stripe.
//! 5. A pointer with the tag of a hole stands for any content. The consistency point asks so when
//!    it knows no tag: it computes parity from what the stripe has.

use everglade_env::{BLOCK_SIZE, Completion, DeviceId, DiskError, Op, Outside, Page};
use everglade_format::Pointer;
use everglade_raid::recovery::Recovered;
use everglade_raid::{Recovery, TooManyLost};

use crate::media::copies::Note;
use crate::media::layout::Across;
use crate::pool::aggregate::Aggregate;
use crate::reactor::Core;
use crate::reactor::loading::{self, ATTEMPTS_MAX, Inflight, Wrong};
use crate::read::load::{Missing, key};

/// Most pages that are read to reconstruct a run: 4 MiB.
const RUN_PAGES_MAX: usize = 1024;

/// A block that is being reconstructed.
pub(super) struct Reconstruction {
    aggregate: u32,
    pointer: Pointer,
    at: Across,
    recovery: Recovery,
    /// Reads under way.
    left: usize,
    too_many: bool,
    /// A drive whose column could not be read.
    failed: Option<DeviceId>,
    /// See [`crate::media::Media::stripes_version`].
    version: u64,
    /// The drive of the block, if it had it wrong, and what was wrong.
    wrong: Option<Wrong>,
    reason: String,
}

/// Neighbours of one column whose drive is missing, and which are reconstructed together.
pub(super) struct ReconstructedRun {
    aggregate: u32,
    pointers: Vec<Pointer>,
    /// The first of them.
    first: Across,
    recoveries: Vec<Recovery>,
    /// Reads under way.
    left: usize,
    /// A column could not be read.
    has_failed: bool,
    /// See [`crate::media::Media::stripes_version`].
    version: u64,
}

impl<O: Outside> Core<O> {
    /// Reconstructs neighbours of one extent whose drive is missing. Each other column is read in
    /// one run. If such a read fails, each block is reconstructed by itself.
    pub(super) fn reconstruct_run(&mut self, shared: &Aggregate, mut pointers: Vec<Pointer>) {
        let version = shared.media.stripes_version();
        let layout = shared.media.layout();
        let first = pointers.first().and_then(|it| layout.across(it.pvbn));
        let recovery = first.and_then(|first| {
            let (rows, lost) = (layout.rows(first.group), layout.lost_columns(first.group));
            Recovery::new(rows.code, first.column, lost).ok()
        });
        let (Some(first), Some(recovery), true) = (first, recovery, pointers.len() > 1) else {
            for pointer in pointers {
                self.reconstruct(shared, pointer, None, loading::missing(pointer));
            }
            return;
        };
        let wants = recovery.wants();
        let most = (RUN_PAGES_MAX / wants.count().max(1)).max(1);
        if pointers.len() > most {
            let rest = pointers.split_off(most);
            self.reconstruct_run(shared, pointers);
            return self.reconstruct_run(shared, rest);
        }
        let count = pointers.len();
        let run = self.reconstructed_runs.insert(ReconstructedRun {
            aggregate: shared.id,
            pointers,
            first,
            recoveries: vec![recovery; count],
            left: wants.count(),
            has_failed: false,
            version,
        });
        for column in wants.iter() {
            let device = layout.full_drive(layout.rows(first.group).members[column]);
            let device = device.expect("it is not lost");
            let op = Op::Read {
                device,
                offset: first.stripe * BLOCK_SIZE as u64,
                pages: Page::several(count),
            };
            let read = Inflight::ColumnRun {
                aggregate: shared.id,
                run,
                column,
                device,
            };
            self.submit(op, read);
        }
    }

    pub(super) fn complete_column_run(
        &mut self,
        (id, column, device): (usize, usize, DeviceId),
        completion: Completion,
    ) {
        let run = &mut self.reconstructed_runs[id];
        let aggregate = run.aggregate;
        run.left -= 1;
        run.has_failed |= completion.result.is_err();
        if completion.result.is_ok() {
            for (recovery, page) in run.recoveries.iter_mut().zip(completion.pages) {
                recovery.arrived(column, page.freeze());
            }
        }
        if completion.result == Err(DiskError::Gone) {
            self.lose(aggregate, device);
        }
        if self.reconstructed_runs[id].left > 0 {
            return;
        }
        let run = self.reconstructed_runs.remove(id);
        let shared = self.shared.aggregate(aggregate);
        for ((pointer, recovery), stripe) in run
            .pointers
            .into_iter()
            .zip(run.recoveries)
            .zip(run.first.stripe..)
        {
            let reason = loading::missing(pointer);
            if run.has_failed {
                self.reconstruct(&shared, pointer, None, reason);
                continue;
            }
            self.finish(Reconstruction {
                aggregate,
                pointer,
                at: Across {
                    stripe,
                    ..run.first
                },
                recovery,
                left: 0,
                too_many: false,
                failed: None,
                version: run.version,
                wrong: None,
                reason,
            });
        }
    }

    /// Reconstructs a block for the operations that wait for it. False if it is in no parity group.
    pub(super) fn reconstruct(
        &mut self,
        shared: &Aggregate,
        pointer: Pointer,
        wrong: Option<Wrong>,
        reason: String,
    ) -> bool {
        if !shared.media.has_parity() {
            return false;
        }
        let version = shared.media.stripes_version();
        let layout = shared.media.layout();
        let Some(at) = layout.across(pointer.pvbn) else {
            return false;
        };
        let (rows, lost) = (layout.rows(at.group), layout.lost_columns(at.group));
        let Ok(recovery) = Recovery::new(rows.code, at.column, lost) else {
            self.give_up(shared.id, pointer, &reason, None);
            return true;
        };
        let wants = recovery.wants();
        let reconstruction = self.reconstructions.insert(Reconstruction {
            aggregate: shared.id,
            pointer,
            at,
            recovery,
            left: wants.count(),
            too_many: false,
            failed: None,
            version,
            wrong,
            reason,
        });
        for column in wants.iter() {
            let device = layout.full_drive(rows.members[column]);
            let device = device.expect("it is not lost");
            self.read_column(reconstruction, (column, device), 1);
        }
        true
    }

    fn read_column(&mut self, id: usize, (column, device): (usize, DeviceId), attempt: u32) {
        let reconstruction = &self.reconstructions[id];
        let op = Op::Read {
            device,
            offset: reconstruction.at.stripe * BLOCK_SIZE as u64,
            pages: vec![Page::for_read()],
        };
        let read = Inflight::Column {
            aggregate: reconstruction.aggregate,
            reconstruction: id,
            column,
            device,
            attempt,
        };
        self.submit(op, read);
    }

    /// Too many columns cannot be read.
    fn give_up(
        &mut self,
        aggregate: u32,
        pointer: Pointer,
        reason: &str,
        failed: Option<DeviceId>,
    ) {
        let reason = format!("{reason}, and too many drives of its group cannot be read");
        let Some(device) = failed else {
            return self.arrive(aggregate, pointer, Err(Missing::Device(reason)));
        };
        let op = Op::Read {
            device,
            offset: 0,
            pages: vec![Page::for_read()],
        };
        let probe = Inflight::Probe {
            aggregate,
            pointer,
            reason,
        };
        self.submit(op, probe);
    }

    pub(super) fn complete_column(
        &mut self,
        (id, column, device): (usize, usize, DeviceId),
        attempt: u32,
        completion: Completion,
    ) {
        let reconstruction = &mut self.reconstructions[id];
        let aggregate = reconstruction.aggregate;
        if let Err(error) = completion.result
            && error != DiskError::Gone
            && attempt < ATTEMPTS_MAX
        {
            let copies = &self.shared.aggregate(aggregate).media;
            copies.copies.count(device, |it| it.read_errors += 1);
            return self.read_column(id, (column, device), attempt + 1);
        }
        reconstruction.left -= 1;
        match completion.result {
            Ok(()) => {
                let page = completion.pages.into_iter().next();
                let page = page.expect("a read returns its pages").freeze();
                reconstruction.recovery.arrived(column, page);
            }
            Err(error) => {
                let lost = reconstruction.recovery.lose(column);
                reconstruction.too_many |= lost == Err(TooManyLost);
                match error {
                    DiskError::Gone => _ = self.lose(aggregate, device),
                    _ => {
                        reconstruction.failed = Some(device);
                        let copies = &self.shared.aggregate(aggregate).media;
                        copies.copies.count(device, |it| it.read_errors += 1);
                    }
                }
            }
        }
        if self.reconstructions[id].left == 0 {
            let reconstruction = self.reconstructions.remove(id);
            self.finish(reconstruction);
        }
    }

    fn finish(&mut self, reconstruction: Reconstruction) {
        let Reconstruction {
            aggregate,
            pointer,
            at,
            recovery,
            too_many,
            failed,
            version,
            wrong,
            reason,
            ..
        } = reconstruction;
        let shared = self.shared.aggregate(aggregate);
        let is_any = pointer.tag == Pointer::HOLE.tag;
        if too_many {
            return self.give_up(aggregate, pointer, &reason, failed);
        }
        let found = recovery.solve(|block| is_any || shared.key.tag(block) == pointer.tag);
        let now = shared.media.stripes_version();
        let was_written = version != now || !now.is_multiple_of(2);
        let Some(mut found) = found else {
            if was_written && !is_any && !shared.is_halted() {
                self.reconstruct(&shared, pointer, wrong, reason);
                return;
            }
            let missing = Missing::Damaged {
                reason: format!("{reason}, and the other drives of its group do not have it"),
                content: None,
            };
            return self.arrive(aggregate, pointer, Err(missing));
        };
        if is_any {
            let missing = Missing::Damaged {
                reason,
                content: Some(found.page),
            };
            return self.arrive(aggregate, pointer, Err(missing));
        }
        if was_written {
            // The columns are of two times, and none of them is wrong.
            found.wrong.clear();
        }
        self.note_wrong(&shared, pointer, at, wrong, &found);
        let key = key(aggregate, pointer);
        self.shared.cache.insert(key, found.page.clone());
        self.arrive(aggregate, pointer, Ok(found.page));
    }

    /// Notes the blocks of a stripe that drives in use had wrong.
    fn note_wrong(
        &mut self,
        shared: &Aggregate,
        pointer: Pointer,
        at: Across,
        wrong: Option<Wrong>,
        found: &Recovered,
    ) {
        let layout = shared.media.layout();
        shared.media.copies.count_reconstructed();
        let own = wrong.map(|Wrong { drive, is_counted }| {
            let note = Note {
                tag: pointer.tag,
                page: found.page.clone(),
                drive,
                is_counted,
            };
            (pointer.pvbn, note)
        });
        let members = &layout.rows(at.group).members;
        let others = found.wrong.iter().filter_map(|(column, page)| {
            // Parity has no number. It is written anew with the next write of the stripe.
            let pvbn = layout.pvbn_of(Across {
                column: *column,
                ..at
            })?;
            let note = Note {
                tag: shared.key.tag(page),
                page: page.clone(),
                drive: layout.full_drive(members[*column])?,
                is_counted: false,
            };
            Some((pvbn, note))
        });
        let mut is_noted = false;
        for (pvbn, note) in own.into_iter().chain(others) {
            is_noted |= layout.is_full(note.drive) && shared.media.copies.note(pvbn, note);
        }
        if is_noted {
            self.ask_for_commit(shared);
        }
    }
}
