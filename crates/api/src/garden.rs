//! The garden of an aggregate: areas are emptied, so that free space is whole again.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Fields, Problem};

/// Percent of an area that must be free if nobody says it.
const LEAST_FREE_PERCENT: u8 = 30;

/// `POST /v1/aggregates/{a}/actions/clean`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct Clean {
    /// An area is emptied if at least this part of it is free, in percent, 1 to 100; 30 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least_free_percent: Option<u8>,
}

impl Clean {
    /// Reads a body.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn parse(body: &[u8]) -> Result<Clean, Problem> {
        if body.is_empty() {
            return Ok(Clean::default());
        }
        let mut fields = Fields::parse(body)?;
        let percent = fields.integer("least_free_percent")?;
        fields.finish()?;
        let is_right = |percent: &u8| (1..=100).contains(percent);
        match percent.map(|percent| u8::try_from(percent).ok().filter(is_right)) {
            None => Ok(Clean::default()),
            Some(Some(percent)) => Ok(Clean {
                least_free_percent: Some(percent),
            }),
            Some(None) => {
                let text = "use a whole number from 1, which empties every area that is not full, \
                    to 100";
                Err(Problem::invalid("least_free_percent", text))
            }
        }
    }

    /// The part of an area that must be free, in percent.
    #[must_use]
    pub fn percent(self) -> u8 {
        self.least_free_percent.unwrap_or(LEAST_FREE_PERCENT)
    }
}

/// State of a job in the garden.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum GardeningState {
    /// Nobody has asked for it since the aggregate was opened.
    #[default]
    None,
    /// It is under way.
    Running,
    /// It was ended before it had passed everything.
    Stopped,
    /// It has passed everything.
    Done,
}

impl fmt::Display for GardeningState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            GardeningState::None => "none",
            GardeningState::Running => "running",
            GardeningState::Stopped => "stopped",
            GardeningState::Done => "done",
        })
    }
}

/// `POST /v1/volumes/{v}/luns/{l}/actions/layout`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct PutInOrder {
    /// True to count runs, and to move nothing; false if absent.
    #[serde(default)]
    pub estimate: bool,
}

impl PutInOrder {
    /// Reads a body.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn parse(body: &[u8]) -> Result<PutInOrder, Problem> {
        if body.is_empty() {
            return Ok(PutInOrder::default());
        }
        let mut fields = Fields::parse(body)?;
        let estimate = fields.flag("estimate")?;
        fields.finish()?;
        Ok(PutInOrder { estimate })
    }
}

/// `GET /v1/aggregates/{a}/garden`: what moves blocks in an aggregate, and what it has done since
/// the aggregate was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Garden {
    /// Name of the aggregate.
    pub aggregate: String,
    /// True if an administrator has paused gardening.
    #[serde(default)]
    pub paused: bool,
    /// The part of the day, in UTC, in which blocks may be moved; absent if that is all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<String>,
    /// True outside of this part of the day.
    #[serde(default)]
    pub waits_for_window: bool,
    /// Bytes of blocks that were moved since the aggregate was opened.
    pub moved_bytes: u64,
    /// Areas that were emptied since then.
    pub cleaned_area_count: u64,
    /// What was put in order after clients had read it in order.
    #[serde(default)]
    pub after_read: AfterRead,
    /// Segment cleaning that is under way, or the last one.
    pub cleaning: Cleaning,
    /// The rebalance that is under way, or the last one.
    #[serde(default)]
    pub rebalance: Rebalance,
    /// The LUN that is put in order, or the last one.
    pub layout: LunLayout,
}

/// A rebalance: blocks move from fuller devices, or groups of drives, to emptier ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Rebalance {
    /// State of the rebalance.
    pub state: GardeningState,
    /// Bytes that are to move; absent until the blocks of each device are counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_bytes: Option<u64>,
    /// Bytes of blocks that were moved.
    pub moved_bytes: u64,
    /// The same in whole percent.
    pub percent: u64,
    /// How full the fullest device was, in percent; absent until that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fullest_percent: Option<u64>,
    /// How full the emptiest device was, in percent; absent until that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emptiest_percent: Option<u64>,
    /// Blocks that stayed where they are, because they cannot be read, or what leads to them
    /// cannot.
    pub left_block_count: u64,
    /// When it began; absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<String>,
    /// When it ended; absent until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// Seconds until it ends, if it goes on like this; absent while that is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eta_seconds: Option<u64>,
}

/// Write after read since the aggregate was opened: what clients read in order and did not lie in
/// order was put in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AfterRead {
    /// Bytes of LUNs that were read and are yet to be put in order, with holes.
    pub waiting_bytes: u64,
    /// Bytes of LUNs that were put in order, without holes.
    pub passed_bytes: u64,
    /// Runs of consecutive blocks that reading this in order took before.
    pub run_count_before: u64,
    /// The same after.
    pub run_count_after: u64,
    /// Bytes in a run before, on the average.
    pub run_bytes_before: u64,
    /// The same after.
    pub run_bytes_after: u64,
    /// Bytes of blocks that were moved.
    pub moved_bytes: u64,
}

/// Segment cleaning.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Cleaning {
    /// State of segment cleaning.
    pub state: GardeningState,
    /// An area is emptied if at least this part of it is free, in percent.
    pub least_free_percent: u8,
    /// Areas that it has passed, emptied or not.
    pub passed_area_count: u64,
    /// All that it has to pass.
    pub total_area_count: u64,
    /// The same in whole percent.
    pub percent: u64,
    /// Areas that were emptied.
    pub cleaned_area_count: u64,
    /// Bytes of blocks that were moved.
    pub moved_bytes: u64,
    /// Blocks that stayed where they are, because they cannot be read, or what leads to them
    /// cannot.
    pub left_block_count: u64,
    /// When it began; absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<String>,
    /// When it ended; absent until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// Seconds until it ends, if it goes on like this; absent while that is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eta_seconds: Option<u64>,
}

/// A part of a LUN, as an estimate of its layout found it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LayoutPart {
    /// Bytes in it, without holes and without what a clone has from its parent.
    pub bytes: u64,
    /// Runs of consecutive blocks that reading this in order takes.
    pub run_count: u64,
    /// Path of the device that has the first block; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Where the first block is on this device, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_offset_bytes: Option<u64>,
}

/// The layout of a LUN.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LunLayout {
    /// State of the job.
    pub state: GardeningState,
    /// The LUN, `volume/lun`, as it was called when this began; absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lun: Option<String>,
    /// True if nothing is moved.
    pub estimate: bool,
    /// How far it is, in whole percent.
    pub percent: u64,
    /// Pointers that named former places of blocks, which made reads slower. A layout corrects
    /// them; an estimate only counts them.
    #[serde(default)]
    pub stale_pointer_count: u64,
    /// Bytes of the LUN in each part; the last part may be shorter.
    #[serde(default)]
    pub part_bytes: u64,
    /// Of an estimate: at most 256 parts of equal length, in order.
    #[serde(default)]
    pub parts: Vec<LayoutPart>,
    /// Bytes that it has passed, without holes and without what a clone has from its parent.
    pub passed_bytes: u64,
    /// Runs of consecutive blocks that reading this in order took before.
    pub run_count_before: u64,
    /// The same after; of an estimate the same as before.
    pub run_count_after: u64,
    /// Bytes in a run before, on the average.
    pub run_bytes_before: u64,
    /// The same after.
    pub run_bytes_after: u64,
    /// Bytes of blocks that were moved.
    pub moved_bytes: u64,
    /// When it began; absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<String>,
    /// When it ended; absent until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// Seconds until it ends, if it goes on like this; absent while that is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eta_seconds: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;

    #[test]
    fn the_part_that_must_be_free_is_a_percentage_above_zero() {
        for percent in [None, Some(1), Some(100)] {
            let request = Clean {
                least_free_percent: percent,
            };
            let body = serde_json::to_vec(&request).expect("JSON");
            assert_eq!(Clean::parse(&body), Ok(request));
        }
        assert_eq!(Clean::parse(b"").map(Clean::percent), Ok(30));
        for (body, code) in [
            ("{\"least_free_percent\": 0}", Code::InvalidValue),
            ("{\"least_free_percent\": 101}", Code::InvalidValue),
            ("{\"least_free_percent\": -1}", Code::InvalidValue),
            ("{\"least_free\": 30}", Code::UnknownField),
        ] {
            let problem = Clean::parse(body.as_bytes()).expect_err(body);
            assert_eq!(problem.code, code, "{body}");
        }
    }
}
