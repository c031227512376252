//! Recorded aggregates that could not be opened. They are shown with the reason, and nothing is
//! written to them.
//!
//! Their volumes are not known, because the pool has the list. After attaching the right devices,
//! an operator must start the daemon again.

use everglade_api::{Aggregate, AggregateState as Shown, Code, Damage, Device};

use super::kinds;
use crate::DataDir;
use crate::datadir::AggregateState;

/// A recorded aggregate that could not be opened.
#[derive(Clone, Debug)]
pub(crate) struct Unavailable {
    pub(super) name: String,
    /// The message with which a start would fail if this were the only aggregate.
    pub(super) reason: String,
    /// The code that `status` reports.
    pub(super) code: Code,
    uuid: String,
    devices: Vec<Device>,
}

impl Unavailable {
    pub(super) fn new(
        directory: &DataDir,
        recorded: &AggregateState,
        reason: String,
        code: Code,
    ) -> Unavailable {
        let devices = recorded.devices.iter().map(|device| Device {
            path: directory.device_path(device).display().to_string(),
            kind: kinds::shown(device.kind),
            size_bytes: device.size_bytes,
            group: None,
            column: None,
            state: None,
            catching_up: None,
            faults: None,
        });
        Unavailable {
            name: recorded.name.clone(),
            reason,
            code,
            uuid: recorded
                .uuid
                .map_or_else(String::new, |uuid| uuid.to_string()),
            devices: devices.collect(),
        }
    }

    /// Returns its UUID as text; empty if none is recorded.
    pub(super) fn uuid(&self) -> &str {
        &self.uuid
    }

    /// Returns the recorded properties. Those that only the pool knows are left out.
    pub(super) fn view(&self) -> Aggregate {
        Aggregate {
            name: self.name.clone(),
            uuid: self.uuid.clone(),
            state: Shown::Unavailable,
            reason: Some(self.reason.clone()),
            imported_read_only: false,
            raid: "unknown".to_owned(),
            group_size: None,
            size_bytes: 0,
            used_bytes: 0,
            free_bytes: 0,
            reserve_bytes: 0,
            pending_free_bytes: 0,
            logical_bytes: 0,
            area_bytes: 0,
            shared_bytes: 0,
            snapshot_exclusive_bytes: 0,
            trash_bytes: 0,
            dirty_bytes: 0,
            host_backed_bytes: 0,
            host_free_bytes: None,
            committed_cp: 0,
            cp: None,
            journal: None,
            damage: Damage::default(),
            copies: None,
            stripes: None,
            recovery: None,
            removal: None,
            volume_count: 0,
            devices: self.devices.clone(),
        }
    }
}
