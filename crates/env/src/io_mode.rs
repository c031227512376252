//! The requested method of device I/O, and the method in use.

use crate::ring::RingSetup;

/// The requested method of device I/O.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IoMode {
    /// io_uring, or threads where it is forbidden.
    #[default]
    Auto,
    /// io_uring, or refuse to start.
    Uring,
    /// Threads.
    Threads,
}

/// The method of device I/O in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IoReport {
    /// io_uring with this setup.
    Uring(RingSetup),
    /// Threads.
    Threads {
        /// The reason why io_uring is not used; `None` if the configuration asks for threads.
        because: Option<String>,
    },
}

impl std::fmt::Display for IoReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            IoReport::Uring(RingSetup::Deferred) => f.write_str("io_uring"),
            IoReport::Uring(RingSetup::Cooperative) => f.write_str("io_uring (cooperative)"),
            IoReport::Uring(RingSetup::Plain) => f.write_str("io_uring (plain)"),
            IoReport::Threads { because: None } => f.write_str("threads"),
            IoReport::Threads { because: Some(why) } => {
                write!(f, "threads, because io_uring cannot be used: {why}")
            }
        }
    }
}
