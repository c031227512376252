//! Names of targets: each LUN is a target of its own, and its logical unit is number 0.
//!
//! The name is made from the LUN's name, so nobody has to configure it:
//! `vol0/lun0` is `iqn.2026-11.dev.everglade:vol0.lun0`. An iSCSI name has small letters, digits,
//! `-`, `.` and `:` only (RFC 7143 §4.2.7.2), and initiators turn capital letters into small ones.
//! So `/` is written as `.`, and each byte that has no place is written as `:` with two
//! hexadecimal digits: `Vol_1.a/b` is `:56ol:5f1:2ea.b`. The way back is exact.

/// What all names begin with.
pub const PREFIX: &str = "iqn.2026-11.dev.everglade:";
/// Longest iSCSI name (RFC 7143 §4.2.7.1).
pub const NAME_BYTES_MAX: usize = 223;

/// Returns the name of the target of an export. `None` if it would be too long: an export whose
/// name has many capital letters has no name here.
#[must_use]
pub fn target_name(export: &str) -> Option<String> {
    let mut name = PREFIX.to_owned();
    for byte in export.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' => name.push(char::from(byte)),
            b'/' => name.push('.'),
            _ => name.push_str(&format!(":{byte:02x}")),
        }
    }
    (name.len() <= NAME_BYTES_MAX).then_some(name)
}

/// Returns the export with this target name. `None` if no export can have it.
#[must_use]
pub fn export_name(target: &str) -> Option<String> {
    let target = normalised(target)?;
    let mut rest = target.strip_prefix(PREFIX)?.as_bytes();
    let mut bytes = Vec::with_capacity(rest.len());
    while let [first, behind @ ..] = rest {
        rest = behind;
        bytes.push(match first {
            b'.' => b'/',
            b':' => {
                let (digits, behind) = rest.split_at_checked(2)?;
                rest = behind;
                let digits = std::str::from_utf8(digits).ok()?;
                u8::from_str_radix(digits, 16).ok()?
            }
            byte => *byte,
        });
    }
    let export = String::from_utf8(bytes).ok()?;
    // An export has one name, although the rules above would read others.
    (target_name(&export)? == target).then_some(export)
}

/// Returns an iSCSI name in the form in which names are compared: small letters. `None` if it is
/// empty, too long or has characters that no iSCSI name has.
#[must_use]
pub fn normalised(name: &str) -> Option<String> {
    let is_short = !name.is_empty() && name.len() <= NAME_BYTES_MAX;
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b':');
    // Initiators exist that have `_` in their names; nothing here depends on it.
    let is_fine = name.bytes().all(|byte| is_legal(byte) || byte == b'_');
    (is_short && is_fine).then(|| name.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_legal_and_lead_back() {
        for (export, target) in [
            ("vol0/lun0", "vol0.lun0"),
            ("Vol_1.a/b", ":56ol:5f1:2ea.b"),
            ("v/l@snap", "v.l:40snap"),
            ("v/é", "v.:c3:a9"),
        ] {
            let name = target_name(export).expect("short");
            assert_eq!(name, format!("{PREFIX}{target}"));
            assert_eq!(export_name(&name).as_deref(), Some(export));
            assert_eq!(export_name(&name.to_uppercase()).as_deref(), Some(export));
        }
    }

    #[test]
    fn other_names_are_no_exports() {
        let long = "a".repeat(300);
        for bad in [
            "", "x", "vol0:", "vol0:4", "vol0:zz", "a:61", "a:2F", "a b", "a:ff", &long,
        ] {
            assert_eq!(
                export_name(&format!("{PREFIX}{bad}")).filter(|it| it != bad),
                None,
                "{bad}"
            );
        }
        assert_eq!(export_name("iqn.2001-04.com.example:vol0.lun0"), None);
        assert_eq!(target_name(&"A".repeat(80)), None, "too long");
    }
}
