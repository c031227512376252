//! Lives that end at any moment with any part of the group in flight on media: durable operations
//! are found, in order and unchanged, despite leftovers of earlier lives (C-02, C-08).

use everglade_format::FileId;
use everglade_journal::{End, Entry, Finished, GroupWrite, Journal, Position, ScanSummary};
use proptest::prelude::*;

use crate::region::{Region, at, index, punch, same, write};

#[derive(Clone, Debug)]
enum Step {
    Push {
        offset: u64,
        length: u64,
    },
    Punch {
        length: u64,
    },
    Begin,
    End,
    Freeze,
    /// The superblock of the consistency point is on media, but the journal was not told yet.
    Superblock,
    Commit,
    /// Power is cut. Of the pages in flight those survive whose bit is set, and recovery may be cut
    /// as well, before its own consistency point.
    Crash {
        survivors: u64,
        in_recovery: bool,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let push = |most: u64| {
        (0..1u64 << 30, 1..most).prop_map(|(offset, length)| Step::Push { offset, length })
    };
    prop_oneof![
        12 => push(20_000),
        1 => push((1 << 20) + 1),
        2 => (1..u64::MAX >> 1).prop_map(|length| Step::Punch { length }),
        6 => Just(Step::Begin),
        6 => Just(Step::End),
        3 => Just(Step::Freeze),
        3 => Just(Step::Superblock),
        3 => Just(Step::Commit),
        1 => (any::<u64>(), any::<bool>())
            .prop_map(|(survivors, in_recovery)| Step::Crash { survivors, in_recovery }),
    ]
}

/// An aggregate reduced to its journal.
struct World {
    region: Region,
    journal: Journal,
    life: u64,
    in_flight: Option<(Vec<GroupWrite>, Finished)>,
    /// Position in the superblock on media.
    superblock: Position,
    /// Position in the superblock of the running consistency point.
    frozen: Option<Position>,
    /// Operations from the superblock's sequence on.
    pushed: Vec<Entry>,
    /// Makes every payload unique.
    counter: u64,
}

impl World {
    fn new(half_blocks: u64) -> World {
        let region = Region::new(half_blocks);
        let superblock = at(1, 1);
        World {
            journal: region.journal(1, superblock),
            region,
            life: 1,
            in_flight: None,
            superblock,
            frozen: None,
            pushed: Vec::new(),
            counter: 0,
        }
    }

    fn push(&mut self, entry: Entry) {
        let sequence = self.superblock.sequence + self.pushed.len() as u64;
        self.pushed.push(entry.clone());
        assert_eq!(self.journal.push(entry), sequence);
        assert_eq!(self.journal.last(), sequence);
    }

    fn step(&mut self, step: &Step) {
        self.counter += 1;
        match *step {
            Step::Push { offset, length } => self.push(write(self.counter, offset, length)),
            Step::Punch { length } => self.push(punch(self.counter, length)),
            Step::Begin => {
                let was_stuck = self.journal.is_stuck();
                if let Some(group) = self.journal.begin() {
                    assert!(!was_stuck, "a group of a stuck journal");
                    let (blocks, last) = (group.blocks(), group.last());
                    let (writes, finished) = group.encode(&crate::region::key(), self.counter);
                    assert_eq!(blocks, writes.iter().map(|w| w.pages.len() as u64).sum());
                    assert_eq!(last, finished.last());
                    self.in_flight = Some((writes, finished));
                }
                assert_eq!(self.journal.is_busy(), self.in_flight.is_some());
            }
            Step::End => {
                if let Some((writes, finished)) = self.in_flight.take() {
                    writes.iter().for_each(|write| self.region.apply(write));
                    self.journal.end(finished);
                }
            }
            Step::Freeze => {
                if self.frozen.is_none() {
                    self.frozen = Some(self.journal.freeze());
                }
            }
            Step::Superblock => {
                if let Some(position) = self.frozen {
                    self.write_superblock(position);
                }
            }
            Step::Commit => {
                if let Some(position) = self.frozen.take() {
                    self.write_superblock(position);
                    self.journal.commit(position);
                    assert!(self.journal.durable() + 1 >= position.sequence);
                }
            }
            Step::Crash {
                survivors,
                in_recovery,
            } => self.crash(survivors, in_recovery),
        }
    }

    fn write_superblock(&mut self, position: Position) {
        let contained = position.sequence - self.superblock.sequence;
        self.pushed.drain(..index(contained));
        self.superblock = position;
    }

    fn crash(&mut self, survivors: u64, in_recovery: bool) {
        let pages = self.in_flight.take().into_iter().flat_map(|(writes, _)| {
            writes
                .into_iter()
                .flat_map(|write| (write.block..).zip(write.pages))
        });
        for (number, (block, page)) in pages.enumerate() {
            if survivors >> (number % 64) & 1 == 1 {
                self.region.blocks[index(block)] = page;
            }
        }
        let outcome = self.recover();
        if in_recovery {
            assert_eq!(self.recover(), outcome, "recovery changes nothing");
        }
        self.life += 1;
        self.frozen = None;
        // The consistency point of the recovery. Without traces none is needed.
        if outcome.has_traces() {
            self.superblock = at(self.superblock.generation + 2, outcome.end.sequence);
        }
        self.pushed.clear();
        self.journal = self.region.journal(self.life, self.superblock);
    }

    fn recover(&self) -> ScanSummary {
        let (entries, outcome) = self.region.scan(self.superblock);
        assert!(entries.len() <= self.pushed.len(), "more than was pushed");
        for (found, pushed) in entries.iter().zip(&self.pushed) {
            assert!(same(found, pushed), "{found:?} is not {pushed:?}");
        }
        let end = self.superblock.sequence + entries.len() as u64;
        assert_eq!(outcome.end.sequence, end);
        assert!(end > self.journal.durable(), "a durable operation is lost");
        assert_ne!(outcome.reason, End::Unreadable);
        outcome
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn what_is_durable_survives_every_cut(
        half_blocks in prop_oneof![2..40u64, 258..700u64],
        steps in prop::collection::vec(step(), 1..200),
        survivors in any::<u64>(),
    ) {
        let mut world = World::new(half_blocks);
        for step in &steps {
            world.step(step);
        }
        world.crash(survivors, true);
    }
}

#[test]
fn every_subset_of_the_pages_of_a_group_that_ends_a_generation_leaves_a_prefix() {
    // Six pages: two records, one in each half.
    let mut world = World::new(40);
    world.step(&Step::Push {
        offset: 0,
        length: 4096,
    });
    world.step(&Step::Push {
        offset: 0,
        length: 4096,
    });
    world.step(&Step::Freeze);
    world.step(&Step::Push {
        offset: 0,
        length: 8192,
    });
    let group = world.journal.begin().unwrap();
    let (writes, _) = group.encode(&crate::region::key(), 1);
    assert_eq!(writes.len(), 2, "one run in each half");
    let pages: Vec<_> = writes
        .iter()
        .flat_map(|write| (write.block..).zip(&write.pages))
        .collect();
    assert_eq!(pages.len(), 6);
    for survivors in 0..64u32 {
        let mut region = world.region.clone();
        for (number, (block, page)) in pages.iter().enumerate() {
            if survivors >> number & 1 == 1 {
                region.blocks[index(*block)] = (*page).clone();
            }
        }
        let (entries, outcome) = region.scan(at(1, 1));
        let expected = match survivors {
            63 => 3,
            partly if partly & 7 == 7 => 2,
            _ => 0,
        };
        assert_eq!(
            entries.len(),
            expected,
            "survivors {survivors:06b}: {outcome:?}"
        );
        assert!(entries.iter().all(|entry| entry.file == FileId(65)));
    }
}

/// A group crossed the halves and only its younger half arrived. The next life must not log in
/// these generations: a third life, whose scan begins with the younger one, would take the leftover
/// for its own.
#[test]
fn the_younger_half_of_a_torn_group_is_a_trace() {
    let mut region = Region::new(16);
    let from = at(1, 1);
    let mut journal = region.journal(1, from);
    journal.push(crate::region::small(1));
    let next = journal.freeze();
    journal.push(crate::region::small(2));
    let group = journal.begin().expect("both");
    let (writes, _) = group.encode(&crate::region::key(), 1);
    assert_eq!(writes.len(), 2, "one for each half");
    region.apply(&writes[1]);

    let (entries, outcome) = region.scan(from);
    assert!(entries.is_empty(), "what came before it is missing");
    assert!(outcome.has_traces(), "{outcome:?}");
    assert_eq!(region.scan(next).0.len(), 1, "which is why it matters");
}
