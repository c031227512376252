//! Random operations, several at once, against the model.
//!
//! Places are chosen near seams: block edges, the 1 MiB grid, the engine's 255-block spans, both
//! ends of the LUN. Operations of one group do not overlap any change of the group, byte by byte;
//! they do share blocks, which is where merging goes wrong.

use everglade_env::BLOCK_SIZE;

use super::{Action, Bench};
use crate::{OP_BYTES_MAX, Target};

/// Most operations submitted at once.
const GROUP_MAX: u64 = 12;
/// Bytes at both ends of the LUN to which operations are confined, so that they overlap often.
const REACH_BYTES: u64 = 6 << 20;

/// Runs `groups` groups of operations, with a full comparison now and then and at the end.
///
/// # Panics
/// When the target and the model differ.
pub fn run<T: Target + ?Sized>(bench: &mut Bench<'_, T>, groups: u32) {
    for number in 0..groups {
        let group = group(bench);
        bench.check_group(&group);
        if number % 50 == 49 {
            bench.compare_all();
        }
    }
    bench.compare_all();
}

fn group<T: Target + ?Sized>(bench: &mut Bench<'_, T>) -> Vec<Action> {
    let count = 1 + bench.dice.below(GROUP_MAX);
    let mut group: Vec<Action> = Vec::new();
    for _ in 0..count {
        let next = action(bench);
        let clash = |other: &Action| {
            let (a, b) = (next.range(), other.range());
            (next.changes() || other.changes()) && a.start < b.end && b.start < a.end
        };
        if !group.iter().any(clash) {
            group.push(next);
        }
    }
    group
}

fn action<T: Target + ?Sized>(bench: &mut Bench<'_, T>) -> Action {
    let (offset, length) = random_range(bench);
    let dice = &mut bench.dice;
    let durable = dice.once_in(12);
    match dice.below(20) {
        0..9 => {
            let bytes = dice.bytes(usize::try_from(length).expect("one operation"));
            Action::Write {
                offset,
                bytes,
                durable,
            }
        }
        9..14 => Action::Read {
            offset,
            length: u32::try_from(length).expect("one operation"),
        },
        14..17 => Action::Discard {
            offset,
            length: length * (1 + dice.below(2)),
            durable,
        },
        17..19 => {
            let allocate = dice.once_in(2);
            Action::WriteZeroes {
                offset,
                length,
                allocate,
                durable,
            }
        }
        _ => Action::Flush,
    }
}

/// A range of at most one operation, mostly within the LUN, sometimes beyond its end.
fn random_range<T: Target + ?Sized>(bench: &mut Bench<'_, T>) -> (u64, u64) {
    let size = bench.size_bytes();
    let dice = &mut bench.dice;
    let block = BLOCK_SIZE as u64;
    let grid = dice.pick(&[512, block, block, 255 * block, 1 << 20]);
    let length = match dice.below(10) {
        0..3 => 1 + dice.below(2 * block),
        3..6 => block * (1 + dice.below(4)),
        6..9 => 1 + dice.below(64 * block),
        _ => 1 + dice.below(u64::from(OP_BYTES_MAX)),
    };
    let reach = REACH_BYTES.min(size);
    let base = if dice.once_in(3) { size - reach } else { 0 };
    let seam = (base + dice.below(reach)) / grid * grid;
    let shift = dice.pick(&[0, 0, 0, 1, 511, 4095]);
    let offset = if dice.once_in(2) {
        seam + shift
    } else {
        seam.saturating_sub(shift)
    };
    if dice.once_in(20) {
        return (offset, length);
    }
    (offset.min(size - length), length)
}
