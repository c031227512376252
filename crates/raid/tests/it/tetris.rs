//! A tetris writes what it was given, and leaves parity from which everything can be reconstructed,
//! also when drives are lost before and while it is planned.

use everglade_env::{Page, PageRef};
use everglade_raid::code::{BLOCK_BYTES, PARITY_MAX};
use everglade_raid::tetris::{Place, Written};
use everglade_raid::{Block, Code, Columns, Tetris, TooManyLost};
use proptest::prelude::*;

use crate::losses::{encode, reconstruct};

const STRIPES: u64 = 12;

/// A group in memory: the content that it should have, and its drives.
struct Group {
    code: Code,
    /// Content of all data columns of each stripe.
    content: Vec<Vec<Block>>,
    /// Blocks of each column; zeroes at first.
    drives: Vec<Vec<Block>>,
    lost: Columns,
    /// Content of the next block.
    next: u64,
}

impl Group {
    fn new(code: Code) -> Group {
        let zeroes = || vec![[0; BLOCK_BYTES]; usize::try_from(STRIPES).expect("few")];
        Group {
            code,
            content: (0..STRIPES)
                .map(|_| vec![[0; BLOCK_BYTES]; code.data()])
                .collect(),
            drives: (0..code.columns()).map(|_| zeroes()).collect(),
            lost: Columns::NONE,
            next: 1,
        }
    }

    fn lose(&mut self, column: usize) {
        self.lost.insert(column);
        self.drives[column]
            .iter_mut()
            .for_each(|block| block.fill(0xee));
    }

    fn page(&mut self) -> PageRef {
        let mut page = Page::zeroed();
        for (at, byte) in page.iter_mut().enumerate() {
            let at = at as u64;
            *byte = (self.next.wrapping_mul(at + 7) >> (at % 8)).to_le_bytes()[0];
        }
        self.next += 1;
        page.freeze()
    }

    fn read(&self, place: Place) -> PageRef {
        assert!(!self.lost.has(place.column), "{place:?} is lost");
        Page::copy_of(&self.drives[place.column][index(place.stripe)]).freeze()
    }

    /// Writes these data blocks; `fails` is lost after the first reads have arrived.
    fn write(&mut self, places: &[Place], known: u64, fails: Option<usize>) -> Written {
        let mut tetris = Tetris::new(self.code, self.lost).expect("within the redundancy");
        for place in places {
            let page = self.page();
            self.content[index(place.stripe)][place.column] = *page;
            tetris.push(*place, page);
        }
        let mut fails = fails;
        loop {
            let reads = tetris.plan(|place| {
                let bit = place.stripe * 31 + place.column as u64;
                let is_known = known >> (bit % 64) & 1 == 1 && !self.lost.has(place.column);
                is_known.then(|| self.old(place))
            });
            let (now, later) = match fails {
                Some(_) => reads.split_at(reads.len() / 2),
                None => (&reads[..], &reads[..0]),
            };
            for place in now {
                tetris.arrived(*place, self.read(*place));
            }
            if let Some(column) = fails.take() {
                self.lose(column);
                tetris.fail(column).expect("within the redundancy");
            }
            for place in later {
                if !self.lost.has(place.column) {
                    tetris.arrived(*place, self.read(*place));
                }
            }
            if tetris.is_ready() {
                break;
            }
        }
        let written = tetris.finish();
        for run in &written.runs {
            let column = run.first.column;
            assert!(!self.lost.has(column), "column {column} is lost");
            for (stripe, page) in (run.first.stripe..).zip(&run.pages) {
                self.drives[column][index(stripe)] = **page;
            }
        }
        written
    }

    /// What the drive has, also if it was lost after it was read.
    fn old(&self, place: Place) -> PageRef {
        Page::copy_of(&self.drives[place.column][index(place.stripe)]).freeze()
    }

    /// Everything can be read: what is lost is reconstructed.
    fn check(&self) {
        let lost: Vec<usize> = self.lost.iter().collect();
        for stripe in 0..STRIPES {
            let mut blocks: Vec<Block> = self
                .drives
                .iter()
                .map(|drive| drive[index(stripe)])
                .collect();
            reconstruct(self.code, &mut blocks, &lost).expect("within the redundancy");
            let content = &self.content[index(stripe)];
            assert!(blocks[..self.code.data()] == content[..], "stripe {stripe}");
            let mut whole = blocks.clone();
            encode(self.code, &mut whole);
            assert!(whole == blocks, "parity of stripe {stripe}");
        }
    }

    /// With the base of a stripe in place of its parity, and zeroes in the written columns, the
    /// others can be reconstructed.
    fn check_bases(&self, written: &Written) {
        for partial in &written.partial {
            let mut blocks = self.content[index(partial.stripe)].clone();
            partial
                .written
                .iter()
                .for_each(|column| blocks[column].fill(0));
            blocks.extend(partial.base.iter().map(|page| **page));
            let mut encoded = blocks.clone();
            encode(self.code, &mut encoded);
            let parity = self.code.data()..self.code.columns();
            for column in parity.filter(|column| !self.lost.has(*column)) {
                assert!(
                    encoded[column] == blocks[column],
                    "base of {}",
                    partial.stripe
                );
            }
        }
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number).expect("small")
}

fn place(column: usize, stripe: u64) -> Place {
    Place { column, stripe }
}

#[test]
fn full_stripes_are_written_without_reads_in_one_run_for_each_column() {
    let mut group = Group::new(Code::new(4, 2).expect("in range"));
    let places: Vec<Place> = (3..9)
        .flat_map(|stripe| (0..4).map(move |column| place(column, stripe)))
        .collect();
    let written = group.write(&places, 0, None);
    assert_eq!((written.ways.full, written.reads), (6, 0));
    assert!(written.partial.is_empty());
    let runs: Vec<(usize, u64, usize)> = written
        .runs
        .iter()
        .map(|run| (run.first.column, run.first.stripe, run.pages.len()))
        .collect();
    let expected: Vec<(usize, u64, usize)> = (0..6).map(|column| (column, 3, 6)).collect();
    assert_eq!(runs, expected);
    group.check();
}

#[test]
fn a_mirror_writes_each_block_to_all_copies_and_reads_nothing() {
    let mut group = Group::new(Code::copies(3).expect("in range"));
    let written = group.write(&[place(0, 2), place(0, 3), place(0, 7)], 0, None);
    assert_eq!(
        (written.ways.full, written.reads, written.runs.len()),
        (3, 0, 6)
    );
    assert!(written.partial.is_empty());
    group.check();
    group.lose(0);
    group.lose(2);
    group.write(&[place(0, 3)], 0, None);
    group.check();
}

#[test]
fn more_losses_than_parity_write_nothing() {
    let code = Code::new(4, 1).expect("in range");
    let both: Columns = [0, 4].into_iter().collect();
    assert_eq!(Tetris::new(code, both).err(), Some(TooManyLost));
    let mut tetris = Tetris::new(code, Columns::NONE).expect("nothing is lost");
    tetris.push(place(1, 1), PageRef::zero());
    assert_eq!(tetris.fail(2), Ok(()));
    assert_eq!(tetris.fail(3), Err(TooManyLost));
}

#[test]
#[should_panic(expected = "is written twice")]
fn a_block_is_written_once() {
    let mut tetris = Tetris::new(Code::copies(2).expect("in range"), Columns::NONE).expect("empty");
    tetris.push(place(0, 1), PageRef::zero());
    tetris.push(place(0, 1), PageRef::zero());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn whatever_is_written_while_drives_fail_can_be_read(
        data in 1usize..7,
        parity in 1..=PARITY_MAX,
        mirror: bool,
        writes in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u8>()), 1..6),
        picks: [prop::sample::Index; PARITY_MAX],
    ) {
        let code = match mirror {
            true => Code::copies(parity + 1),
            false => Code::new(data, parity),
        };
        let code = code.expect("in range");
        let mut group = Group::new(code);
        let mut losses = picks.iter().take(parity).map(|pick| pick.index(code.columns()));
        for (pattern, known, event) in writes {
            let columns = 0..code.data();
            let all = (0..STRIPES)
                .flat_map(|stripe| columns.clone().map(move |column| place(column, stripe)));
            let places: Vec<Place> = all
                .enumerate()
                .filter(|(at, _)| pattern >> (at % 64) & 1 == 1)
                .map(|(_, place)| place)
                .collect();
            let fails = match event % 3 {
                0 => losses.next(),
                1 => {
                    if let Some(column) = losses.next() {
                        group.lose(column);
                    }
                    None
                }
                _ => None,
            };
            let written = group.write(&places, known, fails);
            group.check();
            group.check_bases(&written);
        }
    }
}
