//! Counters of the sessions of one reactor, by command (N-02).
//!
//! Sessions of all protocols are counted alike ([`everglade_target::sessions::metrics`]); here is
//! what NVMe calls its requests.

use everglade_env::Nanos;
use everglade_target::sessions::metrics::{Metrics, OperationCounters, SessionCounters};

/// Kinds of commands that are counted apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Read.
    Read,
    /// Write.
    Write,
    /// Flush.
    Flush,
    /// Write Zeroes.
    WriteZeroes,
    /// Dataset Management.
    DatasetManagement,
    /// Compare.
    Compare,
    /// Compare and Write, fused: the write.
    CompareAndWrite,
    /// Verify.
    Verify,
    /// Copy.
    Copy,
    /// The reservation commands.
    Reservation,
    /// Admin and fabrics commands, without requests for events.
    Admin,
}

/// The operations, with their names in metrics.
pub const OPERATIONS: [(Operation, &str); 11] = [
    (Operation::Read, "read"),
    (Operation::Write, "write"),
    (Operation::Flush, "flush"),
    (Operation::WriteZeroes, "write_zeroes"),
    (Operation::DatasetManagement, "dataset_management"),
    (Operation::Compare, "compare"),
    (Operation::CompareAndWrite, "compare_and_write"),
    (Operation::Verify, "verify"),
    (Operation::Copy, "copy"),
    (Operation::Reservation, "reservation"),
    (Operation::Admin, "admin"),
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
        let names = OPERATIONS.iter().map(|(_, name)| *name);
        names.zip(&self.operations)
    }
}

impl SessionMetrics {
    pub(crate) fn now(&self) -> Nanos {
        self.sessions.now()
    }

    /// Counts a command that was answered. `bytes` is the length of its range.
    #[inline]
    pub(crate) fn replied(&self, operation: Operation, since: Nanos, bytes: u64, failed: bool) {
        let duration = self.now().saturating_sub(since);
        self.operations[operation as usize].replied(duration, bytes, failed);
    }

    /// Counts a command that was refused at once.
    pub(crate) fn refused(&self, operation: Option<Operation>) {
        match operation {
            Some(operation) => self.replied(operation, self.now(), 0, true),
            None => self.sessions.request_refused(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_counted_by_kind_and_unknown_ones_apart() {
        let metrics = SessionMetrics::default();
        for (operation, name) in OPERATIONS {
            metrics.replied(operation, 0, 512, false);
            let counted = metrics.snapshot();
            let last = counted.operations.iter().rfind(|it| it.requests == 1);
            assert_eq!(
                last.map(|it| it.name),
                Some(name),
                "the order is the table's"
            );
        }
        metrics.refused(Some(Operation::Read));
        metrics.refused(None);
        let counted = metrics.snapshot();
        assert_eq!(counted.requests_refused, 1);
        assert_eq!(
            (counted.operations[0].requests, counted.operations[0].errors),
            (2, 1)
        );
        assert_eq!(counted.operations[0].bytes, 512);
    }
}
