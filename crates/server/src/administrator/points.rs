//! The newest consistency points of the aggregates, recorded in the data directory at each mount,
//! hourly and at the stop (decision 0031).
//!
//! A consistency point counts as seen once it is published, which is after its superblock is on
//! stable media of all members; the consistency point of the mount was flushed when the aggregate
//! was opened. So a number is never recorded before the consistency point is durable on the
//! devices.

use everglade_engine::{AggregateInfo, Engine, State};

use crate::DataDir;
use crate::datadir::{Point, Uuid};

/// Writes down where the aggregates are. That it cannot be written costs only the protection.
pub(crate) fn see(engine: &Engine, directory: &mut DataDir) {
    let is_mounted = |known: &AggregateInfo| known.state != State::Mounting;
    let points = engine.aggregates().into_iter().filter(is_mounted);
    let points = points.map(|known| Point {
        uuid: Uuid(known.uuid),
        name: known.name,
        cp: known.committed_cp,
    });
    if let Err(error) = directory.see(points.collect()) {
        tracing::warn!(
            "{error}; the next start may not notice if the devices are replaced by an older copy"
        );
    }
}
