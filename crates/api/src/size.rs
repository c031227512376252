//! Sizes as people write and read them (docs/reference/conventions.md#sizes).
//!
//! Input: plain bytes, or a whole number with K M G T P or KiB … PiB, all powers of 1024, in any
//! case. Output: IEC with one decimal. Decimal units (`GB`) are refused rather than reinterpreted,
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

    /// Returns the number itself.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

/// Why a text is not a size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{text}' is not a size; expected bytes or a whole number with K M G T P or KiB … PiB{hint}"
)]
pub struct NotASize {
    text: String,
    hint: String,
}

impl FromStr for Size {
    type Err = NotASize;

    fn from_str(text: &str) -> Result<Size, NotASize> {
        let refuse = |hint: &str| NotASize {
            text: text.to_owned(),
            hint: hint.to_owned(),
        };
        let trimmed = text.trim();
        let digits_end = trimmed
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(trimmed.len());
        let (digits, unit) = trimmed.split_at(digits_end);
        if digits.is_empty() {
            return Err(refuse(""));
        }
        let count: u64 = digits
            .parse()
            .map_err(|_| refuse("; this one is too large"))?;
        let shift = match unit_shift(unit.trim_start()) {
            Some(shift) => shift,
            None if unit.contains('.') => {
                return Err(refuse("; use a smaller unit, not a fraction"));
            }
            None if unit.to_ascii_uppercase().ends_with('B') => {
                return Err(refuse(
                    "; units are powers of 1024, write KiB, MiB, GiB, TiB or PiB",
                ));
            }
            None => return Err(refuse("")),
        };
        let bytes = u128::from(count) << shift;
        u64::try_from(bytes)
            .map(Size)
            .map_err(|_| refuse("; this one is too large"))
    }
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
            ("1.5T", "smaller unit"),
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
