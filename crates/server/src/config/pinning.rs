//! Pinning: whether each reactor stays on a processor of its own.

use std::str::FromStr;

/// Whether each reactor is pinned to its own processor (decision 0025).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pinning {
    /// Each reactor is pinned if there are as many processors as reactors; otherwise the system
    /// schedules them.
    #[default]
    Auto,
    /// The system chooses the processors.
    Off,
}

impl FromStr for Pinning {
    type Err = String;

    fn from_str(text: &str) -> Result<Pinning, String> {
        match text {
            "auto" => Ok(Pinning::Auto),
            "off" => Ok(Pinning::Off),
            _ => Err(format!(
                "'{text}' is not a way to pin data plane threads; expected auto or off"
            )),
        }
    }
}
