//! Administrative requests on the home reactor: arrived, admitted, executed in the freeze,
//! answered.
//!
//! ```text
//! accept ─▶ arrived ─▶ admitted ─▶ freeze … publish ─▶ answered
//!              │ no space, and none to come
//!              └──────────────────────────────────────▶ refused
//! ```
//!
//! Every accepted change is answered once, also if its aggregate stops or fails. If the aggregate
//! fails during a consistency point, the phase decides what became of the changes in it ([`Fate`]).
//! Before the superblock is submitted, they are not made. While it is written, the outcome is
//! unknown. Once all members have it, they are made. The journal does not contain such changes, so
//! the next start does not repeat them.
//!
//! A change that needs space is admitted like a client's growth (docs/design/design.md §8);
//! otherwise many small requests could use up the reserve. Deletions are always admitted.

use everglade_env::{Nanos, Outside};

use crate::admin::lun::must_wait;
use crate::change::{Change, Error, Request};
use crate::home::run::Phase;
use crate::pool::aggregate::{Aggregate, State};
use crate::pool::space::{Class, Space};
use crate::reactor::Core;
use crate::shared::Message;

/// True if a change that there is no space for now is kept until there is.
fn may_wait(space: &Space, change: &Change) -> bool {
    match change.is_impatient() {
        true => space.is_asking_host(),
        false => space.may_improve(),
    }
}

/// The reason why an aggregate that is not online accepts no change.
fn refused(aggregate: &Aggregate) -> Error {
    let name = &aggregate.name;
    match aggregate.state() {
        State::ReadOnly(reason) => {
            Error::ReadOnly(format!("aggregate {name} is read-only, because {reason}"))
        }
        State::Failed(reason) => {
            Error::Unavailable(format!("aggregate {name} has failed: {reason}"))
        }
        State::Mounting => Error::Unavailable(format!("aggregate {name} is still being opened")),
        State::Online | State::Stopping | State::Stopped => {
            Error::Unavailable(format!("aggregate {name} does not take changes any more"))
        }
    }
}

/// The outcome of the changes in a consistency point that cannot be completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// No member has the superblock.
    Dropped,
    /// Some members may have the superblock.
    Unknown,
    /// All members have the superblock.
    Made,
}

impl Fate {
    /// Of a consistency point that ends in a phase. A superblock that was submitted may be on
    /// members also in an earlier phase: it is written again after a drive was lost.
    fn of(phase: Phase, is_submitted: bool) -> Fate {
        match (phase, is_submitted) {
            (Phase::Publish, _) => Fate::Made,
            (_, true) => Fate::Unknown,
            (_, false) => Fate::Dropped,
        }
    }

    fn result(self, aggregate: &Aggregate, executed: Nanos) -> Result<Nanos, Error> {
        match self {
            Fate::Made => Ok(executed),
            Fate::Unknown => Err(Error::Unknown(format!(
                "aggregate {} failed while its superblock was written, so nobody knows whether \
                the change was made; start the daemon again and look",
                aggregate.name
            ))),
            Fate::Dropped => Err(refused(aggregate)),
        }
    }
}

impl<O: Outside> Core<O> {
    pub(super) fn accept_change(&mut self, aggregate: u32, request: Request) {
        let shared = self.shared.aggregate(aggregate);
        match (shared.state(), self.homes.get_mut(&aggregate)) {
            (State::Online, Some(home)) => {
                home.arrived.push_back(request);
                self.admit_requests(aggregate);
            }
            _ => self.answer(&request, Err(refused(&shared))),
        }
    }

    /// Admits what arrived, as far as there is space. To be called when that may have changed.
    pub(super) fn admit_requests(&mut self, aggregate: u32) {
        let Some(home) = self.homes.get_mut(&aggregate) else {
            return;
        };
        let shared = home.aggregate.clone();
        let mut refused = Vec::new();
        let mut is_admitted = false;
        for request in std::mem::take(&mut home.arrived) {
            if must_wait(home, &request.change) {
                home.arrived.push_back(request);
                continue;
            }
            let growth = request.change.growth();
            // Freezes happen on this reactor, so the consistency point that a change joins cannot
            // change meanwhile.
            if growth == 0 || shared.space.charge(Class::Grow, growth, shared.joining()) {
                home.requests.push_back(request);
                is_admitted = true;
            } else if may_wait(&shared.space, &request.change) {
                home.arrived.push_back(request);
            } else {
                refused.push(request);
            }
        }
        if !home.arrived.is_empty() && shared.has_changes() {
            // Their charges may be larger than their real cost.
            shared.want_cp(shared.joining());
        }
        if is_admitted {
            self.wake_home(aggregate);
        }
        for request in refused {
            self.answer(&request, Err(Error::NoSpace));
        }
    }

    /// Refuses what waits for a consistency point that will not begin, if the aggregate has halted.
    pub(super) fn end_requests(&mut self, aggregate: u32) {
        let is_over = self
            .homes
            .get(&aggregate)
            .is_some_and(|home| home.run.is_none() && home.aggregate.is_halted());
        if is_over {
            self.refuse_requests(aggregate);
        }
    }

    /// The aggregate has stopped or failed: refuses the changes that are not on media, and answers
    /// the others with the known outcome.
    pub(super) fn refuse_requests(&mut self, aggregate: u32) {
        let home = self.homes.get_mut(&aggregate).expect("at home");
        let shared = home.aggregate.clone();
        let mut refused: Vec<Request> = home.requests.drain(..).collect();
        refused.extend(home.arrived.drain(..));
        let executed = home.last_begin;
        let mut answers = Vec::new();
        if let Some(run) = &mut home.run {
            let fate = Fate::of(run.phase, run.superblock.is_some());
            let ended = run.answers.drain(..);
            answers.extend(ended.map(|(request, result)| {
                let result = result.and_then(|()| fate.result(&shared, executed));
                (request, result)
            }));
        }
        for request in refused {
            let result = Fate::Dropped.result(&shared, executed);
            self.answer(&request, result);
        }
        for (request, result) in answers {
            self.answer(&request, result);
        }
    }

    pub(super) fn answer(&mut self, request: &Request, result: Result<Nanos, Error>) {
        match request.reactor {
            // The engine's own requests have no waiting caller.
            usize::MAX => {}
            here if here == self.index => self.end_change(request.token, result),
            asker => self.post(asker, Message::Changed(request.token, result)),
        }
    }
}
