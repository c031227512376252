//! Limits of LUNs and volumes, as administrators see and set them.

use std::collections::BTreeMap;

use everglade_api::{Limit, Problem, QosPolicy, SetLimit, SetQosPolicy, Size};
use everglade_engine::{LimitSettings, Waits};

use super::administrator::Administrator;
use crate::schedule::{Wanted, rates_of};

const NANOS_PER_MILLISECOND: u64 = 1_000_000;

fn view(name: String, settings: LimitSettings, (policy, held): (Option<String>, Waits)) -> Limit {
    let rates = rates_of(settings);
    let average = held.nanos.checked_div(held.operations);
    Limit {
        name,
        policy,
        iops: rates.iops,
        bytes_per_second: rates.bytes_per_second,
        burst_milliseconds: rates.burst_milliseconds,
        weight: rates.weight,
        held_count: held.operations,
        held_milliseconds: average.unwrap_or(0) / NANOS_PER_MILLISECOND,
    }
}

/// A limit in words: `at most 500 operations and 50.0 MiB in a second, weight 200`.
pub(crate) fn said(request: &SetLimit) -> String {
    if let Some(policy) = &request.policy {
        return format!("policy {policy}");
    }
    said_rates(request.rates())
}

/// The same of rates.
pub(crate) fn said_rates(rates: SetQosPolicy) -> String {
    let operations = rates.iops.map(|iops| format!("{iops} operations"));
    let bytes = rates.bytes_per_second.map(|bytes| Size(bytes).said());
    let bounds: Vec<String> = operations.into_iter().chain(bytes).collect();
    let bounds = (!bounds.is_empty()).then(|| {
        let bounds = bounds.join(" and ");
        format!("at most {bounds} in a second")
    });
    let burst = rates
        .burst_milliseconds
        .map(|ms| format!("bursts of {ms} ms"));
    let weight = rates.weight.map(|weight| format!("weight {weight}"));
    let parts: Vec<String> = bounds.into_iter().chain(burst).chain(weight).collect();
    match parts.is_empty() {
        true => "no limit".to_owned(),
        false => parts.join(", "),
    }
}

fn settings(rates: SetQosPolicy) -> LimitSettings {
    LimitSettings {
        operations_per_second: rates.iops.unwrap_or(0),
        bytes_per_second: rates.bytes_per_second.unwrap_or(0),
        burst_milliseconds: rates.burst_milliseconds.unwrap_or(0),
        weight: rates.weight.unwrap_or(0),
    }
}

impl Administrator {
    /// Returns the limits of all LUNs and volumes that are there, by their names, and LUNs without
    /// one that have waited for their share.
    #[must_use]
    pub fn limits(&self) -> Vec<Limit> {
        let mut policies = self.schedule().policies_of_limits();
        let limited = self.limited().into_iter();
        let shown = limited
            .map(|(name, (of, settings, held))| view(name, settings, (policies.remove(&of), held)));
        shown.collect()
    }

    /// Returns what was held back of each LUN and volume, by name.
    pub(crate) fn held_back(&self) -> BTreeMap<String, Waits> {
        let limited = self.limited().into_iter();
        limited.map(|(name, (_, _, held))| (name, held)).collect()
    }

    /// Returns what has a limit, by name, with its UUID; while anything has a weight, also what has
    /// waited for its share.
    fn limited(&self) -> BTreeMap<String, ([u8; 16], LimitSettings, Waits)> {
        let mut all: BTreeMap<[u8; 16], (LimitSettings, Waits)> = BTreeMap::new();
        for (of, info) in self.engine.limits() {
            let held = Waits {
                operations: info.held_operations,
                nanos: info.held_nanos,
            };
            all.insert(of, (info.settings, held));
        }
        let has_weights = all.values().any(|(settings, _)| settings.weight > 0);
        for (lun, waits) in self.engine.waits() {
            if waits.operations > 0 && (has_weights || all.contains_key(&lun)) {
                let (_, held) = all.entry(lun).or_default();
                held.operations += waits.operations;
                held.nanos += waits.nanos;
            }
        }
        if all.is_empty() {
            return BTreeMap::new();
        }
        let mut names = self.names_of_luns();
        names.extend(self.engine.volume_uuids());
        let known = all.into_iter();
        known
            .filter_map(|(of, (settings, held))| Some((names.remove(&of)?, (of, settings, held))))
            .collect()
    }

    /// Sets the whole limit of a LUN, or of a volume. A request without a rate removes it.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn set_limit(
        &self,
        (volume, lun): (&str, Option<&str>),
        request: &SetLimit,
    ) -> Result<Limit, Problem> {
        self.volume(volume)?;
        let name = match lun {
            Some(lun) => {
                self.lun(volume, lun)?;
                format!("{volume}/{lun}")
            }
            None => volume.to_owned(),
        };
        let home = self.aggregate_of(volume)?;
        let wanted = match &request.policy {
            Some(policy) => Wanted::Policy(policy.to_string()),
            None => Wanted::Rates(settings(request.rates())),
        };
        let uuids = match lun {
            Some(_) => self.uuids(volume, lun),
            None => self.engine.volume_uuid(volume).into_iter().collect(),
        };
        for uuid in uuids {
            self.schedule().set_limit(home, &uuid, &wanted)?;
        }
        self.plane.nudge();
        tracing::info!("{name}: {}", said(request));
        let limits = self.limits();
        let set = limits.into_iter().find(|limit| limit.name == name);
        Ok(set.unwrap_or(Limit {
            name,
            ..Limit::default()
        }))
    }

    /// Makes or changes a policy of limits; whatever follows it changes, too.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn set_qos_policy(&self, name: &str, request: SetQosPolicy) -> Result<QosPolicy, Problem> {
        let policy = self.schedule().set_qos_policy(name, settings(request))?;
        self.plane.nudge();
        tracing::info!("policy {name} of limits: {}", said_rates(request));
        Ok(policy)
    }
}
