//! Turns: which reactor runs next, and when the clock moves.
//!
//! One turn at a time, chosen by the die among the runnable. A turn costs a little virtual time, so
//! that code which polls the clock makes progress. When no reactor is runnable, the clock jumps to
//! the next event or deadline; when there is none, the world is quiet.

use everglade_env::Nanos;

use super::SimWorld;

/// Shortest and longest a turn takes.
const TURN_COST: (Nanos, Nanos) = (200, 4_000);

/// One turn in `SPURIOUS` goes to a reactor without a wake-up: a spurious wake-up.
const SPURIOUS: u32 = 256;

/// The state of a reactor at the end of its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The reactor has more work.
    Busy,
    /// The reactor waits for a completion or a wake-up, at most until this time.
    Idle {
        /// When to run even if nothing happened.
        until: Option<Nanos>,
    },
    /// The caller of [`SimWorld::run`] has its result.
    Stop,
}

/// Why [`SimWorld::run`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// A turn requested the stop.
    Stopped,
    /// No reactor is runnable and no event is pending.
    Quiet,
    /// The power failed.
    Cut,
    /// All turns were used up: the system never comes to rest.
    Exhausted,
}

impl SimWorld {
    /// Gives turns until the end, at most `turns_max`. `turn` runs one reactor and returns its
    /// state.
    pub fn run(&self, turns_max: u64, turn: &mut dyn FnMut(usize) -> Turn) -> End {
        for _ in 0..turns_max {
            let Some(reactor) = self.choose() else {
                return if self.is_cut() { End::Cut } else { End::Quiet };
            };
            let said = turn(reactor);
            let mut state = self.state();
            let cost = state.rng.between(TURN_COST.0, TURN_COST.1);
            let now = state.now + cost;
            let seat = &mut state.reactors[reactor];
            seat.runnable |= !seat.done.is_empty();
            match said {
                Turn::Busy => seat.runnable = true,
                Turn::Idle { until } => seat.deadline = until,
                Turn::Stop => {
                    seat.runnable = true;
                    return End::Stopped;
                }
            }
            state.advance_to(now);
        }
        End::Exhausted
    }

    /// Moves the clock to the next event or deadline. Returns false if there is none.
    pub fn step(&self) -> bool {
        let mut state = self.state();
        let next = if state.is_cut {
            None
        } else {
            state.next_time()
        };
        if let Some(time) = next {
            state.advance_to(time);
        }
        next.is_some()
    }

    /// Lets `nanos` pass, with all events due in them.
    pub fn pass(&self, nanos: Nanos) {
        let mut state = self.state();
        let time = state.now + nanos;
        state.advance_to(time);
    }

    /// Makes a reactor run soon, as a client's request arriving on its socket does.
    pub fn wake(&self, reactor: usize) {
        self.state().reactors[reactor].runnable = true;
    }

    /// Returns the reactor to run next, moving the clock if none is runnable.
    fn choose(&self) -> Option<usize> {
        loop {
            let mut state = self.state();
            if state.is_cut {
                return None;
            }
            let now = state.now;
            state.advance_to(now);
            let spurious = state.rng.one_in(SPURIOUS);
            let ready: Vec<usize> = (0..self.reactors)
                .filter(|&reactor| spurious || state.reactors[reactor].runnable)
                .collect();
            let anyone = state.reactors.iter().any(|reactor| reactor.runnable);
            if anyone {
                let reactor = ready[state.rng.index(ready.len())];
                state.reactors[reactor].runnable = false;
                state.reactors[reactor].deadline = None;
                return Some(reactor);
            }
            drop(state);
            if !self.step() {
                return None;
            }
        }
    }
}
