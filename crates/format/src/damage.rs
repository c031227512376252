//! Damage that a decoder found.

use crate::FORMAT_VERSION;

/// Bytes that do not decode: the structure, the expected value and the value found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: expected {expected}, found {found}")]
pub struct Damage {
    /// The structure or field.
    pub what: &'static str,
    /// The expected value.
    pub expected: String,
    /// The value found.
    pub found: String,
    /// The writer of the bytes, which tells damage from another version.
    pub writer: Writer,
}

/// The writer of bytes that do not decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    /// A writer of this version of the format, so the bytes are damaged.
    Same,
    /// A newer build: the bytes are whole, of a newer version or with unknown features.
    Newer,
    /// A build from before the format was frozen; the bytes are whole.
    Older,
}

impl Damage {
    /// A finding about `what`.
    pub fn new(what: &'static str, expected: impl ToString, found: impl ToString) -> Self {
        Damage {
            what,
            expected: expected.to_string(),
            found: found.to_string(),
            writer: Writer::Same,
        }
    }

    /// Returns the damage of whole bytes of a version or with features that this build does not
    /// know.
    pub fn newer(what: &'static str, expected: impl ToString, found: impl ToString) -> Self {
        Damage {
            writer: Writer::Newer,
            ..Damage::new(what, expected, found)
        }
    }

    /// `Ok` if whole bytes are of the version that this build reads.
    ///
    /// # Errors
    /// A newer or an older one.
    pub fn unless_ours(version: u32) -> Result<(), Damage> {
        if version == FORMAT_VERSION {
            return Ok(());
        }
        let damage = Damage::newer("format version", FORMAT_VERSION, version);
        Err(match version < FORMAT_VERSION {
            true => Damage {
                writer: Writer::Older,
                ..damage
            },
            false => damage,
        })
    }

    /// True if nothing is broken: the bytes are of another version, or have features that this
    /// build does not know.
    #[must_use]
    pub fn is_of_another(&self) -> bool {
        self.writer != Writer::Same
    }

    /// `Ok` if `found` equals `expected`.
    ///
    /// # Errors
    /// The difference.
    pub fn unless_equal<T: PartialEq + std::fmt::Debug>(
        what: &'static str,
        expected: T,
        found: T,
    ) -> Result<(), Damage> {
        if expected == found {
            Ok(())
        } else {
            Err(Damage::new(
                what,
                format!("{expected:?}"),
                format!("{found:?}"),
            ))
        }
    }
}
