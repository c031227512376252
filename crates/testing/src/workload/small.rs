//! Small worlds, enumerated: every sequence of a few actions over an alphabet.
//!
//! Unlike sampling, this covers all cases: a rule that three operations on one small LUN can break
//! is broken by one of these sequences.

use everglade_env::BLOCK_SIZE;

use super::Action;
use crate::system::Admin;

const BLOCK: u64 = BLOCK_SIZE as u64;

/// The LUN all small sequences work on, and its volume. They exist from the start.
pub const LUN: &str = "v/l";
/// See [`LUN`].
pub const VOLUME: &str = "v";
/// Size of [`LUN`]: two spans and a bit, so that it has two levels of indirect blocks.
pub const LUN_BYTES: u64 = (2 * super::place::SPAN + 2) * BLOCK;

/// The letters. `fill` is set when a sequence is spelled, so that contents differ.
#[must_use]
pub fn alphabet() -> Vec<Action> {
    let lun = || LUN.to_owned();
    let write = |offset, length, durable| Action::Write {
        lun: lun(),
        offset,
        length,
        fill: 0,
        durable,
    };
    vec![
        write(0, BLOCK, false),
        write(BLOCK, 1, false),
        // A span has 255 blocks, so this one reaches into the next.
        write(0, 1 << 20, false),
        write(0, 3 * BLOCK, true),
        Action::Flush { lun: lun() },
        Action::Discard {
            lun: lun(),
            offset: 0,
            length: 2 * BLOCK,
            durable: false,
        },
        Action::WriteZeroes {
            lun: lun(),
            offset: BLOCK / 2,
            length: BLOCK,
            allocate: false,
            durable: false,
        },
        Action::Admin(Admin::CreateLun {
            name: "v/new".to_owned(),
            size_bytes: LUN_BYTES,
        }),
        Action::Admin(Admin::DeleteLun { name: lun() }),
        Action::Admin(Admin::GrowLun {
            name: lun(),
            size_bytes: LUN_BYTES + BLOCK,
        }),
        Action::Admin(Admin::CreateVolume {
            name: "w".to_owned(),
        }),
        Action::Admin(Admin::DeleteVolume {
            name: VOLUME.to_owned(),
        }),
        Action::Admin(Admin::ConsistencyPoint),
    ]
}

/// The letters of worlds in which the LUN becomes shorter and longer again, and is written where
/// its end is.
#[must_use]
pub fn resizing() -> Vec<Action> {
    let lun = || LUN.to_owned();
    let write = |block: u64, blocks: u64, durable| Action::Write {
        lun: lun(),
        offset: block * BLOCK,
        length: blocks * BLOCK,
        fill: 0,
        durable,
    };
    let shrink = |blocks: u64| {
        Action::Admin(Admin::ShrinkLun {
            name: lun(),
            size_bytes: blocks * BLOCK,
        })
    };
    let span = super::place::SPAN;
    vec![
        write(span - 2, 4, false),
        write(2 * span, 2, true),
        write(span + 1, 1, false),
        shrink(span - 1),
        shrink(span),
        shrink(span + 2),
        shrink(1),
        Action::Admin(Admin::GrowLun {
            name: lun(),
            size_bytes: LUN_BYTES,
        }),
        Action::Admin(Admin::DeleteLun { name: lun() }),
        Action::Flush { lun: lun() },
        Action::Admin(Admin::ConsistencyPoint),
    ]
}

/// Sequence `number` of those of exactly `length` of these letters; contents differ from write to
/// write.
#[must_use]
pub fn spelled(letters: &[Action], length: u32, mut number: u64) -> Vec<Action> {
    let count = letters.len() as u64;
    let mut sequence = Vec::new();
    for position in 0..length {
        let index = usize::try_from(number % count).expect("an index into the alphabet");
        let mut action = letters[index].clone();
        if let Action::Write { fill, .. } = &mut action {
            *fill = 1000 + u64::from(position);
        }
        sequence.push(action);
        number /= count;
    }
    sequence
}

/// Returns the number of sequences of exactly `length` letters.
#[must_use]
pub fn sequence_count(length: u32) -> u64 {
    (alphabet().len() as u64).pow(length)
}

/// Every sequence of exactly `length` letters.
pub fn sequences(length: u32) -> impl Iterator<Item = Vec<Action>> {
    (0..sequence_count(length)).map(move |number| sequence(length, number))
}

/// Returns sequence `number` of those of exactly `length` letters. Contents differ from write to
/// write, and a deleted object is created again under the same name.
#[must_use]
pub fn sequence(length: u32, mut number: u64) -> Vec<Action> {
    let letters = alphabet();
    let count = letters.len() as u64;
    let mut sequence: Vec<Action> = Vec::new();
    for position in 0..length {
        let index = usize::try_from(number % count).expect("an index into the alphabet");
        let mut action = letters[index].clone();
        let is_deleted = |lost: &Admin| sequence.contains(&Action::Admin(lost.clone()));
        let (lun, volume) = (LUN.to_owned(), VOLUME.to_owned());
        match &mut action {
            Action::Write { fill, .. } => *fill = 1000 + u64::from(position),
            Action::Admin(Admin::CreateLun { name, .. })
                if is_deleted(&Admin::DeleteLun { name: lun.clone() }) =>
            {
                *name = lun;
            }
            Action::Admin(Admin::CreateVolume { name })
                if is_deleted(&Admin::DeleteVolume {
                    name: volume.clone(),
                }) =>
            {
                *name = volume;
            }
            _ => {}
        }
        sequence.push(action);
        number /= count;
    }
    sequence
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_sequences_come_once() {
        let all: Vec<String> = sequences(2)
            .map(|sequence| format!("{sequence:?}"))
            .collect();
        let different: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(all.len(), alphabet().len().pow(2));
        assert_eq!(different.len(), all.len());
    }
}
