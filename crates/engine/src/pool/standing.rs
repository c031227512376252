//! The standing of an aggregate: whether it serves, is read-only or has failed, and what this
//! allows.
//!
//! ```text
//! Mounting ──▶ Online ──▶ Stopping ──▶ Stopped
//!  │  │          │            │
//!  │  │ halt     │ halt       └ halt ─▶ Failed
//!  │  ▼          ▼
//!  │ Mounting ─▶ ReadOnly            (the journal is replayed to its end first)
//!  └ fail ─────────────────────────▶ Failed
//! ```
//!
//! [`Standing::halt`] is called when a consistency point or a group of the journal fails;
//! [`Standing::fail`] when there is nothing to read. `docs/decisions/0033-read-only.md` has the
//! reasons and the rejected alternatives.
//!
//! 1. A halted aggregate never begins or continues a consistency point and begins no group of the
//!    journal. So nothing is written to its devices, and the last committed image on them stays
//!    whole.
//! 2. A read-only aggregate can be read as at the moment when it halted: active and frozen overlays
//!    over the committed trees. The overlays have all acknowledged writes, so a reader sees no
//!    older contents than before.
//! 3. A flush of a read-only aggregate succeeds only if all that was acknowledged is durable
//!    already.
//! 4. A halt is final for this process. The first reason stays.

use everglade_env::lock::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicBool, Ordering};

/// State of an aggregate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Its metadata is being read.
    Mounting,
    /// Serving.
    Online,
    /// Everything can be read and nothing can be changed; the text is the reason.
    ReadOnly(String),
    /// Its last consistency point is being written.
    Stopping,
    /// Everything is on media, and all work has ended.
    Stopped,
    /// The aggregate cannot be used; the text is the reason.
    Failed(String),
}

impl State {
    /// Why it can only be read, or cannot be used.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            State::ReadOnly(reason) | State::Failed(reason) => Some(reason),
            _ => None,
        }
    }
}

struct Inner {
    state: State,
    /// Why it halted while its journal is still being replayed.
    halt: Option<String>,
}

/// See the module's documentation.
pub(crate) struct Standing {
    inner: Mutex<Inner>,
    /// True if online: every request reads this flag without the lock. Written under the lock.
    online: AtomicBool,
    readable: AtomicBool,
    halted: AtomicBool,
}

impl Standing {
    pub(crate) fn mounting() -> Standing {
        Standing {
            inner: Mutex::new(Inner {
                state: State::Mounting,
                halt: None,
            }),
            online: AtomicBool::new(false),
            readable: AtomicBool::new(false),
            halted: AtomicBool::new(false),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    fn set(&self, inner: &mut Inner, state: State) {
        let is_online = state == State::Online;
        let is_read_only = matches!(state, State::ReadOnly(_));
        let is_over = is_read_only || matches!(state, State::Failed(_) | State::Stopped);
        self.online.store(is_online, Ordering::Release);
        self.readable
            .store(is_online || is_read_only, Ordering::Release);
        self.halted
            .store(is_over || inner.halt.is_some(), Ordering::Release);
        inner.state = state;
    }

    pub(crate) fn state(&self) -> State {
        self.inner().state.clone()
    }

    /// Clients may read and change.
    pub(crate) fn is_online(&self) -> bool {
        self.online.load(Ordering::Acquire)
    }

    /// Clients may read.
    pub(crate) fn is_readable(&self) -> bool {
        self.readable.load(Ordering::Acquire)
    }

    /// True if no write of the aggregate will happen any more.
    pub(crate) fn is_halted(&self) -> bool {
        self.halted.load(Ordering::Acquire)
    }

    /// The mount is done and the journal is replayed: clients are let in, for reading only if it
    /// halted meanwhile.
    pub(crate) fn open(&self) {
        let mut inner = self.inner();
        if inner.state == State::Mounting {
            let state = inner.halt.take().map_or(State::Online, State::ReadOnly);
            self.set(&mut inner, state);
        }
    }

    /// The consistency point that begins is the last one.
    pub(crate) fn begin_stop(&self) {
        let mut inner = self.inner();
        if inner.state == State::Online {
            self.set(&mut inner, State::Stopping);
        }
    }

    /// The last consistency point is committed.
    pub(crate) fn stopped(&self) {
        let mut inner = self.inner();
        if inner.state == State::Stopping {
            self.set(&mut inner, State::Stopped);
        }
    }

    /// Halts the aggregate: no change can be made durable any more. If a stop was requested, no
    /// reader is left to keep the aggregate open for, and changes that are not durable are lost:
    /// the stop fails.
    pub(crate) fn halt(&self, reason: String, is_stopping: bool) {
        let mut inner = self.inner();
        match inner.state {
            State::Mounting => {
                inner.halt.get_or_insert(reason);
                self.set(&mut inner, State::Mounting);
            }
            State::Online if !is_stopping => self.set(&mut inner, State::ReadOnly(reason)),
            State::Online | State::Stopping => self.set(&mut inner, State::Failed(reason)),
            State::ReadOnly(_) | State::Stopped | State::Failed(_) => {}
        }
    }

    /// Makes the aggregate unusable.
    pub(crate) fn fail(&self, reason: String) {
        let mut inner = self.inner();
        if !matches!(inner.state, State::Stopped | State::Failed(_)) {
            self.set(&mut inner, State::Failed(reason));
        }
    }

    /// Why changes are refused, if they are.
    pub(crate) fn refusal(&self) -> Option<everglade_target::Error> {
        use everglade_target::Error;
        if self.is_online() {
            return None;
        }
        match &self.inner().state {
            State::Online => None,
            State::ReadOnly(reason) => Some(Error::Io(format!(
                "the aggregate is read-only, because {reason}"
            ))),
            State::Failed(reason) => Some(Error::Io(format!("aggregate failed: {reason}"))),
            State::Mounting | State::Stopping | State::Stopped => Some(Error::Gone),
        }
    }

    /// Why reads are refused, if they are.
    pub(crate) fn refusal_of_reads(&self) -> Option<everglade_target::Error> {
        match self.is_readable() {
            true => None,
            false => self.refusal(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn online() -> Standing {
        let standing = Standing::mounting();
        standing.open();
        assert_eq!(standing.state(), State::Online);
        assert!(standing.is_online() && standing.is_readable() && !standing.is_halted());
        standing
    }

    #[test]
    fn what_halts_while_it_serves_is_read_only_for_the_first_reason() {
        let standing = online();
        standing.halt("one".to_owned(), false);
        standing.halt("two".to_owned(), true);
        assert_eq!(standing.state(), State::ReadOnly("one".to_owned()));
        assert!(!standing.is_online() && standing.is_readable() && standing.is_halted());
        assert!(standing.refusal_of_reads().is_none());
        let refusal = standing.refusal().expect("changes are refused");
        assert!(refusal.to_string().contains("one"), "{refusal}");
        // A halted aggregate never becomes writable again, and a stop has nothing to write.
        standing.open();
        standing.begin_stop();
        standing.stopped();
        assert_eq!(standing.state(), State::ReadOnly("one".to_owned()));
    }

    #[test]
    fn what_halts_during_the_replay_stays_closed_until_all_is_replayed() {
        let standing = Standing::mounting();
        standing.halt("damage".to_owned(), false);
        assert_eq!(standing.state(), State::Mounting);
        assert!(standing.is_halted() && !standing.is_readable());
        assert!(standing.refusal_of_reads().is_some());
        standing.open();
        assert_eq!(standing.state(), State::ReadOnly("damage".to_owned()));
        assert!(standing.is_readable() && standing.is_halted());
    }

    #[test]
    fn what_halts_in_a_stop_has_failed() {
        for asked in [online(), {
            let standing = online();
            standing.begin_stop();
            standing
        }] {
            asked.halt("no more".to_owned(), true);
            assert_eq!(asked.state(), State::Failed("no more".to_owned()));
            assert!(!asked.is_readable() && asked.is_halted());
        }
    }

    #[test]
    fn a_stop_that_gets_through_is_the_end() {
        let standing = online();
        standing.begin_stop();
        assert!(!standing.is_online() && !standing.is_readable() && !standing.is_halted());
        standing.stopped();
        standing.halt("late".to_owned(), false);
        standing.fail("later".to_owned());
        assert_eq!(standing.state(), State::Stopped);
        assert!(standing.is_halted());
    }

    #[test]
    fn a_mount_that_fails_shows_nothing() {
        let standing = Standing::mounting();
        standing.fail("no root".to_owned());
        standing.open();
        assert_eq!(standing.state(), State::Failed("no root".to_owned()));
        assert!(standing.refusal_of_reads().is_some());
    }
}
