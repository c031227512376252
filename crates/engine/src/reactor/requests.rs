//! Administrative requests on the home reactor: arrived, admitted, executed in the freeze, answered.
//!
//! ```text
//! accept ─▶ arrived ─▶ admitted ─▶ freeze … publish ─▶ answered
//!              │ no space, and none to come
//!              └──────────────────────────────────────▶ refused
//! ```
//!
//! What grows is admitted like a client's growth (docs/design/design.md §8), or else many small
//! requests could use up the reserve. Deletions always are.

use everglade_env::{Nanos, Outside};

use crate::admin::lun::must_wait;
use crate::change::{Change, Error, Request};
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

/// Why an aggregate that is not online takes no change.
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
            // Freezes happen on this reactor, so what is joined stays the same meanwhile.
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
            // What was charged for them may turn out to cost less.
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

    /// The aggregate is at its end: refuses all that was not committed.
    pub(super) fn refuse_requests(&mut self, aggregate: u32) {
        let home = self.homes.get_mut(&aggregate).expect("at home");
        let error = refused(&home.aggregate);
        let mut requests: Vec<Request> = home.requests.drain(..).collect();
        requests.extend(home.arrived.drain(..));
        if let Some(run) = &mut home.run {
            requests.extend(run.answers.drain(..).map(|(request, _)| request));
        }
        for request in requests {
            self.answer(&request, Err(error.clone()));
        }
    }

    pub(super) fn answer(&mut self, request: &Request, result: Result<Nanos, Error>) {
        // Nobody waits for what the engine asked of itself.
        if request.reactor != usize::MAX {
            self.post(request.reactor, Message::Changed(request.token, result));
        }
    }
}
