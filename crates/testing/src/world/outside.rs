//! The world as one reactor sees it.

use everglade_env::{Completion, DeviceId, Nanos, Op, Outside};

use super::SimWorld;
use super::state::Event;
use crate::Rng;

/// Seconds since 1970 at virtual time zero.
const EPOCH: u64 = 1_800_000_000;

/// Longest duration of a wake-up from one reactor to another, in nanoseconds.
const WAKE_MAX: Nanos = 5_000;

/// The outside world of one reactor.
pub struct SimOutside {
    world: SimWorld,
    reactor: usize,
    /// Random numbers of this reactor only, independent of other reactors.
    rng: Rng,
}

impl SimOutside {
    pub(super) fn new(world: SimWorld, reactor: usize, rng: Rng) -> SimOutside {
        SimOutside {
            world,
            reactor,
            rng,
        }
    }
}

impl Outside for SimOutside {
    fn submit(&mut self, op: Op, token: u64) {
        self.world.state().submit(self.reactor, op, token);
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        let mut state = self.world.state();
        if state.is_cut {
            return;
        }
        let ready = state.reactors[self.reactor].done.len();
        // Now and then only a part is ready yet; the rest makes the reactor runnable again.
        let count = if ready > 1 && self.rng.one_in(8) {
            self.rng.index(ready)
        } else {
            ready
        };
        done.extend(state.reactors[self.reactor].done.drain(..count));
    }

    fn now(&self) -> Nanos {
        self.world.state().now
    }

    fn thread_cpu(&self) -> Nanos {
        self.now()
    }

    fn wall_seconds(&self) -> u64 {
        EPOCH + self.now() / 1_000_000_000
    }

    fn random(&mut self) -> u64 {
        self.rng.draw()
    }

    fn wake(&self, reactor: usize) {
        let mut state = self.world.state();
        assert!(
            reactor < state.reactors.len(),
            "reactor {reactor} does not exist"
        );
        let way = state.rng.below(WAKE_MAX);
        state.schedule(way, Event::Wake(reactor));
    }

    fn host_free_bytes(&self, device: DeviceId) -> Option<u64> {
        let state = self.world.state();
        let index = usize::try_from(device.0).ok()?;
        if state.devices.get(index)?.spec.owns_space {
            return None;
        }
        Some(state.host_free().unwrap_or(u64::MAX))
    }
}
