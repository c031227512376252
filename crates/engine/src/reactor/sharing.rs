//! Operations that wait for their share of a busy aggregate ([`crate::pool::shares`]).
//!
//! 1. A reactor keeps its own operations that wait, and knows by their tokens which of those that
//!    began count as under way.
//! 2. When the session has the completion of such an operation, it has ended. So an operation that
//!    is answered at once has ended when the reactor's next turn begins, and a reactor with more
//!    work than it can do is shared out, too.
//! 3. Whose turn has come is told to the reactor that has it, with a message.
//! 4. When nothing has a weight any more, all that wait begin. One whose turn has come already
//!    begins with the message, because it counts as under way.

use std::collections::{BTreeMap, HashMap};

use everglade_env::Outside;
use everglade_target::Token;

use crate::pool::shares::{self, Asker, Lane, Turn};
use crate::reactor::Core;
use crate::reactor::held::Waiting;
use crate::read::load::BySpread;
use crate::shared::Message;

type Place = (u32, Lane, Turn);

/// See the module's documentation.
#[derive(Default)]
pub(super) struct Sharing {
    waiting: BTreeMap<Place, Waiting>,
    under_way: HashMap<Token, (u32, Lane), BySpread>,
}

impl<O: Outside> Core<O> {
    /// Begins an operation, or has it wait for its turn.
    pub(super) fn share(&mut self, waiting: Waiting) {
        if !self.shared.limits.has_weights() {
            return self.begin_waiting(waiting);
        }
        let Some((lane, cost)) = Lane::of(&waiting.op) else {
            return self.begin_waiting(waiting);
        };
        let aggregate = &waiting.lun.volume.aggregate;
        let id = aggregate.id;
        let asker = Asker {
            lun: waiting.lun.lun_uuid(),
            weight: waiting.limits.weight(),
            reactor: self.index,
        };
        let devices = aggregate.media.layout().devices().count();
        let depth = shares::depth(self.shared.options.share_depth, devices);
        let now = self.outside.now();
        let turn = aggregate.shares.ask((lane, cost), asker, depth, now);
        match turn {
            Some(turn) => _ = self.sharing.waiting.insert((id, lane, turn), waiting),
            None => self.begin_shared((id, lane), waiting),
        }
    }

    fn begin_shared(&mut self, of: (u32, Lane), waiting: Waiting) {
        let before = self.sharing.under_way.insert(waiting.token, of);
        assert!(before.is_none(), "token {} is under way", waiting.token);
        self.begin_waiting(waiting);
    }

    /// Begins an operation whose turn has come.
    pub(super) fn begin_turn(&mut self, place: Place) {
        let waiting = self.sharing.waiting.remove(&place);
        let waiting = waiting.expect("an operation waits until its turn has come");
        self.begin_shared((place.0, place.1), waiting);
    }

    /// Ends the operations that are done: others begin.
    pub(super) fn end_shared(&mut self) {
        if self.sharing.under_way.is_empty() {
            return;
        }
        let now = self.outside.now();
        let (mut granted, mut is_own) = (Vec::new(), false);
        for place in 0..self.done.len() {
            let token = self.done[place].token;
            let Some((id, lane)) = self.sharing.under_way.remove(&token) else {
                continue;
            };
            let shares = &self.shared.aggregate(id).shares;
            shares.end(lane, now, &mut granted);
            for next in granted.drain(..) {
                is_own |= next.reactor == self.index;
                self.post(next.reactor, Message::Turn(id, lane, next.turn));
            }
        }
        if is_own {
            // Its turn is over, and nobody expects more work of it.
            self.outside.wake(self.index);
        }
    }

    /// Begins all that wait if nothing has a weight any more.
    pub(super) fn release_shared(&mut self) {
        if self.sharing.waiting.is_empty() || self.shared.limits.has_weights() {
            return;
        }
        let all = std::mem::take(&mut self.sharing.waiting);
        for (place, waiting) in all {
            let (id, lane, turn) = place;
            match self.shared.aggregate(id).shares.withdraw(lane, turn) {
                true => self.begin_waiting(waiting),
                false => _ = self.sharing.waiting.insert(place, waiting),
            }
        }
    }
}
