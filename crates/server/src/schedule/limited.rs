//! The limit of one LUN or volume, and the policies that limits may follow, as they are in an
//! aggregate's part of the book.

use everglade_engine::LimitSettings;
use serde::{Deserialize, Serialize};

use super::reserved::uuid;

fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// What a limit or a policy says. 0 is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rates {
    /// Most operations in a second.
    #[serde(default)]
    pub(super) iops: u64,
    /// Most bytes in a second.
    #[serde(default)]
    pub(super) bytes_per_second: u64,
    /// What may be saved up.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) burst_milliseconds: u32,
    /// The weight where operations wait.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) weight: u32,
}

impl Rates {
    pub(super) fn of(settings: LimitSettings) -> Rates {
        Rates {
            iops: settings.operations_per_second,
            bytes_per_second: settings.bytes_per_second,
            burst_milliseconds: settings.burst_milliseconds,
            weight: settings.weight,
        }
    }

    /// As the engine takes it.
    pub(super) fn settings(self) -> LimitSettings {
        LimitSettings {
            operations_per_second: self.iops,
            bytes_per_second: self.bytes_per_second,
            burst_milliseconds: self.burst_milliseconds,
            weight: self.weight,
        }
    }
}

/// See the module's documentation. It has rates of its own, or those of a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub(super) struct Limited {
    /// Its own rates, if it has no policy.
    pub(super) own: Rates,
    /// The name of its policy.
    pub(super) policy: Option<String>,
    /// The number of the aggregate that has the LUN or the volume.
    pub(super) home: Option<u32>,
}

/// A limit as it is written.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default, skip_serializing_if = "is_zero")]
    iops: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    bytes_per_second: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    burst_milliseconds: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    weight: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    policy: Option<String>,
}

impl From<Written> for Limited {
    fn from(written: Written) -> Limited {
        Limited {
            own: Rates {
                iops: written.iops,
                bytes_per_second: written.bytes_per_second,
                burst_milliseconds: written.burst_milliseconds,
                weight: written.weight,
            },
            policy: written.policy,
            home: None,
        }
    }
}

impl From<Limited> for Written {
    fn from(Limited { own, policy, .. }: Limited) -> Written {
        Written {
            iops: own.iops,
            bytes_per_second: own.bytes_per_second,
            burst_milliseconds: own.burst_milliseconds,
            weight: own.weight,
            policy,
        }
    }
}

impl Limited {
    /// Checks that it is what was written.
    ///
    /// # Errors
    /// A description of the mistake, in one line.
    pub(super) fn check(&self, of: &str) -> Result<(), String> {
        let is_known = uuid(of).is_some();
        is_known.then_some(()).ok_or_else(|| {
            format!("the limit of {of:.40} is not of a kind that this version knows")
        })
    }
}
