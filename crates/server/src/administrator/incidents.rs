//! Incidents: what went wrong for clients since an aggregate was opened. The watch makes events of
//! them, which also reach the log.

use std::collections::BTreeMap;

use everglade_engine::{AggregateInfo, RefusedInfo};

use super::administrator::Administrator;

/// The incidents of one aggregate since it was opened. The lists grow at their ends only, up to
/// their bounds, and counts never fall.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Incidents {
    /// UUID of the aggregate.
    pub(crate) uuid: [u8; 16],
    /// Name of the aggregate.
    pub(crate) aggregate: String,
    /// Damaged objects: the object, and what is damaged about it.
    pub(crate) damaged: Vec<(String, String)>,
    /// Blocks of metadata that were derived from others.
    pub(crate) mended: Vec<String>,
    /// Requests that were refused because there was no space, by LUN.
    pub(crate) refused: BTreeMap<String, RefusedInfo>,
}

impl Administrator {
    /// Returns the incidents of all aggregates.
    pub(crate) fn incidents(&self) -> Vec<Incidents> {
        self.engine.aggregates().into_iter().map(of).collect()
    }
}

fn of(info: AggregateInfo) -> Incidents {
    let damaged = info.lost.lines.into_iter();
    Incidents {
        uuid: info.uuid,
        aggregate: info.name,
        damaged: damaged.map(|line| (line.object, line.text)).collect(),
        mended: info.mended.lines,
        refused: info.refused,
    }
}
