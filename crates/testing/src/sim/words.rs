//! All words of one to three letters over an alphabet of operations, from some start states, cut at
//! each device write.
//!
//! The meaning of a letter depends on the state, and may be nothing. One request is made at a time;
//! after the word the world rests, so that background work is cut too. At each cut the allowed
//! states are those from the last durable one to the one being made ([`Recoveries`]). Case n is
//! word n / b from start state n mod b of b, the short words first.

use crate::engine::EngineMaker;
use crate::sim::recoveries::{Entry, Recoveries, mount};
use crate::sim::story::{Beginning, Life, Story};
use crate::sim::{Failure, Report};
use crate::system::Maker;
use crate::world::{Cut, Images, Keep};
use crate::{Seed, SimWorld};

/// Letters of the longest words.
const LENGTH_MAX: u32 = 3;

/// A start state, prepared.
struct Start<S: Story> {
    name: &'static str,
    images: Images,
    state: S::State,
    prelude: Vec<S::Step>,
}

/// See the module's documentation.
pub(super) struct Words<S: Story> {
    maker: EngineMaker,
    starts: Vec<Start<S>>,
}

fn words_of<S: Story>(length: u32) -> u64 {
    (S::ALPHABET.len() as u64).pow(length)
}

/// Words of all lengths.
fn all_words<S: Story>() -> u64 {
    (1..=LENGTH_MAX).map(words_of::<S>).sum()
}

/// A word, by its number.
fn word<S: Story>(number: u64) -> Vec<S::Letter> {
    let (mut rest, mut length) = (number, 1);
    while rest >= words_of::<S>(length) {
        rest -= words_of::<S>(length);
        length += 1;
    }
    let letters = S::ALPHABET.len() as u64;
    let letter = |_| {
        let index = rest % letters;
        rest /= letters;
        S::ALPHABET[usize::try_from(index).expect("an alphabet is short")]
    };
    (0..length).map(letter).collect()
}

/// Cases of a simulation, ready to run.
pub struct Cases {
    count: u64,
    run: Box<dyn Fn(u64) -> Result<Report, Failure>>,
}

impl Cases {
    pub(super) fn new(count: u64, run: impl Fn(u64) -> Result<Report, Failure> + 'static) -> Cases {
        Cases {
            count,
            run: Box::new(run),
        }
    }

    /// Returns the number of cases.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Runs one, by its number.
    ///
    /// # Errors
    /// A promise was broken.
    pub fn run(&self, number: u64) -> Result<Report, Failure> {
        (self.run)(number)
    }
}

impl<S: Story> Words<S> {
    /// Prepares all start states and returns all words from them.
    pub(super) fn cases() -> Result<Cases, Failure> {
        let all = Words::<S>::new()?;
        Ok(Cases {
            count: all_words::<S>() * all.starts.len() as u64,
            run: Box::new(move |number| all.run(number)),
        })
    }

    fn new() -> Result<Words<S>, Failure> {
        let maker = S::maker();
        let mut starts = Vec::new();
        for Beginning {
            name,
            steps,
            prelude,
        } in S::beginnings()
        {
            let world = SimWorld::new(Seed(1), 1, &maker.devices(S::POOL_BYTES));
            maker
                .format(&world)
                .map_err(|error| Failure::new(error).within("format"))?;
            let mut life = S::Life::new(&world, mount(&maker, &world)?, vec![S::State::default()]);
            for step in steps {
                life.step(step)
                    .map_err(|failure| failure.within(format!("preparing {name}")))?;
            }
            let state = life.now().clone();
            drop(life);
            starts.push(Start {
                name,
                images: world.after_cut(Cut::whole(Keep::Nothing)),
                state,
                prelude,
            });
        }
        Ok(Words { maker, starts })
    }

    fn run(&self, number: u64) -> Result<Report, Failure> {
        let starts = self.starts.len() as u64;
        let start = usize::try_from(number % starts).expect("few");
        self.run_word(start, &word::<S>(number / starts), number)
            .map_err(|failure| failure.within(format!("case {number}")))
    }

    fn run_word(&self, start: usize, word: &[S::Letter], number: u64) -> Result<Report, Failure> {
        let start = &self.starts[start];
        self.run_from(start, word, number)
            .map_err(|failure| failure.within(format!("{}, {word:?}", start.name)))
    }

    fn run_from(
        &self,
        start: &Start<S>,
        word: &[S::Letter],
        number: u64,
    ) -> Result<Report, Failure> {
        let world = SimWorld::restart(start.images.clone(), Seed(2), 1);
        let system = mount(&self.maker, &world)?;
        let mut life = S::Life::new(&world, system, vec![start.state.clone()]);
        for step in &start.prelude {
            life.step(step.clone())?;
        }
        world.watch_cuts(1, usize::MAX);
        // Any of what the prelude left volatile may be there at the first write that is watched.
        let states = life.states().iter().enumerate();
        let mut entries: Vec<Entry<S::State>> = states
            .map(|(index, state)| Entry {
                state: state.clone(),
                asked: 0,
                answered: 0,
                is_durable: index == 0,
            })
            .collect();
        for (position, letter) in (0..).zip(word) {
            let Some(step) = S::spell(*letter, life.now(), position) else {
                continue;
            };
            let asked = world.writes();
            life.step(step)?;
            entries.push(Entry::of::<S>(&life, &world, asked));
        }
        for step in S::ends() {
            life.step(step)?;
        }
        let mut report = Report {
            actions: life.asked(),
            writes: world.writes(),
            ..Report::default()
        };
        drop(life);
        let mut recoveries = Recoveries::<S>::new(&self.maker, &entries, number);
        recoveries.judge_all(&world, number, &mut report)?;
        Ok(report)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Checks that each of these words survives its cuts from every start state.
    pub(in super::super) fn survive<S: Story>(words: &[&[S::Letter]]) {
        let all = Words::<S>::new().unwrap_or_else(|failure| panic!("{failure}"));
        for (number, word) in words.iter().enumerate() {
            let report = all.run_word(number % all.starts.len(), word, 1);
            let report = report.unwrap_or_else(|failure| panic!("{failure}"));
            assert!(report.cuts >= 20, "{report}");
        }
    }

    /// Words are numbered without gaps.
    pub(in super::super) fn are_numbered<S: Story>() {
        let words = all_words::<S>();
        let each = (0..words).map(|number| format!("{:?}", word::<S>(number)));
        let each: std::collections::BTreeSet<_> = each.collect();
        assert_eq!(each.len() as u64, words);
        assert_eq!(word::<S>(0).len(), 1);
        assert_eq!(word::<S>(words - 1).len(), 3);
    }
}
