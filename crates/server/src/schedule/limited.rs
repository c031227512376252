//! The limit of one LUN, as it is in an aggregate's part of the book.

use everglade_engine::LimitSettings;
use serde::{Deserialize, Serialize};

use super::reserved::uuid;

/// See the module's documentation. 0 is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Limited {
    /// Most operations in a second.
    #[serde(default)]
    pub(super) iops: u64,
    /// Most bytes in a second.
    #[serde(default)]
    pub(super) bytes_per_second: u64,
    /// The number of the aggregate that has the LUN.
    #[serde(skip)]
    pub(super) home: Option<u32>,
}

impl Limited {
    /// Checks that it is what was written.
    ///
    /// # Errors
    /// A description of the mistake, in one line.
    pub(super) fn check(&self, lun: &str) -> Result<(), String> {
        let is_known = uuid(lun).is_some();
        is_known.then_some(()).ok_or_else(|| {
            format!("the limit of LUN {lun:.40} is not of a kind that this version knows")
        })
    }

    /// As the engine takes it.
    pub(super) fn settings(&self) -> LimitSettings {
        LimitSettings {
            operations_per_second: self.iops,
            bytes_per_second: self.bytes_per_second,
        }
    }
}
