//! Stories: what a word of letters means to a server and to its model.

use crate::SimWorld;
use crate::engine::{EngineMaker, EngineSystem};
use crate::sim::Failure;

/// A server with one request under way, and its model.
pub(super) trait Life<'a, S: Story>: Sized {
    /// Returns a life that may find any of these states.
    fn new(world: &'a SimWorld, system: EngineSystem, states: Vec<S::State>) -> Self;

    /// States since the last one that is durable, which is the first.
    fn states(&self) -> &[S::State];

    /// Things asked so far.
    fn asked(&self) -> u64;

    /// Does one step. The power does not fail.
    fn step(&mut self, step: S::Step) -> Result<(), Failure>;

    /// Finds the state among the possible ones.
    fn settle(&mut self) -> Result<(), Failure>;

    fn now(&self) -> &S::State {
        self.states().last().expect("there is always one")
    }
}

/// The subject of words: letters, states and steps.
pub(super) trait Story: Sized + 'static {
    type State: Clone + PartialEq + Default;
    type Step: Clone;
    type Letter: Copy + std::fmt::Debug + 'static;
    type Life<'a>: Life<'a, Self>;

    const ALPHABET: &'static [Self::Letter];
    const POOL_BYTES: u64;

    fn maker() -> EngineMaker;

    fn beginnings() -> Vec<Beginning<Self>>;

    /// Returns the step of a letter in a state, at a position of the word; `None` if the letter has
    /// no meaning there.
    fn spell(letter: Self::Letter, state: &Self::State, position: u64) -> Option<Self::Step>;

    /// Returns the steps that complete all background work, and check all data.
    fn ends() -> Vec<Self::Step>;

    /// Writes over whatever was taken for free, before that.
    fn goes_on(state: &Self::State) -> Vec<Self::Step>;

    /// True if background work is under way whose progress is not part of the state.
    fn is_going_on(state: &Self::State) -> bool;
}

/// A start state: its name, its durable preparation, and steps repeated in each run, so that their
/// work is under way.
pub(super) struct Beginning<S: Story> {
    pub(super) name: &'static str,
    pub(super) steps: Vec<S::Step>,
    pub(super) prelude: Vec<S::Step>,
}
