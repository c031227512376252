//! This server against its peers, in the same run on the same disk (issue "It is fast, small and
//! steady").
//!
//! * [`row`]: what is compared, and what is to be reached. · [`turns`]: how, so that noise falls on
//!   all alike.
//! * [`account`]: what a turn costs, counted in the same way for every server.
//! * [`stage`], [`server`], [`bounded`]: who runs it. · [`load`], [`socket`](self): one client for
//!   all of them, as cheap as it can be, because it shares the machine with the server. ·
//!   [`disk`](self): the same load without any server.
//! * [`fill`]: rows as the pool fills. · [`tail`], [`facts`], [`steady`], [`anatomy`],
//!   [`snapshots`], [`protocols`], [`raid`]: what is not one of these rows.
//! * [`bootstrap`], [`page`], [`plot`], [`store`]: what is made of it.
//!
//! Nothing here knows how our server works, and no parameter of it differs from what an operator
//! gets by default but the size of its memory, its LUN and its devices.

pub mod account;
pub mod anatomy;
pub mod bootstrap;
pub mod bounded;
mod disk;
pub mod facts;
pub mod fill;
pub mod garden;
pub mod inprocess;
pub mod knee;
pub mod latency;
pub mod load;
mod nvme;
pub mod page;
pub mod paper;
pub mod plot;
pub mod protocols;
pub mod raid;
pub mod row;
pub mod server;
pub mod snapshots;
pub(crate) mod socket;
pub mod stage;
pub mod steady;
pub mod store;
mod stream;
pub mod tail;
pub mod turns;

pub use bootstrap::Ratio;
pub use stage::Stage;
pub use turns::RowResult;

use crate::Failure;
use row::Row;

/// Runs the rounds of a row.
///
/// # Errors
/// If a server fails.
pub fn measure(
    stage: &mut Stage,
    row: &Row,
    rounds: u64,
    seconds: f64,
) -> Result<RowResult, Failure> {
    turns::run(stage, row, rounds, seconds)
}
