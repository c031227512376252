//! Loads: pages that operations wait for, each read once for all operations that wait for it, and
//! in long runs where pages are neighbours.
//!
//! A page is compared with the tag in the pointer before any operation sees it (O-09). A page that
//! does not match, or cannot be read, is an error for the operations that use this pointer, and for
//! no others.

use std::collections::hash_map::Entry;

use everglade_env::{Completion, Nanos, Op, Outside, Page};
use everglade_format::Pointer;

use crate::media::Place;
use crate::media::writer::blocks_of;
use crate::pool::aggregate::Aggregate;
use crate::reactor::{Core, Operation, Work};
use crate::read::load::Missing;

/// Blocks in one device read: 1 MiB.
const RUN_BLOCKS: usize = 256;
/// Reads of a block before it counts as damaged.
const ATTEMPTS_MAX: u32 = 3;
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

/// Device operations in flight, by their tokens.
pub(crate) enum Inflight {
    Read {
        aggregate: u32,
        pointers: Vec<Pointer>,
        attempt: u32,
        reader: Reader,
        /// When it was submitted.
        since: Nanos,
    },
    /// A probe read of a block: after another block could not be read, the probe shows whether the
    /// device answers.
    Probe {
        aggregate: u32,
        pointer: Pointer,
        reason: String,
    },
    /// A write of this many blocks by the running consistency point.
    Write { aggregate: u32, blocks: usize },
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
}

fn key(aggregate: u32, pointer: Pointer) -> LoadKey {
    (aggregate, pointer.pvbn.0, pointer.tag.0)
}

impl<O: Outside> Core<O> {
    pub(super) fn submit(&mut self, op: Op, inflight: Inflight) {
        let token = self.inflight.insert(inflight) as u64;
        self.outside.submit(op, token);
    }

    pub(super) fn submit_cp(&mut self, aggregate: u32, op: Op) {
        let blocks = blocks_of(&op);
        self.submit(op, Inflight::Write { aggregate, blocks });
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
            }) = shared.media.locate(first.pvbn)
            else {
                done += 1;
                self.ahead_blocks -= u64::from(reader == Reader::Nobody);
                self.arrive(
                    aggregate,
                    first,
                    Err(Missing::Damaged {
                        reason: format!("block {} is outside the aggregate", first.pvbn),
                        content: None,
                    }),
                );
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
            let pages = Page::several(count);
            self.submit(
                Op::Read {
                    device,
                    offset,
                    pages,
                },
                Inflight::Read {
                    aggregate,
                    pointers,
                    attempt: 1,
                    reader,
                    since,
                },
            );
        }
    }

    /// Reads one block once more.
    fn load_again(&mut self, aggregate: u32, pointer: Pointer, attempt: u32) {
        let shared = self.shared.aggregate(aggregate);
        let Place { device, offset, .. } =
            shared.media.locate(pointer.pvbn).expect("located before");
        let op = Op::Read {
            device,
            offset,
            pages: vec![Page::for_read()],
        };
        let inflight = Inflight::Read {
            aggregate,
            pointers: vec![pointer],
            attempt,
            reader: Reader::Ourselves,
            since: self.outside.now(),
        };
        self.submit(op, inflight);
    }

    /// A page is here, or will not come.
    fn arrive(&mut self, aggregate: u32, pointer: Pointer, arrival: crate::read::load::Arrival) {
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
        let token = usize::try_from(completion.token).expect("tokens are places of the slab");
        match self.inflight.remove(token) {
            Inflight::Read {
                aggregate,
                pointers,
                attempt,
                reader,
                since,
            } => {
                let shared = self.shared.aggregate(aggregate);
                match reader {
                    Reader::Nobody => self.ahead_blocks -= pointers.len() as u64,
                    Reader::Client => {
                        let now = self.outside.now();
                        shared.media.share.note_read(now.saturating_sub(since), now);
                    }
                    Reader::Ourselves => {}
                }
                self.complete_read(&shared, pointers, attempt, completion);
            }
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
            Inflight::Write { aggregate, blocks } => {
                let home = self
                    .homes
                    .get_mut(&aggregate)
                    .expect("consistency points run at home");
                let run = home
                    .run
                    .as_mut()
                    .expect("writes belong to the running consistency point");
                let is_due = run
                    .writer
                    .completed(&home.aggregate.media, blocks, completion.result);
                if home.aggregate.is_halted() {
                    run.writer.abandon();
                }
                let ops = run.writer.take_ready(home.aggregate.media.share.blocks());
                home.aggregate
                    .media
                    .share
                    .set_writing(run.writer.is_writing());
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
        }
    }

    fn complete_read(
        &mut self,
        shared: &Aggregate,
        pointers: Vec<Pointer>,
        attempt: u32,
        completion: Completion,
    ) {
        let aggregate = shared.id;
        if let Err(error) = completion.result {
            // One bad block must not fail its neighbours: read the blocks one by one.
            if pointers.len() > 1 || attempt < ATTEMPTS_MAX {
                for pointer in pointers {
                    self.load_again(aggregate, pointer, attempt + 1);
                }
                return;
            }
            for pointer in pointers {
                let reason = format!("reading block {}: {error}", pointer.pvbn);
                if !error.is_about_the_medium() {
                    self.arrive(aggregate, pointer, Err(Missing::Device(reason)));
                    continue;
                }
                let Place { device, offset, .. } =
                    shared.media.locate(pointer.pvbn).expect("located before");
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
            let found = shared.key.tag(&page);
            if found == pointer.tag {
                let page = page.freeze();
                let key = everglade_pagecache::Key {
                    aggregate,
                    pvbn: pointer.pvbn,
                    tag: pointer.tag,
                };
                if is_one {
                    self.shared.cache.insert(key, page.clone());
                } else {
                    verified.push((key, page.clone()));
                }
                self.arrive(aggregate, pointer, Ok(page));
            } else if attempt < ATTEMPTS_MAX {
                // The block may have been damaged in transit.
                self.load_again(aggregate, pointer, attempt + 1);
            } else {
                let reason = format!(
                    "block {} does not hold what was written there: expected tag {}, found {found}",
                    pointer.pvbn, pointer.tag
                );
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
