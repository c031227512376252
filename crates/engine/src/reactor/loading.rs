//! Loads: pages that operations wait for, each read once for all operations that wait for it, and
//! in long runs where pages are neighbours.
//!
//! A page is compared with the tag in the pointer before any operation sees it (O-09). A page that
//! does not match, or cannot be read, is read again, from each drive that has it. If no drive has
//! it, that is an error for the operations that use this pointer, and for no others. If one drive
//! had it wrong and another right, it is noted ([`crate::media::copies`]).

use std::collections::hash_map::Entry;
use std::sync::atomic::Ordering;

use everglade_env::{Completion, DeviceId, DiskError, Nanos, Op, Outside, Page};
use everglade_format::Pointer;

use crate::media::Place;
use crate::media::copies::Note;
use crate::media::devices::Scope;
use crate::media::layout::NO_DRIVE;
use crate::media::writer::{Reach, blocks_of};
use crate::pool::aggregate::Aggregate;
use crate::pool::trigger::CpBlock;
use crate::reactor::{Core, Operation, Work};
use crate::read::load::{self, Missing};

/// Blocks in one device read: 1 MiB.
const RUN_BLOCKS: usize = 256;
/// Reads of a block before it counts as damaged; at least two of each drive that has it.
pub(super) const ATTEMPTS_MAX: u32 = 3;
/// The same of a block in a parity group, before it is reconstructed.
const ATTEMPTS_OF_COLUMN: u32 = 2;
/// A probe reads at the beginning of the block's GiB: in a directory device, the block's own file.
const PROBE_BYTES: u64 = 1 << 30;

/// Aggregate, place and content of a page being read.
pub(crate) type LoadKey = (u32, u64, u64);

/// Operations that wait for a page; usually it is one.
#[derive(Default)]
pub(crate) struct Waiters {
    first: Option<usize>,
    others: Vec<usize>,
}

impl Waiters {
    fn push(&mut self, id: usize) {
        match self.first {
            None => self.first = Some(id),
            Some(_) => self.others.push(id),
        }
    }

    /// Returns the waiting operations in arrival order.
    fn all(self) -> impl Iterator<Item = usize> {
        self.first.into_iter().chain(self.others)
    }
}

/// The requester of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    /// A client waits for it.
    Client,
    /// The page is read ahead; no operation waits.
    Nobody,
    /// A consistency point, a mount and such.
    Ourselves,
}

/// A drive that had a block wrong, or could not read it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wrong {
    pub(crate) drive: DeviceId,
    /// True if it was counted for the drive. Other content than the pointer's is not: the pointer
    /// may be out of date. It is counted when the right content was found elsewhere, and the maps
    /// say that it is the block's.
    pub(crate) is_counted: bool,
}

/// Device operations in flight, by their tokens.
pub(crate) enum Inflight {
    Read {
        aggregate: u32,
        device: DeviceId,
        pointers: Vec<Pointer>,
        attempt: u32,
        reader: Reader,
        /// When it was submitted.
        since: Nanos,
        /// A drive that had the only block wrong, or could not read it.
        wrong: Option<Wrong>,
    },
    /// A probe read of a block: after another block could not be read, the probe shows whether the
    /// device answers.
    Probe {
        aggregate: u32,
        pointer: Pointer,
        reason: String,
    },
    /// A write of this many blocks by the running consistency point, or a flush; on one drive,
    /// unless it went to all drives of a column.
    Write {
        aggregate: u32,
        blocks: usize,
        drive: Option<DeviceId>,
    },
    /// A part of an operation on all drives of a column.
    Part {
        aggregate: u32,
        column: usize,
        drive: DeviceId,
    },
    /// A write of the journal's group that this reactor leads.
    Log { aggregate: u32 },
    /// A read of the journal, for the operation that replays it.
    Replay { operation: usize },
    /// Space for an area that the consistency point waits for.
    Wanted { aggregate: u32 },
    /// A request for an area's space, before the space is needed.
    Prepare { aggregate: u32 },
    /// An area goes back to the host.
    Punch { aggregate: u32 },
    /// A read of another column, for a block that is reconstructed.
    Column {
        aggregate: u32,
        reconstruction: usize,
        column: usize,
        device: DeviceId,
        attempt: u32,
    },
    /// A read of a run of another column, for blocks that are reconstructed together.
    ColumnRun {
        aggregate: u32,
        run: usize,
        column: usize,
        device: DeviceId,
    },
    /// A read of a scrub, on one of the drives that have the run.
    Scrub { aggregate: u32, drive: usize },
    /// A read of one column of the stripes whose parity a scrub compares.
    ScrubColumn { aggregate: u32, column: usize },
}

/// Why a block is reconstructed.
pub(super) fn missing(pointer: Pointer) -> String {
    format!("block {} is on a drive that is missing", pointer.pvbn)
}

/// What is said of a block that has no place.
fn outside(pointer: Pointer) -> Missing {
    Missing::Damaged {
        reason: format!("block {} is outside the aggregate", pointer.pvbn),
        content: None,
    }
}

/// An operation on all drives of a column.
pub(crate) struct ColumnOp {
    /// Parts that have not completed.
    left: usize,
    result: Result<(), DiskError>,
    whole: Inflight,
}

fn key(aggregate: u32, pointer: Pointer) -> LoadKey {
    (aggregate, pointer.pvbn.0, pointer.tag.0)
}

impl<O: Outside> Core<O> {
    pub(super) fn submit_cp(&mut self, aggregate: u32, (op, reach): (Op, Reach)) {
        let (blocks, device) = (blocks_of(&op), op.device());
        let write = |drive| Inflight::Write {
            aggregate,
            blocks,
            drive,
        };
        match reach {
            Reach::Drive => self.submit(op, write(Some(device))),
            Reach::Column(member) => {
                let column = Scope::Column(member);
                self.submit_to_column((aggregate, column), op, write(None));
            }
        }
    }

    /// Submits an operation for all drives that it is for. `whole` is completed when all drives
    /// have done it. A drive that fails is lost, if it can be spared. Without groups the operation
    /// goes to the device that it names.
    pub(super) fn submit_to_column(
        &mut self,
        (aggregate, scope): (u32, Scope),
        op: Op,
        whole: Inflight,
    ) {
        if !self.shared.has_groups.load(Ordering::Relaxed) {
            return self.submit(op, whole);
        }
        let shared = self.shared.aggregate(aggregate);
        let Some(drives) = shared.media.drives_of(scope) else {
            return self.submit(op, whole);
        };
        assert!(!drives.is_empty(), "each column has a drive in use");
        if drives == [op.device()] {
            return self.submit(op, whole);
        }
        let column = self.columns.insert(ColumnOp {
            left: drives.len(),
            result: Ok(()),
            whole,
        });
        for drive in drives {
            let part = Inflight::Part {
                aggregate,
                column,
                drive,
            };
            self.submit(op.on(drive), part);
        }
    }

    fn complete_part(
        &mut self,
        (aggregate, column, drive): (u32, usize, DeviceId),
        completion: Completion,
    ) {
        let result = match (&self.columns[column].whole, completion.result) {
            (_, Err(DiskError::Gone)) => self.spare(aggregate, drive, completion.result),
            (Inflight::Punch { .. }, _) => Ok(()),
            // A drive whose host gives no space may have all blocks. One that catches up may miss
            // the space, until it is written.
            (Inflight::Wanted { .. } | Inflight::Prepare { .. }, Err(DiskError::NoSpace)) => {
                let shared = self.shared.aggregate(aggregate);
                match shared.media.is_catching_up(drive) {
                    true => Ok(()),
                    false => completion.result,
                }
            }
            (_, result) => self.spare(aggregate, drive, result),
        };
        let whole = &mut self.columns[column];
        whole.left -= 1;
        whole.result = whole.result.and(result);
        if whole.left > 0 {
            return;
        }
        let ColumnOp { result, whole, .. } = self.columns.remove(column);
        let completion = Completion {
            result,
            ..completion
        };
        self.settle(whole, completion);
    }

    /// An error of a drive is none if another drive has its blocks: the drive is lost, and a
    /// consistency point records that.
    fn spare(
        &mut self,
        aggregate: u32,
        drive: DeviceId,
        result: Result<(), DiskError>,
    ) -> Result<(), DiskError> {
        if result.is_ok() {
            return Ok(());
        }
        let shared = self.shared.aggregate(aggregate);
        shared.media.copies.count(drive, |it| it.write_errors += 1);
        match self.lose(aggregate, drive) {
            true => Ok(()),
            false => result,
        }
    }

    /// Stops using a drive that failed. False if no other drive has its blocks.
    pub(super) fn lose(&mut self, aggregate: u32, drive: DeviceId) -> bool {
        let shared = self.shared.aggregate(aggregate);
        if !shared.media.lose(drive) {
            return false;
        }
        self.ask_for_commit(&shared);
        true
    }

    /// Asks for a consistency point: a lost drive is to be recorded, or a copy is to be written.
    pub(super) fn ask_for_commit(&mut self, shared: &Aggregate) {
        if shared.want_cp(shared.joining()) {
            self.outside.wake(shared.home);
            self.wake_home(shared.id);
        }
    }

    /// Starts reading the blocks that operation `id` requested; it runs again when all have
    /// arrived.
    pub(super) fn load(&mut self, id: usize, aggregate: u32, mut wants: Vec<Pointer>) {
        let loads = self.claim(aggregate, &mut wants, Some(id));
        assert!(
            loads > 0,
            "an operation stopped for pages and asked for none"
        );
        let operation = &mut self.operations[id];
        operation.loads += loads;
        let reader = match operation.work {
            Work::Client(_) => Reader::Client,
            _ => Reader::Ourselves,
        };
        if matches!(operation.work, Work::ConsistencyPoint(_)) {
            let counts = &self.shared.aggregate(aggregate).counts;
            counts.count_blocks(CpBlock::Read, wants.len());
        }
        self.read(aggregate, wants, reader);
    }

    /// Starts reading pages that may be needed soon, in runs of neighbours in ascending order.
    /// Returns how many were not under way already.
    pub(super) fn load_for_nobody(&mut self, aggregate: u32, mut pointers: Vec<Pointer>) -> u64 {
        self.claim(aggregate, &mut pointers, None);
        let started = pointers.len() as u64;
        self.read(aggregate, pointers, Reader::Nobody);
        started
    }

    /// Keeps in `pointers` those that are not being read yet, in ascending order of their places,
    /// and lets `waiter` wait for all of them. Returns how many different ones there were.
    fn claim(
        &mut self,
        aggregate: u32,
        pointers: &mut Vec<Pointer>,
        waiter: Option<usize>,
    ) -> usize {
        pointers.sort_unstable_by_key(|pointer| (pointer.pvbn, pointer.tag));
        pointers.dedup_by_key(|pointer| (pointer.pvbn, pointer.tag));
        let count = pointers.len();
        pointers.retain(|pointer| {
            let entry = self.loading.entry(key(aggregate, *pointer));
            let is_new = matches!(entry, Entry::Vacant(_));
            let waiters = entry.or_default();
            if let Some(id) = waiter {
                waiters.push(id);
            }
            is_new
        });
        count
    }

    /// Reads pages, in runs where they touch.
    fn read(&mut self, aggregate: u32, mut reads: Vec<Pointer>, reader: Reader) {
        let shared = self.shared.aggregate(aggregate);
        let since = self.outside.now();
        let mut done = 0;
        while let Some(first) = reads.get(done).copied() {
            let Some(Place {
                device,
                offset,
                run,
                ..
            }) = shared.media.locate(first.pvbn)
            else {
                done += 1;
                self.ahead_blocks -= u64::from(reader == Reader::Nobody);
                self.arrive(aggregate, first, Err(outside(first)));
                continue;
            };
            let most = usize::try_from(run).map_or(RUN_BLOCKS, |run| run.clamp(1, RUN_BLOCKS));
            let following = (first.pvbn.0..).zip(&reads[done..]).take(most);
            let touching = |(pvbn, next): &(u64, &Pointer)| next.pvbn.0 == *pvbn;
            let count = following.take_while(touching).count();
            let pointers = match count == reads.len() {
                true => std::mem::take(&mut reads),
                false => reads[done..done + count].to_vec(),
            };
            done += count;
            if device == NO_DRIVE {
                self.ahead_blocks -= match reader {
                    Reader::Nobody => pointers.len() as u64,
                    _ => 0,
                };
                self.reconstruct_run(&shared, pointers);
                continue;
            }
            let pages = Page::several(count);
            self.submit(
                Op::Read {
                    device,
                    offset,
                    pages,
                },
                Inflight::Read {
                    aggregate,
                    device,
                    pointers,
                    attempt: 1,
                    reader,
                    since,
                    wrong: None,
                },
            );
        }
    }

    /// Reads one block once more, from the next drive that has it.
    fn load_again(&mut self, aggregate: u32, pointer: Pointer, attempt: u32, wrong: Option<Wrong>) {
        let shared = self.shared.aggregate(aggregate);
        let place = shared.media.locate_copy(pointer.pvbn, attempt - 1);
        let Some(Place { device, offset, .. }) = place else {
            self.arrive(aggregate, pointer, Err(outside(pointer)));
            return;
        };
        if device == NO_DRIVE {
            self.reconstruct(&shared, pointer, None, missing(pointer));
            return;
        }
        let op = Op::Read {
            device,
            offset,
            pages: vec![Page::for_read()],
        };
        let inflight = Inflight::Read {
            aggregate,
            device,
            pointers: vec![pointer],
            attempt,
            reader: Reader::Ourselves,
            since: self.outside.now(),
            wrong,
        };
        self.submit(op, inflight);
    }

    /// A page is here, or will not come.
    pub(super) fn arrive(
        &mut self,
        aggregate: u32,
        pointer: Pointer,
        arrival: crate::read::load::Arrival,
    ) {
        let waiters = self
            .loading
            .remove(&key(aggregate, pointer))
            .unwrap_or_default();
        for id in waiters.all() {
            let operation: &mut Operation = &mut self.operations[id];
            operation.pinned.insert(pointer, arrival.clone());
            operation.loads -= 1;
            if operation.loads == 0 {
                self.enqueue(id);
            }
        }
    }

    pub(super) fn complete(&mut self, completion: Completion) {
        if let Some(inflight) = self.landed(&completion) {
            self.settle(inflight, completion);
        }
    }

    /// An operation has completed on all drives that it went to.
    pub(super) fn settle(&mut self, inflight: Inflight, completion: Completion) {
        self.enter_for_completion(&inflight);
        match inflight {
            Inflight::Read {
                aggregate,
                device,
                pointers,
                attempt,
                reader,
                since,
                wrong,
            } => {
                let shared = self.shared.aggregate(aggregate);
                match reader {
                    Reader::Nobody => self.ahead_blocks -= pointers.len() as u64,
                    Reader::Client => {
                        let now = self.outside.now();
                        shared.media.note_read(now.saturating_sub(since), now);
                    }
                    Reader::Ourselves => {}
                }
                let is_gone = completion.result == Err(DiskError::Gone);
                let is_lost = is_gone && self.lose(aggregate, device);
                // The remaining drives are asked as often as if the lost one had not been.
                let attempt = attempt - u32::from(is_lost);
                self.complete_read(&shared, pointers, (attempt, device, wrong), completion);
            }
            Inflight::Part {
                aggregate,
                column,
                drive,
            } => self.complete_part((aggregate, column, drive), completion),
            Inflight::Probe {
                aggregate,
                pointer,
                reason,
            } => {
                let missing = match completion.result {
                    Ok(()) => Missing::Damaged {
                        reason,
                        content: None,
                    },
                    Err(_) => Missing::Device(reason),
                };
                self.arrive(aggregate, pointer, Err(missing));
            }
            Inflight::Write {
                aggregate,
                blocks,
                drive,
            } => {
                let result = match drive {
                    Some(drive) => self.spare(aggregate, drive, completion.result),
                    None => completion.result,
                };
                let home = self
                    .homes
                    .get_mut(&aggregate)
                    .expect("consistency points run at home");
                let run = home
                    .run
                    .as_mut()
                    .expect("writes belong to the running consistency point");
                let is_due = run.writer.completed(&home.aggregate.media, blocks, result);
                if home.aggregate.is_halted() {
                    run.writer.abandon();
                }
                let ops = run.writer.take_ready(home.aggregate.media.share.blocks());
                let is_writing = run.writer.is_writing();
                home.aggregate.media.share.set_writing(is_writing);
                if !is_writing {
                    // Reconstructions wait for this, and consistency points for them.
                    home.aggregate.media.set_writing_stripes(false);
                }
                for op in ops {
                    self.submit_cp(aggregate, op);
                }
                if is_due {
                    self.enqueue(self.drivers[&aggregate]);
                }
            }
            Inflight::Log { aggregate } => self.complete_log(aggregate, completion.result),
            Inflight::Replay { operation } => self.complete_replay(operation, completion),
            Inflight::Wanted { aggregate } => self.complete_wanted(aggregate, completion.result),
            Inflight::Prepare { aggregate } => self.complete_prepare(aggregate, completion.result),
            Inflight::Punch { aggregate } => self.complete_punch(aggregate),
            Inflight::Column {
                reconstruction,
                column,
                device,
                attempt,
                ..
            } => self.complete_column((reconstruction, column, device), attempt, completion),
            Inflight::ColumnRun {
                run,
                column,
                device,
                ..
            } => self.complete_column_run((run, column, device), completion),
            Inflight::Scrub { aggregate, drive } => {
                self.complete_scrub((aggregate, drive), completion);
            }
            Inflight::ScrubColumn { aggregate, column } => {
                self.complete_scrub_column((aggregate, column), completion);
            }
        }
    }

    fn complete_read(
        &mut self,
        shared: &Aggregate,
        pointers: Vec<Pointer>,
        (attempt, device, wrong): (u32, DeviceId, Option<Wrong>),
        completion: Completion,
    ) {
        let aggregate = shared.id;
        let copies = pointers
            .first()
            .map_or(0, |it| shared.media.copies_of(it.pvbn));
        let first = pointers.first().map(|it| it.pvbn);
        let has_parity = first.is_some_and(|pvbn| shared.media.is_in_rows(pvbn));
        let attempts_max = match has_parity {
            true => ATTEMPTS_OF_COLUMN,
            false => ATTEMPTS_MAX.max(2 * copies),
        };
        let is_spared = copies > 1 || has_parity;
        if let Err(error) = completion.result {
            if is_spared && pointers.len() == 1 && error != DiskError::Gone {
                shared.media.copies.count(device, |it| it.read_errors += 1);
            }
            // One bad block must not fail its neighbours: read the blocks one by one.
            if pointers.len() > 1 || attempt < attempts_max {
                // With copies, the same drive says which of the blocks it cannot read.
                let is_run = pointers.len() > 1;
                let next = attempt + u32::from(copies < 2 || !is_run || attempt == 0);
                let unread = Wrong {
                    drive: device,
                    is_counted: true,
                };
                let wrong = (!is_run && error != DiskError::Gone).then_some(unread);
                for pointer in pointers {
                    self.load_again(aggregate, pointer, next, wrong);
                }
                return;
            }
            for pointer in pointers {
                let reason = format!("reading block {}: {error}", pointer.pvbn);
                let is_there = error != DiskError::Gone;
                let wrong = is_there.then_some(Wrong {
                    drive: device,
                    is_counted: is_spared,
                });
                if self.reconstruct(shared, pointer, wrong, reason.clone()) {
                    continue;
                }
                if copies > 1 {
                    let content = None;
                    let missing = Missing::Damaged { reason, content };
                    self.arrive(aggregate, pointer, Err(missing));
                    continue;
                }
                if !error.is_about_the_medium() {
                    self.arrive(aggregate, pointer, Err(Missing::Device(reason)));
                    continue;
                }
                let Some(Place { device, offset, .. }) = shared.media.locate(pointer.pvbn) else {
                    self.arrive(aggregate, pointer, Err(outside(pointer)));
                    continue;
                };
                let op = Op::Read {
                    device,
                    offset: offset / PROBE_BYTES * PROBE_BYTES,
                    pages: vec![Page::for_read()],
                };
                let probe = Inflight::Probe {
                    aggregate,
                    pointer,
                    reason,
                };
                self.submit(op, probe);
            }
            return;
        }
        assert_eq!(
            completion.pages.len(),
            pointers.len(),
            "a read returns its pages"
        );
        let is_one = pointers.len() == 1;
        let mut verified = Vec::with_capacity(if is_one { 0 } else { pointers.len() });
        for (pointer, page) in pointers.into_iter().zip(completion.pages) {
            // Any content will do for who computes parity.
            if has_parity && pointer.tag == Pointer::HOLE.tag {
                let missing = Missing::Damaged {
                    reason: String::new(),
                    content: Some(page.freeze()),
                };
                self.arrive(aggregate, pointer, Err(missing));
                continue;
            }
            let found = shared.key.tag(&page);
            if found == pointer.tag {
                let page = page.freeze();
                let key = load::key(aggregate, pointer);
                match wrong {
                    Some(Wrong { drive, is_counted }) if drive != device => {
                        let note = Note {
                            tag: found,
                            page: page.clone(),
                            drive,
                            is_counted,
                        };
                        if shared.media.copies.note(pointer.pvbn, note) {
                            self.ask_for_commit(shared);
                        }
                    }
                    // It was damaged in transit.
                    Some(wrong) if is_spared && !wrong.is_counted => {
                        shared.media.copies.count(device, |it| it.wrong_blocks += 1);
                    }
                    _ => {}
                }
                if is_one {
                    self.shared.cache.insert(key, page.clone());
                } else {
                    verified.push((key, page.clone()));
                }
                self.arrive(aggregate, pointer, Ok(page));
                continue;
            }
            // Nothing is counted for the drive yet: the pointer may be out of date.
            let wrong = Some(Wrong {
                drive: device,
                is_counted: false,
            });
            if attempt < attempts_max {
                // The block may have been damaged in transit.
                self.load_again(aggregate, pointer, attempt + 1, wrong);
            } else {
                let reason = format!(
                    "block {} does not hold what was written there: expected tag {}, found {found}",
                    pointer.pvbn, pointer.tag
                );
                if self.reconstruct(shared, pointer, wrong, reason.clone()) {
                    continue;
                }
                let content = Some(page.freeze());
                self.arrive(
                    aggregate,
                    pointer,
                    Err(Missing::Damaged { reason, content }),
                );
            }
        }
        // The operations that waited run after this.
        self.shared.cache.insert_all(verified);
    }
}
