//! Stories: what a word of letters means to a server and to its model.

use crate::SimWorld;
use crate::engine::{EngineMaker, EngineSystem};
use crate::sim::Failure;

/// A server that is asked for one thing after the other, and what its model says.
pub(super) trait Life<'a, S: Story>: Sized {
    /// One that may find any of these states.
    fn new(world: &'a SimWorld, system: EngineSystem, states: Vec<S::State>) -> Self;

    /// States since the last one that is durable, which is the first.
    fn states(&self) -> &[S::State];

    /// Things asked so far.
    fn asked(&self) -> u64;

    /// Does one thing. The power does not fail.
    fn step(&mut self, step: S::Step) -> Result<(), Failure>;

    /// Finds which of the states that were possible is there.
    fn settle(&mut self) -> Result<(), Failure>;

    fn now(&self) -> &S::State {
        self.states().last().expect("there is always one")
    }
}

/// What words are about.
pub(super) trait Story: Sized + 'static {
    type State: Clone + PartialEq + Default;
    type Step: Clone;
    type Letter: Copy + std::fmt::Debug + 'static;
    type Life<'a>: Life<'a, Self>;

    const ALPHABET: &'static [Self::Letter];
    const POOL_BYTES: u64;

    fn maker() -> EngineMaker;

    fn beginnings() -> Vec<Beginning<Self>>;

    /// What a letter means in a state, at a position of the word; nothing where it means nothing.
    fn spell(letter: Self::Letter, state: &Self::State, position: u64) -> Option<Self::Step>;

    /// Lets everything in the background come to its end, and looks at all there is.
    fn ends() -> Vec<Self::Step>;

    /// Writes over whatever was taken for free, before that.
    fn goes_on(state: &Self::State) -> Vec<Self::Step>;

    /// Something goes on in the background of which the state says no more than that.
    fn is_going_on(state: &Self::State) -> bool;
}

/// A start state: its name, what makes it, durable, and what is done once more in each run, so that
/// it is under way.
pub(super) struct Beginning<S: Story> {
    pub(super) name: &'static str,
    pub(super) steps: Vec<S::Step>,
    pub(super) prelude: Vec<S::Step>,
}
