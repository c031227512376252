//! Limits of LUNs, as administrators see and set them.

use std::collections::BTreeMap;

use everglade_api::{Limit, Problem, SetLimit, Size};
use everglade_engine::{LimitInfo, LimitSettings};

use super::administrator::Administrator;

const NANOS_PER_MILLISECOND: u64 = 1_000_000;

fn view(lun: String, info: &LimitInfo) -> Limit {
    let rate = |rate: u64| (rate > 0).then_some(rate);
    let average = info.held_nanos.checked_div(info.held_operations);
    Limit {
        lun,
        iops: rate(info.settings.operations_per_second),
        bytes_per_second: rate(info.settings.bytes_per_second),
        held_count: info.held_operations,
        held_milliseconds: average.unwrap_or(0) / NANOS_PER_MILLISECOND,
    }
}

/// A limit in words: `500 operations and 50.0 MiB in a second`.
pub(crate) fn said(request: SetLimit) -> String {
    let operations = request.iops.map(|iops| format!("{iops} operations"));
    let bytes = request.bytes_per_second.map(|bytes| Size(bytes).said());
    let rates: Vec<String> = operations.into_iter().chain(bytes).collect();
    match rates.is_empty() {
        true => "no limit".to_owned(),
        false => format!("at most {} in a second", rates.join(" and ")),
    }
}

impl Administrator {
    /// Returns the limits of all LUNs that are there, by their names.
    #[must_use]
    pub fn limits(&self) -> Vec<Limit> {
        let held = self.held_by_limits().into_iter();
        held.map(|(lun, info)| view(lun, &info)).collect()
    }

    /// The same for metrics.
    pub(crate) fn held_by_limits(&self) -> BTreeMap<String, LimitInfo> {
        let limits = self.engine.limits();
        if limits.is_empty() {
            return BTreeMap::new();
        }
        let names = self.names_of_luns();
        let known = limits.into_iter();
        let known = known.filter_map(|(lun, info)| Some((names.get(&lun)?.clone(), info)));
        known.collect()
    }

    /// Sets the whole limit of a LUN. A request without a rate removes it.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn set_limit(
        &self,
        (volume, lun): (&str, &str),
        request: SetLimit,
    ) -> Result<Limit, Problem> {
        self.lun(volume, lun)?;
        let home = self.aggregate_of(volume)?;
        let name = format!("{volume}/{lun}");
        let settings = LimitSettings {
            operations_per_second: request.iops.unwrap_or(0),
            bytes_per_second: request.bytes_per_second.unwrap_or(0),
        };
        for uuid in self.uuids(volume, Some(lun)) {
            self.schedule().set_limit(home, &uuid, settings)?;
        }
        self.plane.nudge();
        tracing::info!("LUN {name}: {}", said(request));
        let limits = self.limits();
        let set = limits.into_iter().find(|limit| limit.lun == name);
        Ok(set.unwrap_or(Limit {
            lun: name,
            ..Limit::default()
        }))
    }
}
