//! What the sessions of one reactor have done: counters for each kind of command (N-02).

use everglade_env::Nanos;
pub use everglade_target::sessions::metrics::{
    Metrics, OperationCounters, SessionCounters, Snapshot,
};

/// Kinds of commands that are counted apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// READ.
    Read,
    /// WRITE, also with VERIFY.
    Write,
    /// SYNCHRONIZE CACHE.
    Flush,
    /// UNMAP.
    Unmap,
    /// WRITE SAME.
    WriteSame,
    /// COMPARE AND WRITE, ORWRITE.
    CompareAndWrite,
    /// VERIFY, PRE-FETCH.
    Verify,
    /// PERSISTENT RESERVE.
    Reserve,
    /// Everything else, which needs no storage.
    Other,
}

/// The kinds with their names in metrics, in their order.
pub const KINDS: [(Kind, &str); 9] = [
    (Kind::Read, "read"),
    (Kind::Write, "write"),
    (Kind::Flush, "flush"),
    (Kind::Unmap, "unmap"),
    (Kind::WriteSame, "write_same"),
    (Kind::CompareAndWrite, "compare_and_write"),
    (Kind::Verify, "verify"),
    (Kind::Reserve, "reserve"),
    (Kind::Other, "other"),
];

/// Counters of one reactor's sessions.
#[derive(Default)]
pub struct SessionMetrics {
    sessions: SessionCounters,
    operations: [OperationCounters; KINDS.len()],
}

impl Metrics for SessionMetrics {
    #[inline]
    fn sessions(&self) -> &SessionCounters {
        &self.sessions
    }

    fn operations(&self) -> impl Iterator<Item = (&'static str, &OperationCounters)> {
        KINDS.iter().map(|(_, name)| *name).zip(&self.operations)
    }
}

impl SessionMetrics {
    pub(crate) fn now(&self) -> Nanos {
        self.sessions.now()
    }

    /// Counts a command that was answered. `bytes` is the length of its range.
    pub(crate) fn replied(&self, kind: Kind, since: Nanos, bytes: u64, failed: bool) {
        let duration = self.now().saturating_sub(since);
        self.operations[kind as usize].replied(duration, bytes, failed);
    }

    /// Counts a command that is not known.
    pub(crate) fn refused(&self) {
        self.sessions.request_refused();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_place() {
        let metrics = SessionMetrics::default();
        for (place, (kind, name)) in KINDS.iter().enumerate() {
            assert_eq!(*kind as usize, place);
            metrics.replied(*kind, 0, 7, false);
            let counted = metrics.snapshot();
            let of = &counted.operations[place];
            assert_eq!((of.name, of.requests, of.bytes), (*name, 1, 7));
        }
    }
}
