//! The primitives that threads meet in. The race tests (`tests/it`) compile this crate's modules a
//! second time with shuttle's versions of the same names in place of this file.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
pub(crate) use std::sync::{Mutex, MutexGuard, TryLockError};
