//! Counters of the sessions of one reactor, by command (N-02).
//!
//! Sessions of all protocols are counted alike ([`everglade_target::sessions::metrics`]); here is
//! what NBD calls its requests.

use everglade_env::Nanos;
pub use everglade_target::sessions::metrics::{
    Metrics, OperationCounters, SessionCounters, Snapshot,
};

use crate::wire::Command;

/// The commands that are counted, with their names in metrics. Others are unknown or have no reply.
pub const OPERATIONS: [(Command, &str); 7] = [
    (Command::Read, "read"),
    (Command::Write, "write"),
    (Command::Flush, "flush"),
    (Command::Trim, "trim"),
    (Command::Cache, "cache"),
    (Command::WriteZeroes, "write_zeroes"),
    (Command::BlockStatus, "block_status"),
];

/// Counters of one reactor's sessions. See the module's documentation.
#[derive(Default)]
pub struct SessionMetrics {
    sessions: SessionCounters,
    /// Counters by operation, in the order of [`OPERATIONS`].
    operations: [OperationCounters; OPERATIONS.len()],
}

impl Metrics for SessionMetrics {
    #[inline]
    fn sessions(&self) -> &SessionCounters {
        &self.sessions
    }

    fn operations(&self) -> impl Iterator<Item = (&'static str, &OperationCounters)> {
        OPERATIONS
            .iter()
            .map(|(_, name)| *name)
            .zip(&self.operations)
    }
}

impl SessionMetrics {
    pub(crate) fn now(&self) -> Nanos {
        self.sessions.now()
    }

    /// Counts a request that was answered. `bytes` is the length of its range.
    pub(crate) fn replied(&self, command: Command, since: Nanos, bytes: u64, failed: bool) {
        let Some(index) = index(command) else {
            return;
        };
        let duration = self.now().saturating_sub(since);
        self.operations[index].replied(duration, bytes, failed);
    }

    /// Counts a request that was refused at once.
    pub(crate) fn refused(&self, command: Option<Command>) {
        match command {
            Some(command) => self.replied(command, self.now(), 0, true),
            None => self.sessions.request_refused(),
        }
    }
}

fn index(command: Command) -> Option<usize> {
    OPERATIONS.iter().position(|(known, _)| *known == command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_command_and_unknown_ones_apart() {
        let metrics = SessionMetrics::default();
        metrics.sessions().tick(50_001);
        metrics.replied(Command::Trim, 0, 4096, true);
        metrics.replied(Command::Disconnect, 0, 0, false);
        metrics.refused(Some(Command::Read));
        metrics.refused(None);
        let counted = metrics.snapshot();
        assert_eq!(counted.requests_refused, 1);
        let of = |name: &str| {
            let mut operations = counted.operations.iter();
            let found = operations.find(|operation| operation.name == name);
            let found = found.expect("it is counted");
            (found.requests, found.errors, found.bytes, found.duration)
        };
        assert_eq!(of("trim"), (1, 1, 0, 50_001));
        assert_eq!(of("read"), (1, 1, 0, 0));
        assert_eq!(of("write"), (0, 0, 0, 0));
    }
}
