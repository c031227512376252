//! Why an aggregate cannot be opened. Every refusal has three parts: found, expected and remedy.

use everglade_format::Damage;
use everglade_format::damage::Writer;

/// The reasons why an aggregate cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{found}; expected {expected}. {remedy}")]
pub struct Refusal {
    /// State found on the devices.
    pub found: String,
    /// State expected.
    pub expected: String,
    /// Remedy for the administrator.
    pub remedy: String,
    /// The consistency point of the devices, if they are refused only because it is older than
    /// [`crate::Expected::cp`].
    pub rolled_back_to: Option<u64>,
    /// True if the devices are refused only because others are missing that may have newer data:
    /// [`crate::Opening::is_degraded`] opens them.
    pub can_be_degraded: bool,
}

impl Refusal {
    pub(crate) fn new(
        found: impl Into<String>,
        expected: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Refusal {
            found: found.into(),
            expected: expected.into(),
            remedy: remedy.into(),
            rolled_back_to: None,
            can_be_degraded: false,
        }
    }
}

pub(crate) const RESTORE: &str = "Check that the devices are the right ones and that none was \
    overwritten; \
                       `everglade check` says more. Nothing was changed";

/// Returns the refusal for labels of a format version that this build does not support. One newer
/// record is enough: the records beside it are older, and an upgrade may have been interrupted. An
/// older record counts only if this build understands no other.
pub(crate) fn of_another(device: &str, damage: &Damage) -> Refusal {
    let remedy = match damage.writer {
        Writer::Older => {
            "It is from before the format was frozen: copy the data out with the everglade that \
            wrote it, and create the aggregate anew. Nothing was changed"
        }
        Writer::Newer | Writer::Same => {
            "Run the newer everglade that wrote it. Nothing was changed"
        }
    };
    Refusal::new(
        format!("device {device} has {} {}", damage.what, damage.found),
        format!("{} {}", damage.what, damage.expected),
        remedy,
    )
}
