//! The suite must detect faulty targets. Each fault here is a plausible mistake.

use std::panic::{AssertUnwindSafe, catch_unwind};

use everglade_env::{BLOCK_SIZE, Page};

use super::run;
use crate::model::Model;
use crate::{
    Allocation, Completion, Error, Export, Extent, LunHandle, Op, Reply, Target, Token, WriteSpan,
};

const BLOCK: u64 = BLOCK_SIZE as u64;

/// The methods of a target that a mistake here leaves as they are.
macro_rules! names_of_the_model {
    () => {
        fn exports(&self) -> Vec<Export> {
            self.model.exports()
        }

        fn open(&mut self, name: &str) -> Result<(LunHandle, Export), Error> {
            self.model.open(name)
        }

        fn close(&mut self, lun: LunHandle) {
            self.model.close(lun);
        }

        fn size_bytes(&self, lun: LunHandle) -> Option<u64> {
            self.model.size_bytes(lun)
        }
    };
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    DiscardTakesPartialBlocks,
    DiscardLeavesTheLastBlock,
    ZeroesTakeWholeBlocks,
    ZeroesLeavePartialBlocks,
    PartialWriteClearsItsBlock,
    LongRangesAreRefused,
    EmptyTransfersAreAccepted,
    RangesBeyondTheEndAreCutShort,
    CompletesTwice,
    ForgetsACompletion,
    ReadsOtherBytes,
    DurableWritesAreLost,
    NothingIsCompared,
    AMiscompareIsNoError,
    ExtentsAreAllData,
    ExtentsAreAllHoles,
    ExtentsAreTooMany,
}

struct Faulty {
    model: Model,
    fault: Fault,
    count: u64,
}

impl Faulty {
    fn twist(&self, lun: LunHandle, op: Op) -> Option<Op> {
        let size = self.model.size_bytes(lun).unwrap_or(0);
        Some(match (self.fault, op) {
            (
                Fault::DiscardTakesPartialBlocks,
                Op::Discard {
                    offset,
                    length,
                    durable,
                },
            ) => Op::WriteZeroes {
                offset,
                length,
                allocate: false,
                durable,
            },
            (
                Fault::DiscardLeavesTheLastBlock,
                Op::Discard {
                    offset,
                    length,
                    durable,
                },
            ) => Op::Discard {
                offset,
                length: length.saturating_sub(BLOCK),
                durable,
            },
            (
                Fault::ZeroesTakeWholeBlocks,
                Op::WriteZeroes {
                    offset,
                    length,
                    durable,
                    ..
                },
            ) if offset.checked_add(length).is_some_and(|end| end <= size) => {
                let start = offset / BLOCK * BLOCK;
                let end = (offset + length).next_multiple_of(BLOCK);
                Op::WriteZeroes {
                    offset: start,
                    length: end - start,
                    allocate: false,
                    durable,
                }
            }
            (
                Fault::ZeroesLeavePartialBlocks,
                Op::WriteZeroes {
                    offset,
                    length,
                    durable,
                    ..
                },
            ) => Op::Discard {
                offset,
                length,
                durable,
            },
            (Fault::PartialWriteClearsItsBlock, Op::Write { mut data, durable })
                if data.length > 0 && data.offset + u64::from(data.length) < size =>
            {
                let end = data.offset + u64::from(data.length);
                data.length = u32::try_from(end.next_multiple_of(BLOCK) - data.offset).unwrap();
                if data.length > crate::OP_BYTES_MAX {
                    data.length = crate::OP_BYTES_MAX;
                }
                Op::Write { data, durable }
            }
            (
                Fault::NothingIsCompared,
                Op::CompareAndWrite {
                    data,
                    durable,
                    compare,
                },
            ) if (data.offset, data.length) == (compare.offset, compare.length)
                && data.length <= crate::COMPARE_BYTES_MAX =>
            {
                Op::Write { data, durable }
            }
            (Fault::EmptyTransfersAreAccepted, Op::Read { length: 0, .. }) => Op::Flush,
            (
                Fault::RangesBeyondTheEndAreCutShort,
                Op::Discard {
                    offset, durable, ..
                },
            ) if offset > size => Op::Discard {
                offset: 0,
                length: 0,
                durable,
            },
            (Fault::ExtentsAreTooMany, Op::Extents { offset, length, .. }) => Op::Extents {
                offset,
                length,
                count_max: u32::MAX,
            },
            (Fault::DurableWritesAreLost, Op::Write { durable: true, .. }) => Op::Flush,
            (Fault::LongRangesAreRefused, Op::Discard { length, .. }) if length > 2 << 20 => {
                return None;
            }
            (_, op) => op,
        })
    }
}

impl Target for Faulty {
    names_of_the_model!();

    fn submit(&mut self, lun: LunHandle, op: Op, token: Token) {
        match self.twist(lun, op) {
            Some(op) => self.model.submit(lun, op, token),
            None => self.model.submit(
                lun,
                Op::Read {
                    offset: 0,
                    length: 0,
                },
                token,
            ),
        }
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        let before = done.len();
        self.model.poll(done);
        for at in before..done.len() {
            self.count += 1;
            if self.count != 100 {
                continue;
            }
            match self.fault {
                Fault::CompletesTwice => {
                    done.push(Completion {
                        token: done[at].token,
                        result: Ok(Reply::Done),
                    });
                }
                Fault::ForgetsACompletion => drop(done.remove(at)),
                _ => {}
            }
            return;
        }
        if self.fault == Fault::AMiscompareIsNoError
            && let Some(last) = done.last_mut()
            && matches!(last.result, Err(Error::Miscompare { .. }))
        {
            last.result = Ok(Reply::Done);
        }
        let lie = match self.fault {
            Fault::ExtentsAreAllData => Some(Allocation::Data),
            Fault::ExtentsAreAllHoles => Some(Allocation::Hole),
            _ => None,
        };
        if let Some(allocation) = lie
            && let Some(Completion {
                result: Ok(Reply::Extents(extents)),
                ..
            }) = done.last_mut()
        {
            let length = extents.iter().map(|extent| extent.length).sum();
            *extents = vec![Extent { length, allocation }];
        }
        if self.fault == Fault::ReadsOtherBytes
            && let Some(Completion {
                result: Ok(Reply::Data(span)),
                ..
            }) = done.last_mut()
            && span.length > 9000
        {
            span.pages[1] = Page::copy_of(&[0xaa; BLOCK_SIZE]).freeze();
        }
    }
}

fn passes(fault: Fault) -> bool {
    let mut target = Faulty {
        model: Model::with_lun("v/l", 8 << 20),
        fault,
        count: 0,
    };
    catch_unwind(AssertUnwindSafe(|| run(&mut target, "v/l", &mut |_| {}, 1))).is_ok()
}

#[test]
fn suite_passes_a_target_without_faults() {
    assert!(passes(Fault::None));
}

#[test]
fn suite_notices_every_fault() {
    for fault in [
        Fault::DiscardTakesPartialBlocks,
        Fault::DiscardLeavesTheLastBlock,
        Fault::ZeroesTakeWholeBlocks,
        Fault::ZeroesLeavePartialBlocks,
        Fault::PartialWriteClearsItsBlock,
        Fault::LongRangesAreRefused,
        Fault::EmptyTransfersAreAccepted,
        Fault::RangesBeyondTheEndAreCutShort,
        Fault::CompletesTwice,
        Fault::ForgetsACompletion,
        Fault::ReadsOtherBytes,
        Fault::DurableWritesAreLost,
        Fault::NothingIsCompared,
        Fault::AMiscompareIsNoError,
        Fault::ExtentsAreAllData,
        Fault::ExtentsAreAllHoles,
        Fault::ExtentsAreTooMany,
    ] {
        assert!(!passes(fault), "{fault:?} went unnoticed");
    }
}

/// Carries out reads in two halves, with whatever was submitted meanwhile in between.
struct Torn {
    model: Model,
    waiting: Vec<(LunHandle, u64, u32, Token)>,
}

impl Target for Torn {
    names_of_the_model!();

    fn submit(&mut self, lun: LunHandle, op: Op, token: Token) {
        if let Op::Read { offset, length } = op
            && length > 16_384
        {
            self.waiting.push((lun, offset, length, token));
        }
        self.model.submit(lun, op, token);
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        self.model.poll(done);
        for (lun, offset, length, token) in self.waiting.drain(..) {
            self.model.submit(lun, Op::Read { offset, length }, token);
            let mut second = Vec::new();
            self.model.poll(&mut second);
            let first = done.iter_mut().find(|completion| completion.token == token);
            if let (Some(first), Some(second)) = (first, second.pop())
                && let (Ok(Reply::Data(first)), Ok(Reply::Data(mut second))) =
                    (&mut first.result, second.result)
            {
                let half = first.pages.len() / 2;
                first.pages.truncate(half);
                first.pages.extend(second.pages.drain(half..));
            }
        }
    }
}

/// Compares when a compare-and-write is submitted, and writes when it is polled.
struct TwoSteps {
    model: Model,
    waiting: Vec<(LunHandle, Op, Token)>,
}

impl Target for TwoSteps {
    names_of_the_model!();

    fn submit(&mut self, lun: LunHandle, op: Op, token: Token) {
        let Op::CompareAndWrite {
            compare,
            data,
            durable,
        } = op
        else {
            return self.model.submit(lun, op, token);
        };
        let same = WriteSpan {
            pages: compare
                .pages
                .iter()
                .map(|page| Page::copy_of(page))
                .collect(),
            ..compare
        };
        let compared = Op::CompareAndWrite {
            compare,
            data: same,
            durable,
        };
        self.model.submit(lun, compared, token);
        self.waiting.push((lun, Op::Write { data, durable }, token));
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        self.model.poll(done);
        for (lun, write, token) in self.waiting.drain(..) {
            let of_this = done.iter_mut().find(|it| it.token == token);
            if let Some(Completion { result: Ok(_), .. }) = of_this {
                self.model.submit(lun, write, token);
                self.model.poll(&mut Vec::new());
            }
        }
    }
}

#[test]
fn suite_notices_a_comparison_apart_from_its_write() {
    let mut target = TwoSteps {
        model: Model::with_lun("v/l", 8 << 20),
        waiting: Vec::new(),
    };
    let result = catch_unwind(AssertUnwindSafe(|| run(&mut target, "v/l", &mut |_| {}, 1)));
    assert!(result.is_err(), "lost updates went unnoticed");
}

#[test]
fn suite_notices_torn_reads() {
    let mut target = Torn {
        model: Model::with_lun("v/l", 8 << 20),
        waiting: Vec::new(),
    };
    let result = catch_unwind(AssertUnwindSafe(|| run(&mut target, "v/l", &mut |_| {}, 1)));
    assert!(result.is_err(), "torn reads went unnoticed");
}
