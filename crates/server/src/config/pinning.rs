//! Pinning: whether each reactor stays on a processor of its own.

use std::str::FromStr;

/// Whether each reactor has a processor of its own (decision 0025).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pinning {
    /// Each on a processor of its own if there is exactly one for each, else where the system
    /// likes.
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
