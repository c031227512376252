//! All sequences of up to three operations, from several start states, cut at each device write.
//!
//! Each cut is tried with none, all, all but each one, and random subsets of the changes that were
//! not flushed. Everything is numbered, so that the whole can be spread over machines and days:
//! 7,137 cases; case n is sequence n / 3 from start state n mod 3, the short sequences first. The
//! start states are prepared once and cloned.

use super::cuts::{Start, Thoroughness, Ways};
use super::{Failure, Report};
use crate::Seed;
use crate::engine::EngineMaker;
use crate::system::Admin;
use crate::system::Maker;
use crate::workload::Action;
use crate::workload::small::{LUN, VOLUME, sequence, sequence_count};

/// Most operations in a sequence.
pub const LENGTH_MAX: u32 = 3;

/// Bytes of the pool that is not full.
const POOL_BYTES: u64 = 16 << 20;

/// The state at the start of sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// An empty LUN in an empty pool.
    Fresh,
    /// Clients were refused for lack of space.
    Full,
    /// Half of a half of the journal has records.
    LogHalfFull,
}

impl State {
    /// All start states.
    pub const ALL: [State; 3] = [State::Fresh, State::Full, State::LogHalfFull];

    fn maker(self) -> EngineMaker {
        match self {
            // The longest write of the alphabet has room in an empty half, and in none that has
            // anything.
            State::Fresh => EngineMaker {
                journal_half_blocks: 260,
                ..EngineMaker::SMALL
            },
            State::Full | State::LogHalfFull => EngineMaker::SMALL_LOGGED,
        }
    }

    fn start(self, seed: Seed) -> Result<Start, Failure> {
        let maker = self.maker();
        let write = |lun: &str, number: u64, length: u64| Action::Write {
            lun: lun.to_owned(),
            offset: number * length,
            length,
            fill: number + 1,
            durable: true,
        };
        match self {
            State::Fresh => Start::prepare(seed, 1, &maker.devices(POOL_BYTES), &maker, Vec::new()),
            State::Full => {
                let name = format!("{VOLUME}/big");
                let create = Admin::CreateLun {
                    name: name.clone(),
                    size_bytes: POOL_BYTES,
                };
                let mut more = vec![write(LUN, 0, 64 << 10), Action::Admin(create)];
                // The smallest pool there is; most of these are refused.
                more.extend((0..POOL_BYTES >> 18).map(|number| write(&name, number, 1 << 18)));
                more.extend(
                    (0..64).map(|number| write(&name, (POOL_BYTES >> 12) - number - 1, 1 << 12)),
                );
                Start::prepare(seed, 1, &maker.devices(0), &maker, more)
            }
            State::LogHalfFull => {
                let start =
                    Start::prepare(seed, 1, &maker.devices(POOL_BYTES), &maker, Vec::new())?;
                Ok(start.with_prelude(vec![write(LUN, 1, 128 << 10)]))
            }
        }
    }
}

/// Number of cases.
#[must_use]
pub fn count() -> u64 {
    let sequences: u64 = (1..=LENGTH_MAX).map(sequence_count).sum();
    sequences * State::ALL.len() as u64
}

/// The state and the sequence of a case.
#[must_use]
pub fn case(number: u64) -> (State, Vec<Action>) {
    let states = State::ALL.len() as u64;
    let state = State::ALL[usize::try_from(number % states).expect("few states")];
    let mut rest = number / states;
    for length in 1..LENGTH_MAX {
        if rest < sequence_count(length) {
            return (state, sequence(length, rest));
        }
        rest -= sequence_count(length);
    }
    (state, sequence(LENGTH_MAX, rest))
}

/// The start states, prepared.
pub struct Exhaustive {
    starts: Vec<(EngineMaker, Start)>,
}

/// The cuts of each case.
const THOROUGHNESS: Thoroughness = Thoroughness {
    stride: 1,
    points_max: usize::MAX,
    ways: Ways::Subsets(8),
    recoveries: 127,
    check: true,
};

impl Exhaustive {
    /// Prepares the start states.
    ///
    /// # Errors
    /// The error if the preparation fails.
    pub fn new(seed: Seed) -> Result<Exhaustive, Failure> {
        let start = |state: State| Ok((state.maker(), state.start(seed)?));
        let starts: Result<Vec<_>, Failure> = State::ALL.into_iter().map(start).collect();
        Ok(Exhaustive { starts: starts? })
    }

    /// Runs one case.
    ///
    /// # Errors
    /// A promise was broken.
    pub fn run(&self, number: u64) -> Result<Report, Failure> {
        let (state, sequence) = case(number);
        let place = usize::try_from(number % State::ALL.len() as u64).expect("few states");
        let (maker, start) = &self.starts[place];
        start
            .run(maker, &sequence, 1, THOROUGHNESS)
            .map_err(|failure| failure.within(format!("case {number}, {state:?}, {sequence:?}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_numbered_without_gaps_and_the_short_ones_come_first() {
        let all: std::collections::BTreeSet<String> = (0..count())
            .map(|number| format!("{:?}", case(number)))
            .collect();
        assert_eq!(all.len() as u64, count());
        assert_eq!(case(0).1.len(), 1);
        assert_eq!(case(count() - 1).1.len(), 3);
        assert!(crate::workload::small::alphabet().len() >= 12);
    }
}
