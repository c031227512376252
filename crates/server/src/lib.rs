//! The daemon around the engine: configuration, data directory, sockets, signals, start and stop.
//!
//! The life of one `everglade serve`:
//!
//! 1. [`config`]: flags, environment and file become one [`Config`], or a refusal. Nothing is
//!    changed yet.
//! 2. [`datadir`]: the directory is recognised and locked, or refused without a write to it. The
//!    limit of open files is divided ([`descriptors`]), or the start is refused because it is too
//!    small.
//! 3. [`fronts`]: the protocols of clients; their sockets are bound, so that a busy port is found
//!    before the engine starts.
//! 4. [`start`]: the engine opens its devices and the data plane (`plane`) runs, one thread per
//!    core.
//! 5. [`rest`]: one more thread carries the requests of administrators to the [`administrator`],
//!    which reaches the data plane by messages only.
//! 6. [`ready`]: the ready line is printed; clients may connect.
//! 7. [`signal`]: SIGTERM or SIGINT asks for a clean stop through [`stop`]; the reactors finish a
//!    consistency point and return; the lock is released last, with the process.
//!
//! Offline tools share steps 1 and 2 and [`devices`], by [`offline`]; [`repair`] takes step 4 as
//! well.
//!
//! This crate passes requests to the engine and does none of its work: only `plane`,
//! [`administrator`] and [`start`] use engine types. Only a protocol's file in [`fronts`] uses the
//! protocol's types. Errors of start-up are values and become one line: what happened, what was
//! expected, what to do.

pub mod access;
pub mod administrator;
mod background;
mod checkup;
mod clerk;
pub mod config;
pub mod datadir;
pub mod descriptors;
pub mod devices;
pub mod error;
pub mod fronts;
pub mod interval;
mod keeper;
pub mod listen;
pub mod log;
mod losses;
pub mod metrics;
pub mod offline;
mod plane;
pub mod ready;
pub mod records;
pub mod repair;
pub mod rest;
pub mod schedule;
mod seldom;
pub mod serve;
pub mod signal;
pub mod start;
pub mod stop;
pub mod tls;
pub mod watch;

/// Version of the bytes this build writes to devices.
pub use everglade_format::FORMAT_VERSION as MEDIA_VERSION;

pub use config::{Ablation, Config, Settings};
pub use datadir::DataDir;
pub use descriptors::Descriptors;
pub use error::{ServeError, StartError};
pub use everglade_api::{Name, Raid, Size, openapi};
pub use interval::Interval;
pub use serve::serve;
pub use stop::Stop;
