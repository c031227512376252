//! A LUN under test next to a model of it.

use std::collections::{BTreeMap, BTreeSet};

use super::{Action, Dice};
use crate::model::Model;
use crate::{
    Allocation, Completion, Error, Extent, LunHandle, OP_BYTES_MAX, Op, Reply, Target, Token,
};

/// Polls without a completion after which the target is declared stuck.
const PATIENCE: u32 = 10_000_000;
const BLOCK: u64 = everglade_env::BLOCK_SIZE as u64;
/// Extents asked for at once when all are compared.
const EXTENTS_MAX: u32 = 500;
/// Bytes shown when contents differ.
const BYTES_SHOWN: usize = 16;

/// Runs actions on a target and on a model, and compares.
pub struct Bench<'a, T: Target + ?Sized> {
    target: &'a mut T,
    progress: &'a mut dyn FnMut(&mut T),
    lun: LunHandle,
    name: String,
    size_bytes: u64,
    model: Model,
    model_lun: LunHandle,
    tokens_given: Token,
    /// Units of [`OP_BYTES_MAX`] that were ever changed.
    touched: BTreeSet<u64>,
    /// Blocks of which a part was zeroed, and which were not zeroed as a whole since.
    zeroed_in_part: BTreeSet<u64>,
    /// Choices of the workload.
    pub dice: Dice,
    seed: u64,
}

impl<'a, T: Target + ?Sized> Bench<'a, T> {
    /// Opens an empty LUN.
    ///
    /// # Panics
    /// If it cannot be opened or is too small.
    pub fn open(
        target: &'a mut T,
        name: &str,
        progress: &'a mut dyn FnMut(&mut T),
        seed: u64,
    ) -> Self {
        let (lun, export) = target.open(name).expect("the LUN under test can be opened");
        assert_eq!(export.name, name);
        assert!(!export.read_only, "the LUN under test can be written");
        assert!(
            export.size_bytes >= 4 << 20,
            "the LUN under test has at least 4 MiB"
        );
        assert_eq!(target.size_bytes(lun), Some(export.size_bytes));
        assert!(target.exports().contains(&export), "an open LUN is listed");
        let mut model = Model::with_lun(name, export.size_bytes);
        let (model_lun, _) = model.open(name).expect("the model has the LUN");
        Bench {
            target,
            progress,
            lun,
            name: name.to_owned(),
            size_bytes: export.size_bytes,
            model,
            model_lun,
            tokens_given: 0,
            touched: BTreeSet::new(),
            zeroed_in_part: BTreeSet::new(),
            dice: Dice::new(seed),
            seed,
        }
    }

    /// Returns the size of the LUN in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Returns the model, whose contents the LUN must have.
    #[must_use]
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Submits without waiting.
    pub fn submit(&mut self, op: Op) -> Token {
        self.tokens_given += 1;
        self.target.submit(self.lun, op, self.tokens_given);
        self.tokens_given
    }

    /// Tells the target of reads that may come.
    pub fn announce(&mut self, reads: &[(u64, u32)]) {
        self.target.expect_reads(self.lun, reads);
    }

    /// Waits until exactly these operations have completed.
    ///
    /// # Panics
    /// If another one completes, one completes twice, or none does for very long.
    pub fn wait(&mut self, tokens: &[Token]) -> BTreeMap<Token, Result<Reply, Error>> {
        let mut results = BTreeMap::new();
        let mut done = Vec::new();
        let mut idle = 0;
        while results.len() < tokens.len() {
            self.target.poll(&mut done);
            idle = if done.is_empty() { idle + 1 } else { 0 };
            assert!(idle < PATIENCE, "the target is stuck (seed {})", self.seed);
            for Completion { token, result } in done.drain(..) {
                assert!(tokens.contains(&token), "token {token} is not in flight");
                assert!(
                    results.insert(token, result).is_none(),
                    "token {token} completed twice"
                );
            }
            (self.progress)(self.target);
        }
        results
    }

    /// Runs one operation on the target alone.
    ///
    /// # Errors
    /// The target's error.
    pub fn run_op(&mut self, op: Op) -> Result<Reply, Error> {
        let token = self.submit(op);
        self.wait(&[token]).remove(&token).expect("waited for")
    }

    /// Runs one action on both and compares the answers.
    ///
    /// # Panics
    /// If they differ.
    pub fn check(&mut self, action: &Action) {
        self.check_group(std::slice::from_ref(action));
    }

    /// Runs actions at once, on both, and compares the answers. The outcome must not depend on
    /// their order.
    ///
    /// # Panics
    /// If the answers differ.
    pub fn check_group(&mut self, actions: &[Action]) {
        let reads = actions.iter().filter_map(|action| match action.op() {
            Op::Read { offset, length } => Some((offset, length)),
            _ => None,
        });
        self.announce(&reads.collect::<Vec<_>>());
        let tokens: Vec<Token> = actions
            .iter()
            .map(|action| self.submit(action.op()))
            .collect();
        let mut results = self.wait(&tokens);
        for (action, token) in actions.iter().zip(&tokens) {
            let expected = self.predict(action);
            let found = results.remove(token).expect("waited for");
            self.compare(action, expected, found);
        }
    }

    /// Reads everything that was ever changed, and compares.
    ///
    /// # Panics
    /// If the contents differ.
    pub fn compare_all(&mut self) {
        let unit = u64::from(OP_BYTES_MAX);
        for number in self.touched.clone() {
            let offset = number * unit;
            let length = unit.min(self.size_bytes - offset);
            let length = u32::try_from(length).expect("one unit");
            self.check(&Action::Read { offset, length });
        }
        self.compare_extents(0..self.size_bytes, EXTENTS_MAX);
    }

    /// Asks for all extents of a range, as often as that takes, and compares.
    ///
    /// # Panics
    /// If they break the contract: a hole that does not read as zeroes, a hole that is said to be
    /// data, more extents than were asked for, equal neighbours, or none.
    pub fn compare_extents(&mut self, range: std::ops::Range<u64>, count_max: u32) {
        let mut at = range.start;
        while at < range.end {
            let action = Action::Extents {
                offset: at,
                length: range.end - at,
                count_max,
            };
            let found = match self.run_op(action.op()) {
                Ok(Reply::Extents(extents)) => extents,
                other => panic!("extents at {at}: {other:?}, seed {}", self.seed),
            };
            assert!(!found.is_empty(), "no extents at {at}");
            assert!(
                found.len() as u64 <= u64::from(count_max),
                "{} extents where {count_max} were wanted",
                found.len()
            );
            let differ = |pair: &[Extent]| pair[0].allocation != pair[1].allocation;
            assert!(
                found.windows(2).all(differ),
                "equal neighbours at {at}: {found:?}"
            );
            for extent in found {
                assert!(extent.length > 0, "an empty extent at {at}");
                assert!(
                    extent.length <= range.end - at,
                    "an extent beyond the range, at {at}: {extent:?}"
                );
                self.compare_extent(at, extent);
                at += extent.length;
            }
        }
    }

    /// Returns the model's extents: data where it has data, and holes where it reads as zeroes.
    fn compare_extent(&mut self, offset: u64, extent: Extent) {
        let end = offset + extent.length;
        let mut at = offset;
        while at < end {
            let action = Action::Extents {
                offset: at,
                length: end - at,
                count_max: 1,
            };
            let Ok(Reply::Extents(expected)) = self.predict(&action) else {
                panic!("the model knows its extents")
            };
            let run = expected[0];
            match (extent.allocation, run.allocation) {
                (Allocation::Data, Allocation::Hole) => self.assert_zeroed_in_part(at, run.length),
                (Allocation::Hole, Allocation::Data) => self.assert_zero(at, run.length),
                _ => {}
            }
            at += run.length;
        }
    }

    /// Checks that all of these blocks had a part zeroed, which may have allocated them.
    fn assert_zeroed_in_part(&self, offset: u64, length: u64) {
        for block in offset / BLOCK..(offset + length).div_ceil(BLOCK) {
            assert!(
                self.zeroed_in_part.contains(&block),
                "{}: block {block}, which takes no space, is said to be data, seed {}",
                self.name,
                self.seed
            );
        }
    }

    fn note_zeroes(&mut self, action: &Action) {
        let range = action.range();
        let (first, end) = (range.start.div_ceil(BLOCK), range.end / BLOCK);
        if matches!(action, Action::Discard { .. } | Action::WriteZeroes { .. }) {
            self.zeroed_in_part
                .retain(|block| !(first..end).contains(block));
        }
        if matches!(action, Action::WriteZeroes { .. }) {
            let edges = [range.start / BLOCK, (range.end - 1) / BLOCK];
            let is_partial = |block: &u64| !(first..end).contains(block);
            self.zeroed_in_part
                .extend(edges.into_iter().filter(is_partial));
        }
    }

    fn assert_zero(&self, offset: u64, length: u64) {
        let mut at = offset;
        while at < offset + length {
            let piece = (offset + length - at).min(u64::from(OP_BYTES_MAX));
            let piece = u32::try_from(piece).expect("one operation");
            let bytes = self.model.bytes(&self.name, at, piece);
            assert!(
                bytes.iter().all(|byte| *byte == 0),
                "{}: a hole within {at}+{piece} has bytes, seed {}",
                self.name,
                self.seed
            );
            at += u64::from(piece);
        }
    }

    /// Compares everything and closes the LUN.
    ///
    /// # Panics
    /// If the contents differ.
    pub fn close(mut self) {
        self.compare_all();
        self.target.close(self.lun);
    }

    /// Carries an action out on the model alone.
    pub fn predict(&mut self, action: &Action) -> Result<Reply, Error> {
        let range = action.range();
        if action.changes() && !range.is_empty() && range.end <= self.size_bytes {
            let unit = u64::from(OP_BYTES_MAX);
            self.touched
                .extend(range.start / unit..=(range.end - 1) / unit);
            self.note_zeroes(action);
        }
        self.model.submit(self.model_lun, action.op(), 0);
        let mut done = Vec::new();
        self.model.poll(&mut done);
        done.pop().expect("the model answers at once").result
    }

    fn compare(
        &self,
        action: &Action,
        expected: Result<Reply, Error>,
        found: Result<Reply, Error>,
    ) {
        let place = || {
            let bytes = if let Action::Write { bytes, .. } = action {
                bytes.len()
            } else {
                0
            };
            let range = action.range();
            format!(
                "{} {range:?} ({bytes} bytes written), seed {}",
                self.name, self.seed
            )
        };
        match (expected, found) {
            (Ok(Reply::Done), Ok(Reply::Done))
            | (Err(Error::Invalid(_)), Err(Error::Invalid(_))) => {}
            (Err(Error::Miscompare { offset }), Err(Error::Miscompare { offset: found }))
                if offset == found => {}
            (Ok(Reply::Data(expected)), Ok(Reply::Data(found))) => {
                assert_eq!(
                    (expected.offset, expected.length),
                    (found.offset, found.length)
                );
                let (expected, found) = (expected.to_vec(), found.to_vec());
                let Some(at) = expected.iter().zip(&found).position(|(e, f)| e != f) else {
                    return;
                };
                let end = (at + BYTES_SHOWN).min(found.len());
                panic!(
                    "{}: byte {at} of the read: expected {:02x?}…, found {:02x?}…",
                    place(),
                    &expected[at..end],
                    &found[at..end]
                );
            }
            (expected, found) => panic!("{}: expected {expected:?}, found {found:?}", place()),
        }
    }
}
