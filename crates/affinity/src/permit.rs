//! Permits: the right to be inside an affinity, and its loans to finer ones.
//!
//! A permit is an ordinary value that exists once per stay: it cannot be copied, travels with the
//! message it was granted to, and ends in [`Affinities::leave`](crate::Affinities::leave). A permit
//! that is dropped instead leaves its affinity occupied for ever, which only a simulated power cut
//! may do.
//!
//! A coarse permit is lent instead of entering again: [`Permit::lend`] checks once, at run time,
//! that the permit covers a node, and the [`Lent`] it returns carries the class in its type from
//! then on.

use std::marker::PhantomData;

use crate::class::{Contains, Kind};
use crate::node::{Affinity, Node};

/// The right to be inside one affinity, or inside two sibling stripes.
#[derive(Debug)]
#[must_use = "a permit that is dropped leaves its affinity occupied for ever"]
pub struct Permit {
    pub(crate) node: Node,
    pub(crate) second: Option<Node>,
    /// The reactor that runs under the permit.
    pub(crate) reactor: usize,
    pub(crate) hold: Hold,
    /// Entered by the reactor itself, not granted by a leaver.
    pub(crate) entered: bool,
}

/// The record of a permit in the tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Hold {
    /// The word of the leaf, as owned by the reactor.
    Word,
    /// The locked records.
    Recorded,
}

impl Permit {
    /// The permit allows to touch what belongs to `node`.
    #[must_use]
    pub fn covers(&self, node: &Node) -> bool {
        self.node.covers(node)
            || self
                .second
                .as_ref()
                .is_some_and(|second| second.covers(node))
    }

    /// The node entered; of two stripes the first.
    #[must_use]
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// The second of two stripes.
    #[must_use]
    pub fn second(&self) -> Option<&Node> {
        self.second.as_ref()
    }

    /// The reactor that runs under the permit.
    #[must_use]
    pub fn reactor(&self) -> usize {
        self.reactor
    }

    /// Lends the permit to an affinity it covers. Panics if it does not: a message was then routed
    /// to the wrong affinity.
    #[must_use]
    pub fn lend<'p, C: Kind>(&'p self, affinity: &'p Affinity<C>) -> Lent<'p, C> {
        self.assert_covers(affinity);
        Lent {
            node: affinity,
            kind: PhantomData,
        }
    }
}

/// A permit lent to one affinity of class `C`. Functions that need to be inside a stripe take a
/// `Lent<'_, Stripe>`.
#[derive(Debug)]
pub struct Lent<'p, C: Kind> {
    node: &'p Node,
    kind: PhantomData<fn() -> C>,
}

impl<'p, C: Kind> Lent<'p, C> {
    /// Lends further down. Panics if the affinity is not below this one.
    #[must_use]
    pub fn lend<D: Kind>(self, affinity: &'p Affinity<D>) -> Lent<'p, D>
    where
        C: Contains<D>,
    {
        self.assert_covers(affinity);
        Lent {
            node: affinity,
            kind: PhantomData,
        }
    }

    /// The node lent.
    #[must_use]
    pub fn node(&self) -> &'p Node {
        self.node
    }
}

impl<C: Kind> Clone for Lent<'_, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C: Kind> Copy for Lent<'_, C> {}

/// Something that may cover affinities of class `C`: a [`Permit`], whose class only the run-time
/// check knows, or a [`Lent`] of a class that can contain `C`.
pub trait Covers<C: Kind> {
    /// Panics unless `node` is covered.
    fn assert_covers(&self, node: &Affinity<C>);
}

impl<C: Kind> Covers<C> for Permit {
    fn assert_covers(&self, node: &Affinity<C>) {
        assert!(
            self.covers(node),
            "permit for {:?} {:?} used in {node:?}, which it does not cover",
            self.node,
            self.second
        );
    }
}

impl<C: Kind, D: Contains<C>> Covers<C> for Lent<'_, D> {
    fn assert_covers(&self, node: &Affinity<C>) {
        assert!(
            self.node.covers(node),
            "loan of {:?} used in {node:?}, which it does not cover",
            self.node
        );
    }
}
