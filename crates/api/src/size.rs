//! Sizes as people write and read them (docs/reference/conventions.md#sizes).
//!
//! Input: plain bytes, or a number with K M G T P or KiB … PiB, all powers of 1024, in any case. A
//! number may have a fraction, as those in the output have, if the size is a whole number of bytes.
//! Output: IEC with one decimal. Decimal units (`GB`) are refused rather than reinterpreted,
//! because the two readings differ by 7 % at that size.

use std::fmt;
use std::str::FromStr;

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Size(pub u64);

/// Units above the byte, smallest first. The unit at position n is 1024 to the power n + 1.
const UNITS: [char; 5] = ['K', 'M', 'G', 'T', 'P'];

impl Size {
    /// Returns this number of KiB. For constants; overflow fails the build.
    #[must_use]
    pub const fn kib(count: u64) -> Size {
        Size(count << 10)
    }

    /// Returns this number of MiB. For constants; overflow fails the build.
    #[must_use]
    pub const fn mib(count: u64) -> Size {
        Size(count << 20)
    }

    /// Returns this number of GiB. For constants; overflow fails the build.
    #[must_use]
    pub const fn gib(count: u64) -> Size {
        Size(count << 30)
    }

    /// Returns the size as messages have it: in a unit if that is exact, else in bytes.
    #[must_use]
    pub fn said(self) -> String {
        let shown = self.to_string();
        match shown.parse() {
            Ok(Size(bytes)) if bytes == self.0 => shown,
            _ => format!("{} bytes", self.0),
        }
    }

    /// Returns a least size as messages have it, for people to type: in whole MiB, rounded up. A
    /// unit with one decimal would round down, and what is typed would be too little.
    #[must_use]
    pub fn at_least(self) -> String {
        let mib = self.0.div_ceil(1 << 20);
        let said = Size(mib.saturating_mul(1 << 20)).said();
        if said.ends_with("bytes") {
            return format!("{mib}.0 MiB");
        }
        said
    }

    /// Returns the number itself.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

/// Why a text is not a size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not a size; expected bytes or a number with K M G T P or KiB … PiB{hint}")]
pub struct NotASize {
    text: String,
    hint: String,
}

impl FromStr for Size {
    type Err = NotASize;

    fn from_str(text: &str) -> Result<Size, NotASize> {
        let millionths = millionths(text)?;
        if millionths % MILLION != 0 {
            let hint = "; this one is not a whole number of bytes, use a smaller unit";
            return Err(NotASize::new(text, hint));
        }
        let bytes = u64::try_from(millionths / MILLION);
        bytes.map(Size).map_err(|_| NotASize::new(text, TOO_LARGE))
    }
}

impl NotASize {
    fn new(text: &str, hint: &str) -> NotASize {
        NotASize {
            text: text.to_owned(),
            hint: hint.to_owned(),
        }
    }
}

/// Parts of a byte that a fraction can name: it has at most [`DECIMALS_MAX`] digits.
pub(crate) const MILLION: u128 = 1_000_000;
const DECIMALS_MAX: usize = 6;
const TOO_LARGE: &str = "; this one is too large";

/// Reads a size in millionths of a byte, so that a fraction is exact. The result is at most a
/// little more than [`u64::MAX`] bytes.
///
/// # Errors
/// The text is not a size.
pub(crate) fn millionths(text: &str) -> Result<u128, NotASize> {
    let refuse = |hint: &str| Err(NotASize::new(text, hint));
    let (digits, rest) = split_digits(text.trim());
    let (decimals, unit) = match rest.strip_prefix('.') {
        Some(rest) => split_digits(rest),
        None => ("", rest),
    };
    let is_fraction = rest.starts_with('.');
    if digits.is_empty() || (is_fraction && decimals.is_empty()) {
        return refuse("");
    }
    if decimals.len() > DECIMALS_MAX {
        return refuse("; use at most six digits after the point");
    }
    let Some(shift) = unit_shift(unit.trim_start()) else {
        if unit.to_ascii_uppercase().ends_with('B') {
            return refuse("; units are powers of 1024, write KiB, MiB, GiB, TiB or PiB");
        }
        return refuse("");
    };
    let Ok(count) = digits.parse::<u64>() else {
        return refuse(TOO_LARGE);
    };
    let bytes = u128::from(count) << shift;
    if bytes > u128::from(u64::MAX) {
        return refuse(TOO_LARGE);
    }
    let decimals: u128 = format!("{decimals:0<DECIMALS_MAX$}").parse().unwrap_or(0);
    Ok(bytes * MILLION + (decimals << shift))
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit());
    text.split_at(end.unwrap_or(text.len()))
}

/// Returns the bits by which the unit shifts, `Some(0)` for bytes.
fn unit_shift(unit: &str) -> Option<u32> {
    let upper = unit.to_ascii_uppercase();
    if upper.is_empty() || upper == "B" {
        return Some(0);
    }
    let letter = upper.strip_suffix("IB").unwrap_or(&upper);
    let mut shift = 0;
    for unit in UNITS {
        shift += 10;
        if letter.len() == 1 && letter.starts_with(unit) {
            return Some(shift);
        }
    }
    None
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 1024 {
            return write!(f, "{} B", self.0);
        }
        // Tenths in integers, rounded half up; 1023.95 KiB rounds into the next unit.
        for (power, unit) in (1u32..).zip(UNITS) {
            let one = 1u128 << (10 * power);
            let tenths = (u128::from(self.0) * 10 + one / 2) / one;
            if tenths < 10_240 || power as usize == UNITS.len() {
                return write!(f, "{}.{} {unit}iB", tenths / 10, tenths % 10);
            }
        }
        unreachable!("the last unit takes every size")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_powers_of_1024_in_any_spelling() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("4096B", 4096),
            ("4K", 4096),
            ("4k", 4096),
            ("4KiB", 4096),
            ("16GiB", 16 << 30),
            ("16 gib", 16 << 30),
            ("3T", 3 << 40),
            ("1.5T", 3 << 39),
            ("1.5 GiB", 3 << 29),
            ("0.25K", 256),
            ("4096.0", 4096),
            ("8PiB", 8 << 50),
        ] {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_size_is_refused_with_a_reason() {
        for (text, hint) in [
            ("", "is not a size"),
            ("GiB", "is not a size"),
            ("-1", "is not a size"),
            ("16GB", "write KiB"),
            ("1.5GB", "write KiB"),
            ("1.1T", "smaller unit"),
            ("0.5", "smaller unit"),
            ("1.T", "is not a size"),
            (".5T", "is not a size"),
            ("1.0000000T", "six digits"),
            ("16383.9999999P", "six digits"),
            ("16384P", "too large"),
            ("99999999999999999999", "too large"),
            ("4X", "is not a size"),
            ("4KiBs", "is not a size"),
        ] {
            let refusal = text.parse::<Size>().expect_err(text).to_string();
            assert!(refusal.contains(hint), "{text}: {refusal}");
        }
    }

    #[test]
    fn messages_are_short_where_that_is_exact() {
        for (bytes, text) in [
            (0, "0 B"),
            (4097, "4097 bytes"),
            (1536, "1.5 KiB"),
            (16 << 30, "16.0 GiB"),
            ((16 << 30) - 4096, "17179865088 bytes"),
            (u64::MAX, "18446744073709551615 bytes"),
        ] {
            assert_eq!(Size(bytes).said(), text);
        }
        for (bytes, text) in [
            (1, "1.0 MiB"),
            (7 << 20, "7.0 MiB"),
            ((2176 << 20) - 1, "2176.0 MiB"),
            (2 << 30, "2.0 GiB"),
            ((2 << 30) + 1, "2049.0 MiB"),
            (3 << 29, "1.5 GiB"),
        ] {
            assert_eq!(Size(bytes).at_least(), text);
        }
    }

    #[test]
    fn output_has_one_decimal_and_carries_into_the_next_unit() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            ((1 << 20) - 1, "1.0 MiB"),
            (16 << 30, "16.0 GiB"),
            (u64::MAX, "16384.0 PiB"),
        ] {
            assert_eq!(Size(bytes).to_string(), text);
        }
    }
}
