//! Deleted aggregates: a reactor drops an aggregate's home when none of its operations is under way
//! any more.
//!
//! An aggregate that has stopped or failed begins nothing new, so the reactor checks this only when
//! something ends. Device operations in flight still find the home, and so do wake-ups of the
//! driver.

use everglade_env::Outside;

use crate::reactor::loading::Inflight;
use crate::reactor::{Core, Operation};

impl<O: Outside> Core<O> {
    /// Drops the homes that can be.
    pub(super) fn let_go(&mut self) {
        let mut leaving = std::mem::take(&mut self.leaving);
        leaving.retain(|aggregate| {
            let is_needed = self.is_under_way(*aggregate);
            if !is_needed {
                self.homes.remove(aggregate);
                if let Some(driver) = self.drivers.remove(aggregate) {
                    self.operations.remove(driver);
                }
            }
            is_needed
        });
        self.leaving = leaving;
    }

    fn is_under_way(&self, id: u32) -> bool {
        let concerns = |inflight: &Inflight| match inflight {
            Inflight::Read { aggregate, .. }
            | Inflight::Probe { aggregate, .. }
            | Inflight::Write { aggregate, .. }
            | Inflight::Part { aggregate, .. }
            | Inflight::Log { aggregate }
            | Inflight::Wanted { aggregate }
            | Inflight::Prepare { aggregate }
            | Inflight::Column { aggregate, .. }
            | Inflight::ColumnRun { aggregate, .. }
            | Inflight::Scrub { aggregate, .. }
            | Inflight::ScrubColumn { aggregate, .. }
            | Inflight::Punch { aggregate } => *aggregate == id,
            // A replay's operation does not name its aggregate, and it ends.
            Inflight::Replay { .. } => true,
        };
        let is_awake = |driver: &usize| {
            let Operation { queued, loads, .. } = &self.operations[*driver];
            *queued || *loads > 0
        };
        let mut flights = self.inflight.iter();
        flights.any(|(_, flight)| flight.what.as_ref().is_some_and(concerns))
            || self.drivers.get(&id).is_some_and(is_awake)
            || self.homes.get(&id).is_some_and(|home| home.is_entering)
    }
}
