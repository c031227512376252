//! Compare-and-write: it writes only over the expected contents, and it compares and writes in one
//! step.

use everglade_env::BLOCK_SIZE;

use super::{Action, Bench};
use crate::{COMPARE_BYTES_MAX, Error, Op, Reply, Target, WriteSpan};

const BLOCK: u64 = BLOCK_SIZE as u64;

/// Rounds of several operations that expect the same contents.
const ROUNDS: u32 = 20;
/// Operations of each round.
const RIVALS: usize = 6;

/// Runs all checks.
///
/// # Panics
/// When the target breaks the contract.
pub fn run<T: Target + ?Sized>(bench: &mut Bench<'_, T>) {
    one_byte_decides(bench);
    holes_are_zeroes(bench);
    senseless_ones_are_refused(bench);
    one_of_several_wins(bench);
}

fn one_byte_decides<T: Target + ?Sized>(bench: &mut Bench<'_, T>) {
    let ground = bench.dice.bytes(1 << 20);
    bench.check(&Action::write(0, ground.clone()));
    for (offset, length) in [
        (0, 1),
        (0, 512),
        (4095, 2),
        (BLOCK, BLOCK),
        (3 * BLOCK + 512, 3 * BLOCK + 1024),
        (253 * BLOCK, 3 * BLOCK),
        (100_000, u64::from(COMPARE_BYTES_MAX)),
    ] {
        let range = within(offset)..within(offset + length);
        let last = range.len() - 1;
        for wrong in [None, Some(0), Some(last / 2), Some(last)] {
            let mut compare = ground[range.clone()].to_vec();
            if let Some(place) = wrong {
                compare[place] ^= 1;
            }
            let action = Action::CompareAndWrite {
                offset,
                compare,
                bytes: bench.dice.bytes(range.len()),
                durable: wrong.is_none() && bench.dice.once_in(4),
            };
            bench.check(&action);
            bench.check(&Action::Read {
                offset: 0,
                length: 1 << 20,
            });
            bench.check(&Action::write(offset, ground[range.clone()].to_vec()));
        }
    }
}

fn holes_are_zeroes<T: Target + ?Sized>(bench: &mut Bench<'_, T>) {
    bench.check(&Action::discard(0, 16 * BLOCK));
    for (offset, length) in [(0, 4096), (5000, 20), (8191, 2), (5 * BLOCK, 2 * BLOCK)] {
        let mut compare = vec![0; within(length)];
        compare[within(length) - 1] = 7;
        for compare in [compare, vec![0; within(length)]] {
            let bytes = bench.dice.bytes(within(length));
            bench.check(&Action::CompareAndWrite {
                offset,
                compare,
                bytes,
                durable: false,
            });
            bench.check(&Action::Read {
                offset: 0,
                length: 16 * 4096,
            });
        }
    }
}

fn senseless_ones_are_refused<T: Target + ?Sized>(bench: &mut Bench<'_, T>) {
    let size = bench.size_bytes();
    let refused = |bench: &mut Bench<'_, T>, compare: WriteSpan, data: WriteSpan| {
        let place = data.offset;
        let durable = false;
        let answer = bench.run_op(Op::CompareAndWrite {
            compare,
            data,
            durable,
        });
        assert!(
            matches!(answer, Err(Error::Invalid(_))),
            "a senseless operation at {place}: {answer:?}"
        );
    };
    let zeroes = WriteSpan::zeroed;
    refused(bench, zeroes(0, 0), zeroes(0, 0));
    refused(bench, zeroes(0, 512), zeroes(0, 1024));
    refused(bench, zeroes(512, 512), zeroes(0, 512));
    refused(bench, zeroes(size, 512), zeroes(size, 512));
    refused(bench, zeroes(size - 512, 1024), zeroes(size - 512, 1024));
    let long = COMPARE_BYTES_MAX + 1;
    refused(bench, zeroes(0, long), zeroes(0, long));
}

/// Operations that expect the same contents and store different ones: one of them succeeds.
fn one_of_several_wins<T: Target + ?Sized>(bench: &mut Bench<'_, T>) {
    for _ in 0..ROUNDS {
        let length = 1 + bench.dice.below(u64::from(COMPARE_BYTES_MAX));
        let offset = bench.dice.below(bench.size_bytes().min(8 << 20) - length);
        let ground = bench.dice.bytes(within(length));
        bench.check(&Action::write(offset, ground.clone()));
        let rivals: Vec<Action> = (0..RIVALS)
            .map(|_| Action::CompareAndWrite {
                offset,
                compare: ground.clone(),
                bytes: bench.dice.bytes(within(length)),
                durable: false,
            })
            .collect();
        let tokens: Vec<_> = rivals
            .iter()
            .map(|rival| bench.submit(rival.op()))
            .collect();
        let results = bench.wait(&tokens);
        let mut winner = None;
        for (token, rival) in tokens.iter().zip(&rivals) {
            match &results[token] {
                Ok(Reply::Done) => {
                    assert!(winner.replace(rival).is_none(), "two of them succeed");
                }
                // Random bytes may begin alike.
                Err(Error::Miscompare { offset }) if u64::from(*offset) < length => {}
                other => panic!("{rival:?}: {other:?}"),
            }
        }
        let winner = winner.expect("one of them succeeds");
        bench.predict(winner).expect("the model agrees");
        bench.check(&Action::Read {
            offset,
            length: u32::try_from(length).expect("64 KiB"),
        });
    }
}

fn within(offset: u64) -> usize {
    usize::try_from(offset).expect("less than a MiB")
}
