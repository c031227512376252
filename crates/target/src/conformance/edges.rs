//! Edge cases of the contract, each in one test: invalid ranges, partial blocks, exact zeroes.

use everglade_env::BLOCK_SIZE;

use super::{Action, Bench};
use crate::{Error, OP_BYTES_MAX, Op, Target, WriteSpan};

const BLOCK: u64 = BLOCK_SIZE as u64;
/// Blocks per indirect block of the engine (docs/design/design.md §4); no more than another number
/// to others.
const SPAN: u64 = 255 * BLOCK;

/// Runs all edge cases.
///
/// # Panics
/// When the target breaks the contract.
pub fn run<T: Target + ?Sized>(bench: &mut Bench<'_, T>) {
    empty_lun_reads_as_zeroes(bench);
    senseless_ranges_are_refused(bench);
    partial_writes_keep_their_neighbours(bench);
    discard_keeps_partial_blocks(bench);
    zeroes_are_exact_to_the_byte(bench);
    last_bytes_can_be_written(bench);
    long_ranges_can_be_discarded_and_zeroed(bench);
    flushes_and_durable_operations_complete(bench);
    extents_are_exact(bench);
    announced_reads_need_not_come(bench);
}

/// Reads of an empty LUN, aligned or not, return zeroes.
pub fn empty_lun_reads_as_zeroes<T: Target + ?Sized>(bench: &mut Bench<'_, T>) {
    for (offset, length) in [
        (0, 1),
        (0, OP_BYTES_MAX),
        (4095, 2),
        (SPAN - 1, 4098),
        (12_345, 777),
    ] {
        bench.check(&Action::Read { offset, length });
    }
}

/// Checks that ranges beyond the end, and transfers without a length, are refused.
pub fn senseless_ranges_are_refused<T: Target + ?Sized>(bench: &mut Bench<'_, T>) {
    let size = bench.size_bytes();
    let reads = [
        (0, 0),
        (size, 1),
        (size - 1, 2),
        (size + BLOCK, 1),
        (u64::MAX, 1),
        (u64::MAX - 10, 100),
        (0, OP_BYTES_MAX + 1),
        (0, u32::MAX),
    ];
    for (offset, length) in reads {
        bench.check(&Action::Read { offset, length });
    }
    for (offset, length) in [
        (size, 1),
        (size - 1, 2),
        (size - 1, 8192),
        (size + BLOCK, 1),
    ] {
        bench.check(&Action::write(offset, vec![0xee; length]));
    }
    let empty = WriteSpan {
        offset: 0,
        length: 0,
        pages: Vec::new(),
    };
    let answer = bench.run_op(Op::Write {
        data: empty,
        durable: false,
    });
    assert!(
        matches!(answer, Err(Error::Invalid(_))),
        "a write of no bytes: {answer:?}"
    );
    for (offset, length) in [
        (size, 1),
        (size - 1, 2),
        (0, size + 1),
        (1, size),
        (u64::MAX, 1),
        (1, u64::MAX),
        (u64::MAX, u64::MAX),
    ] {
        bench.check(&Action::discard(offset, length));
        bench.check(&Action::zeroes(offset, length));
    }
    bench.check(&Action::Read {
        offset: size - 8192,
        length: 8192,
    });
}

/// Writes of a few bytes inside, at the edge of and across blocks.
pub fn partial_writes_keep_their_neighbours<T: Target + ?Sized>(bench: &mut Bench<'_, T>) {
    let ground = bench.dice.bytes(65_536);
    bench.check(&Action::write(0, ground));
    for (offset, length) in [
        (0, 1),
        (1, 1),
        (4095, 1),
        (4095, 2),
        (4096, 4095),
        (8191, 4098),
        (20_000, 9_999),
    ] {
        let bytes = bench.dice.bytes(length);
        bench.check(&Action::write(offset, bytes));
        bench.check(&Action::Read {
            offset: 0,
            length: 65_536,
        });
    }
    // In a hole, the neighbouring bytes are zeroes.
    let bytes = bench.dice.bytes(10);
    bench.check(&Action::write(200_001, bytes));
    bench.check(&Action::Read {
        offset: 196_608,
        length: 8192,
    });
}

/// Whole blocks of a discard read as zeroes; partial ones keep their bytes.
pub fn discard_keeps_partial_blocks<T: Target + ?Sized>(bench: &mut Bench<'_, T>) {
    for (offset, length) in [
        (BLOCK, BLOCK),
        (BLOCK + 1, BLOCK),
        (BLOCK, BLOCK - 1),
        (BLOCK - 1, BLOCK + 2),
        (BLOCK + 1, 3 * BLOCK),
        (100, 50),
        (3 * BLOCK, 5 * BLOCK),
    ] {
        let ground = bench.dice.bytes(16 * BLOCK_SIZE);
        bench.check(&Action::write(0, ground));
        bench.check(&Action::discard(offset, length));
        bench.check(&Action::Read {
            offset: 0,
            length: 65_536,
        });
    }
}

/// Exactly the bytes named become zero, whether they may become a hole or not.
pub fn zeroes_are_exact_to_the_byte<T: Target + ?Sized>(bench: &mut Bench<'_, T>) {
    for allocate in [false, true] {
        for (offset, length) in [
            (BLOCK, BLOCK),
            (BLOCK + 1, 1),
            (BLOCK - 1, 2),
            (100, 3 * BLOCK),
            (BLOCK + 4095, BLOCK + 2),
            (2 * BLOCK, 7 * BLOCK + 13),
        ] {
            let ground = bench.dice.bytes(16 * BLOCK_SIZE);
            bench.check(&Action::write(0, ground));
            bench.check(&Action::WriteZeroes {
                offset,
                length,
                allocate,
                durable: false,
            });
            bench.check(&Action::Read {
                offset: 0,
                length: 65_536,
            });
        }
    }
}

/// The last byte, the last block, and one operation that ends exactly at the end.
pub fn last_bytes_can_be_written<T: Target + ?Sized>(bench: &mut Bench<'_, T>) {
    let size = bench.size_bytes();
    for length in [1, BLOCK, u64::from(OP_BYTES_MAX)] {
        let bytes = bench
            .dice
            .bytes(usize::try_from(length).expect("one operation"));
        bench.check(&Action::write(size - length, bytes));
        bench.check(&Action::Read {
            offset: size - (1 << 20),
            length: OP_BYTES_MAX,
        });
    }
    bench.check(&Action::discard(size - 1, 1));
    bench.check(&Action::Read {
        offset: size - BLOCK,
        length: 4096,
    });
    bench.check(&Action::discard(size - BLOCK, BLOCK));
    bench.check(&Action::Read {
        offset: size - 2 * BLOCK,
        length: 8192,
    });
}

/// Discards and zeroes are not limited to the length of a transfer.
pub fn long_ranges_can_be_discarded_and_zeroed<T: Target + ?Sized>(bench: &mut Bench<'_, T>) {
    let size = bench.size_bytes();
    for round in 0..2 {
        for offset in [SPAN - 5000, 2 * SPAN + 1, 0] {
            let bytes = bench.dice.bytes(12_000);
            bench.check(&Action::write(offset, bytes));
        }
        let (offset, length) = (4097, size.min(64 << 20) - 5000);
        let action = if round == 0 {
            Action::discard(offset, length)
        } else {
            Action::zeroes(offset, length)
        };
        bench.check(&action);
        bench.compare_all();
    }
}

/// Checks a flush, then one durable operation of each kind (write, discard, zeroes), then several
/// flushes at once.
pub fn flushes_and_durable_operations_complete<T: Target + ?Sized>(bench: &mut Bench<'_, T>) {
    bench.check(&Action::Flush);
    let bytes = bench.dice.bytes(5000);
    bench.check(&Action::Write {
        offset: 9000,
        bytes,
        durable: true,
    });
    bench.check(&Action::Discard {
        offset: 8192,
        length: 4096,
        durable: true,
    });
    let zeroes = Action::WriteZeroes {
        offset: 1,
        length: 9000,
        allocate: true,
        durable: true,
    };
    bench.check(&zeroes);
    bench.check_group(&[Action::Flush, Action::Flush, Action::Flush]);
    bench.compare_all();
}

/// Checks that written blocks take space and discarded blocks do not, that partial blocks count as
/// blocks, and that bounds are kept and invalid ranges are refused.
pub fn extents_are_exact<T: Target + ?Sized>(bench: &mut Bench<'_, T>) {
    let size = bench.size_bytes();
    bench.check(&Action::discard(0, size));
    bench.compare_extents(0..size, 1);
    for (offset, length) in [
        (BLOCK, 1),
        (3 * BLOCK - 1, 2),
        (SPAN - 1, 2),
        (SPAN + 7 * BLOCK, 9 * BLOCK),
        (size - 1, 1),
    ] {
        let bytes = bench
            .dice
            .bytes(usize::try_from(length).expect("a few blocks"));
        bench.check(&Action::write(offset, bytes));
    }
    for count_max in [1, 2, 3, 100] {
        bench.compare_extents(0..size, count_max);
        bench.compare_extents(5..3 * BLOCK + 1, count_max);
        bench.compare_extents(SPAN + 8 * BLOCK - 1..SPAN + 8 * BLOCK, count_max);
        bench.compare_extents(size - BLOCK - 1..size, count_max);
    }
    bench.check(&Action::discard(SPAN + 9 * BLOCK, BLOCK));
    bench.check(&Action::WriteZeroes {
        offset: SPAN + 11 * BLOCK + 5,
        length: 20 * BLOCK,
        allocate: true,
        durable: false,
    });
    bench.check(&Action::zeroes(SPAN + 14 * BLOCK, 2 * BLOCK));
    bench.compare_extents(0..size, 100);
    bench.check(&Action::Flush);
    bench.compare_extents(0..size, 100);
    for (offset, length) in [(0, 0), (size, 1), (0, size + 1), (u64::MAX, 2)] {
        bench.check(&Action::Extents {
            offset,
            length,
            count_max: 10,
        });
    }
}

/// Reads that were announced need not make sense, and may never be submitted.
pub fn announced_reads_need_not_come<T: Target + ?Sized>(bench: &mut Bench<'_, T>) {
    let size = bench.size_bytes();
    let block = u32::try_from(BLOCK).expect("a block");
    let reads = [
        (0, block),
        (0, 0),
        (size, block),
        (SPAN, u32::MAX),
        (u64::MAX, block),
        (u64::MAX - BLOCK, 1),
    ];
    bench.announce(&reads);
    bench.announce(&[]);
    bench.compare_all();
}
