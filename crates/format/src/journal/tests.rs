//! Headers survive the round trip; nothing else passes for one.

use super::*;
use proptest::prelude::*;

fn key() -> TagKey {
    TagKey::new(&[3; 32])
}

fn operation() -> impl Strategy<Value = Operation> {
    let kind = prop_oneof![Just(Kind::Write), Just(Kind::Punch)];
    let length = prop_oneof![1..=WRITE_BYTES_MAX, 1..=8192u64];
    (kind, 64..=u32::MAX, 64..=u32::MAX, 0..1u64 << 50, length).prop_map(
        |(kind, volume, file, offset, length)| Operation {
            kind,
            volume: FileId(volume),
            file: FileId(file),
            offset,
            length,
        },
    )
}

fn header() -> impl Strategy<Value = Header> {
    let numbers = (1..JOURNAL_END, 1..JOURNAL_END, any::<[u64; 4]>());
    (numbers, prop::collection::vec(operation(), 1..=124)).prop_map(
        |((generation, first_sequence, any), mut operations)| {
            while !fits(operations.len(), pages(&operations)) {
                operations.pop();
            }
            let codes = (0..pages(&operations) as u64).map(|i| i ^ any[3]).collect();
            Header {
                uuid: [9; 16],
                epoch: any[0],
                life: any[1],
                generation,
                first_sequence,
                previous: any[2],
                wall_nanos: any[3],
                operations,
                codes,
            }
        },
    )
}

fn pages(operations: &[Operation]) -> usize {
    let pages: u64 = operations.iter().map(Operation::pages).sum();
    usize::try_from(pages).unwrap()
}

proptest! {
    #[test]
    fn a_header_survives_the_round_trip(header in header()) {
        let mut block = [0xff; BLOCK_SIZE];
        let code = header.encode_into(&mut block, &key());
        prop_assert_eq!(Header::decode(&block, &key()), Ok(Some((header, code))));
    }

    #[test]
    fn a_flipped_bit_is_noticed(header in header(), bit in 64..BLOCK_SIZE * 8) {
        let mut block = [0; BLOCK_SIZE];
        header.encode_into(&mut block, &key());
        block[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(Header::decode(&block, &key()).is_err());
    }

    #[test]
    fn resealed_bytes_never_panic_and_what_decodes_is_possible(
        header in header(),
        damage in prop::collection::vec((8..CODE_AT, any::<u8>()), 1..20),
    ) {
        let mut block = [0; BLOCK_SIZE];
        header.encode_into(&mut block, &key());
        for (at, byte) in damage {
            // The early offsets hold all the counts.
            block[if byte % 2 == 0 { at } else { 8 + at % 128 }] = byte;
        }
        put(&mut block, CODE_AT, [0; 8]);
        let code = key().code(&block);
        put(&mut block, CODE_AT, code.to_le_bytes());
        if let Ok(Some((header, _))) = Header::decode(&block, &key()) {
            prop_assert_eq!(pages(&header.operations), header.codes.len());
            prop_assert!(header.operations.iter().all(|o| o.validate().is_ok()));
        }
    }
}

#[test]
fn blocks_without_the_magic_are_no_headers() {
    assert_eq!(Header::decode(&[0; BLOCK_SIZE], &key()), Ok(None));
    assert_eq!(Header::decode(&[0xa5; BLOCK_SIZE], &key()), Ok(None));
}

#[test]
fn impossible_operations_are_named() {
    let good = Operation {
        kind: Kind::Write,
        volume: FIRST_FILE,
        file: FIRST_FILE,
        offset: 4095,
        length: WRITE_BYTES_MAX,
    };
    assert_eq!((good.validate(), good.pages()), (Ok(()), WRITE_PAGES_MAX));
    let punch = Operation {
        kind: Kind::Punch,
        offset: 0,
        length: u64::MAX,
        ..good
    };
    assert_eq!((punch.validate(), punch.pages()), (Ok(()), 0));
    let refused = [
        (
            Operation { length: 0, ..good },
            "range of a journalled operation",
        ),
        (
            Operation { length: 0, ..punch },
            "range of a journalled operation",
        ),
        (
            Operation { offset: 1, ..punch },
            "range of a journalled operation",
        ),
        (
            Operation {
                length: WRITE_BYTES_MAX + 1,
                ..good
            },
            "range of a journalled operation",
        ),
        (
            Operation {
                offset: u64::MAX - 8,
                ..good
            },
            "range of a journalled operation",
        ),
        (
            Operation {
                file: FileId(63),
                ..good
            },
            "file of a journalled operation",
        ),
        (
            Operation {
                volume: FileId(0),
                ..good
            },
            "file of a journalled operation",
        ),
    ];
    for (operation, what) in refused {
        let damage = operation.validate().expect_err("impossible");
        assert_eq!(damage.what, what, "{operation:?}");
    }
}

#[test]
fn a_record_of_small_writes_has_a_hundredth_of_overhead() {
    assert!(fits(99, 99) && !fits(100, 100));
    assert!(fits(124, 0) && !fits(125, 0));
}
