//! The journal: one header, and the scan of a whole region.
//!
//! A region is too large to be an input. So an input is a list of changes to a sound one, four
//! bytes each (block, place in it, value), after which headers are sealed again, and, if the first
//! byte of the input says so, the chain between them is mended too, so that the scan goes on behind
//! a change.

use everglade_env::{Page, PageRef};
use everglade_format::journal::{self, Header, Kind, Operation};
use everglade_format::{BLOCK_SIZE, Block, FileId, TagKey};
use everglade_journal::{Action, Entry, Journal, Position, Scan, Settings};

use super::Target;
use super::disk::{seal, with_key};

const UUID: [u8; 16] = [7; 16];
const HALF: u64 = 24;
const START: Position = Position {
    generation: 4,
    sequence: 100,
};
/// Of a header: where it names the code of the record before.
const PREVIOUS_AT: usize = 64;
const CODE_AT: usize = BLOCK_SIZE - 8;

pub(super) const HEADER: Target = Target {
    name: "journal-header",
    bytes_max: BLOCK_SIZE,
    seeds: || {
        let operation = |kind, offset, length| Operation {
            kind,
            volume: FileId(64),
            file: FileId(65),
            offset,
            length,
        };
        let header = Header {
            uuid: UUID,
            epoch: 3,
            life: 5,
            generation: 4,
            first_sequence: 100,
            previous: 0,
            wall_nanos: 1,
            operations: vec![
                operation(Kind::Write, 4096, 8192),
                operation(Kind::Punch, 0, 1 << 30),
            ],
            codes: vec![1, 2],
        };
        let mut block = [0; BLOCK_SIZE];
        with_key(|key| header.encode_into(&mut block, key));
        vec![block.to_vec(), block[..200].to_vec()]
    },
    run: |input| {
        with_key(|key| {
            let mut block = [0; BLOCK_SIZE];
            let count = input.len().min(BLOCK_SIZE);
            block[..count].copy_from_slice(&input[..count]);
            seal(&mut block, key);
            if let Ok(Some((header, _))) = Header::decode(&block, key) {
                let mut again = [0; BLOCK_SIZE];
                header.encode_into(&mut again, key);
                let again = Header::decode(&again, key);
                assert!(
                    again.is_ok_and(|again| again.is_some_and(|(again, _)| again == header)),
                    "lost"
                );
            }
        });
    },
};

pub(super) const SCAN: Target = Target {
    name: "journal-scan",
    bytes_max: 256,
    seeds: || {
        vec![
            vec![0],
            vec![1, 0, 12, 0, 3],
            vec![1, 5, 48, 0, 9, 2, 0, 0, 0],
        ]
    },
    run: |input| {
        with_key(|key| {
            let mut region = sound(key);
            let (mends, changes) = input
                .split_first()
                .map_or((0, input), |(first, rest)| (*first, rest));
            change(&mut region, changes);
            reseal(&mut region, key, mends & 1 != 0);
            scan(&region, key, mends);
        });
    },
};

/// A region with two generations of records.
fn sound(key: &TagKey) -> Vec<Block> {
    let settings = Settings {
        half_blocks: HALF,
        uuid: UUID,
        epoch: 3,
        life: 5,
    };
    let mut journal = Journal::new(settings, START);
    let mut region = vec![[0; BLOCK_SIZE]; 2 * usize::try_from(HALF).expect("small")];
    for round in 0..4u64 {
        for (pages, length) in [(1, 4096), (0, 1 << 20), (2, 5000)] {
            let page = Page::copy_of(&[round.to_le_bytes()[0]; BLOCK_SIZE]).freeze();
            let action = if pages == 0 {
                Action::Punch
            } else {
                Action::Write {
                    pages: vec![page; pages],
                }
            };
            journal.push(Entry {
                volume: FileId(64),
                file: FileId(65),
                offset: round * 8192,
                length,
                action,
            });
        }
        if round == 2 {
            journal.freeze();
        }
        while let Some(group) = journal.begin() {
            let (writes, finished) = group.encode(key, 1);
            for write in writes {
                for (block, page) in (write.block..).zip(&write.pages) {
                    region[usize::try_from(block).expect("small")] = **page;
                }
            }
            journal.end(finished);
        }
    }
    region
}

fn change(region: &mut [Block], changes: &[u8]) {
    for change in changes.chunks_exact(4) {
        let block = usize::from(change[0]) % region.len();
        let at = (usize::from(change[1]) | usize::from(change[2]) << 8) % BLOCK_SIZE;
        region[block][at] = change[3];
    }
}

/// Seals every header of the region; with `mend`, each also names the one before.
fn reseal(region: &mut [Block], key: &TagKey, mend: bool) {
    let mut previous: Option<[u8; 8]> = None;
    for block in region.iter_mut() {
        if !journal::has_magic(block) {
            continue;
        }
        if let Some(code) = previous.filter(|_| mend) {
            block[PREVIOUS_AT..PREVIOUS_AT + 8].copy_from_slice(&code);
        }
        seal(block, key);
        previous = block[CODE_AT..].try_into().ok();
    }
}

/// Reads it to the end. Bit 1 of `flags` makes every fifth run unreadable.
fn scan(region: &[Block], key: &TagKey, flags: u8) {
    let mut scan = Scan::new(HALF, UUID, 3, START);
    let mut entries = Vec::new();
    let mut runs = 0;
    while let Some((first, blocks)) = scan.wants() {
        runs += 1;
        assert!(runs < 1000, "the scan does not end");
        let at = usize::try_from(first).expect("small");
        let end = at + usize::try_from(blocks).expect("small");
        assert!(end <= region.len(), "a run beyond the region");
        let pages: Vec<PageRef> = if flags & 2 != 0 && runs % 5 == 0 {
            Vec::new()
        } else {
            let freeze = |block: &Block| Page::copy_of(block).freeze();
            region[at..end].iter().map(freeze).collect()
        };
        scan.feed(key, pages, &mut entries);
    }
    assert_eq!(
        entries.len() as u64,
        scan.outcome().operations,
        "entries are counted"
    );
}
