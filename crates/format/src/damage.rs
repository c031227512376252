//! What a decoder found wrong.

/// Bytes that do not decode: which structure, what was expected, what was found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: expected {expected}, found {found}")]
pub struct Damage {
    /// The structure or field.
    pub what: &'static str,
    /// What would have been right.
    pub expected: String,
    /// What the bytes say.
    pub found: String,
    /// Nothing is broken: whoever wrote the bytes knows more than this build.
    pub is_newer: bool,
}

impl Damage {
    /// A finding about `what`.
    pub fn new(what: &'static str, expected: impl ToString, found: impl ToString) -> Self {
        Damage {
            what,
            expected: expected.to_string(),
            found: found.to_string(),
            is_newer: false,
        }
    }

    /// Whole bytes of a version or with features this build does not know.
    pub fn newer(what: &'static str, expected: impl ToString, found: impl ToString) -> Self {
        Damage {
            is_newer: true,
            ..Damage::new(what, expected, found)
        }
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
