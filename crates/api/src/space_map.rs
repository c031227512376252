//! The space map of an aggregate: how full each part of its devices is, and how whole the free
//! space is.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::GardeningState;

/// `GET /v1/aggregates/{a}/space-map`: the last space map that was made since the aggregate was
/// opened, and how far the next one is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SpaceMap {
    /// Name of the aggregate.
    pub aggregate: String,
    /// State of the map that is made, or was asked for last.
    pub state: GardeningState,
    /// How far it is, in whole percent.
    pub percent: u64,
    /// When the map was finished that the other fields tell of; absent, and they are empty, if
    /// there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<String>,
    /// Bytes of an allocation area of a device.
    pub area_bytes: u64,
    /// Bytes of blocks in use, without parity and copies.
    pub used_bytes: u64,
    /// Bytes of free blocks.
    pub free_bytes: u64,
    /// Devices with data, in their order in the aggregate.
    pub devices: Vec<MappedDevice>,
    /// Free runs by their length, the shortest first.
    pub free_runs: Vec<FreeRuns>,
    /// Stripes of parity groups in which a data block is free; absent without parity groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_stripe_count: Option<u64>,
    /// Those of them in which all data blocks are free, so that they are written without reading.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole_stripe_count: Option<u64>,
}

/// A device in a space map.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MappedDevice {
    /// Its path. Of a mirror the path of the first drive.
    pub path: String,
    /// Bytes of each cell: one or more allocation areas. The last cell may be shorter.
    pub cell_bytes: u64,
    /// The cells from the beginning of the device, at most 256: how much of each is in use, in
    /// percent; null if that cannot be read.
    pub cells: Vec<Option<u8>>,
}

/// Runs of neighbouring free blocks of about the same length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FreeRuns {
    /// The least length of a run, in bytes: a power of two times 4,096. Each is shorter than twice
    /// that.
    pub least_bytes: u64,
    /// Number of runs.
    pub run_count: u64,
    /// Bytes in them.
    pub bytes: u64,
}

impl SpaceMap {
    /// Bytes of a free run, on the average; none if nothing is free.
    #[must_use]
    pub fn run_bytes(&self) -> Option<u64> {
        let runs = self.free_runs.iter();
        let count: u64 = runs.clone().map(|it| it.run_count).sum();
        let bytes: u64 = runs.map(|it| it.bytes).sum();
        bytes.checked_div(count)
    }

    /// Of the stripes with free blocks, those that are free as a whole, in percent; none without
    /// parity groups.
    #[must_use]
    pub fn whole_stripe_percent(&self) -> Option<u64> {
        let whole = self.whole_stripe_count?.saturating_mul(100);
        whole.checked_div(self.free_stripe_count?)
    }
}
