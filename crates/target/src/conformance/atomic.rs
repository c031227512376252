//! Contract 2: a reader sees all of an operation or nothing of it; and contract 1, read after
//! write.

use super::{Action, Bench};
use crate::{OP_BYTES_MAX, Op, Reply, Target, Token};

/// Rounds of readers against a writer.
const ROUNDS: u32 = 12;
/// Readers of each round.
const READERS: usize = 6;

/// Readers overlap a write, a discard or zeroes in flight.
///
/// # Panics
/// When a read returns a mixture.
pub fn run<T: Target + ?Sized>(bench: &mut Bench<'_, T>) {
    for round in 0..ROUNDS {
        let length = 1 + bench.dice.below(u64::from(OP_BYTES_MAX));
        let offset = bench.dice.below(bench.size_bytes().min(16 << 20) - length);
        let bytes = usize::try_from(length).expect("one operation");
        let ground = bench.dice.bytes(bytes);
        bench.check(&Action::write(offset, ground));
        let change = match round % 3 {
            0 => Action::write(offset, bench.dice.bytes(bytes)),
            1 => Action::discard(offset, length),
            _ => Action::zeroes(offset, length),
        };
        race(
            bench,
            &change,
            offset,
            u32::try_from(length).expect("one operation"),
        );
    }
}

fn race<T: Target + ?Sized>(bench: &mut Bench<'_, T>, change: &Action, offset: u64, length: u32) {
    let whole = Op::Read { offset, length };
    let before = data(bench.predict(&Action::Read { offset, length }));
    let mut readers: Vec<Token> = Vec::new();
    for _ in 0..READERS / 2 {
        readers.push(bench.submit(Op::Read { offset, length }));
    }
    let writer = bench.submit(change.op());
    while readers.len() < READERS {
        readers.push(bench.submit(Op::Read { offset, length }));
    }
    let mut tokens = readers.clone();
    tokens.push(writer);
    let mut results = bench.wait(&tokens);
    assert!(
        matches!(results.remove(&writer), Some(Ok(Reply::Done))),
        "{change:?} fails"
    );
    bench
        .predict(change)
        .expect("the model agrees")
        .assert_done();
    let after = data(bench.predict(&Action::Read { offset, length }));
    for reader in readers {
        let seen = data(results.remove(&reader).expect("waited for"));
        assert!(
            seen == before || seen == after,
            "a read at {offset}+{length} is a mixture"
        );
    }
    // Read after write: every later read sees the completed change.
    assert!(
        data(bench.run_op(whole)) == after,
        "a completed change is not seen"
    );
}

fn data(result: Result<Reply, crate::Error>) -> Vec<u8> {
    match result {
        Ok(Reply::Data(span)) => span.to_vec(),
        other => panic!("a read returns {other:?}"),
    }
}

impl Reply {
    fn assert_done(&self) {
        assert!(matches!(self, Reply::Done), "a change returns no data");
    }
}
