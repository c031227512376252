//! Names of subsystems, made from names of LUNs and back.
//!
//! `vol0/lun0` is `nqn.2026-11.dev.everglade:vol0.lun0:dc8766bb`. The last part is the beginning of
//! the LUN's UUID. So two servers that each have a `vol0/lun0` have two subsystems: a host that
//! knows both would take one name for two paths to one disk.
//!
//! A LUN's full name is two names with `/` between them. The first character of each is a letter or
//! a digit; the others may also be `.`, `_` and `-` (`api::name`). The slash becomes a dot, and a
//! dot becomes two dots. Because the second name does not begin with a dot, the slash is the last
//! dot of the only run of an odd number of dots:
//!
//! | LUN | subsystem |
//! | --- | --- |
//! | `vol0/lun0` | `…:vol0.lun0:dc8766bb` |
//! | `a.b/c` | `…:a..b.c:4ca95013` |
//! | `a./b.` | `…:a...b..:00c0ffee` |
//!
//! A name that would be longer than [`NQN_BYTES_MAX`] has no subsystem.

/// The longest name of a subsystem or of a host, in bytes.
pub const NQN_BYTES_MAX: usize = 223;
/// The name of the discovery service, the same everywhere.
pub const DISCOVERY: &str = "nqn.2014-08.org.nvmexpress.discovery";
/// The beginning of our names.
pub const PREFIX: &str = "nqn.2026-11.dev.everglade:";

/// Returns the name of the subsystem of the LUN with this name and UUID; `None` if it would be too
/// long.
#[must_use]
pub fn of_lun(lun: &str, uuid: &[u8; 16]) -> Option<String> {
    let [a, b, c, d, ..] = *uuid;
    with_mark(lun, u32::from_be_bytes([a, b, c, d]))
}

fn with_mark(lun: &str, mark: u32) -> Option<String> {
    let (volume, rest) = lun.split_once('/')?;
    let escaped = |name: &str| name.replace('.', "..");
    let nqn = format!("{PREFIX}{}.{}:{mark:08x}", escaped(volume), escaped(rest));
    (nqn.len() <= NQN_BYTES_MAX).then_some(nqn)
}

/// Returns the name of the LUN that a subsystem of this name would have; `None` if the name is not
/// one of ours. The name is right if [`of_lun`] makes it of that LUN.
#[must_use]
pub fn lun_of(nqn: &str) -> Option<String> {
    let (escaped, mark) = nqn.strip_prefix(PREFIX)?.rsplit_once(':')?;
    let mark = u32::from_str_radix(mark, 16).ok()?;
    let mut lun = String::with_capacity(escaped.len());
    let mut rest = escaped;
    while let Some(at) = rest.find('.') {
        let (before, dots_and_more) = rest.split_at(at);
        let after = dots_and_more.trim_start_matches('.');
        let dots = dots_and_more.len() - after.len();
        lun.push_str(before);
        lun.push_str(&".".repeat(dots / 2));
        if !dots.is_multiple_of(2) {
            lun.push('/');
        }
        rest = after;
    }
    lun.push_str(rest);
    // Only names that come back as they were are names.
    (with_mark(&lun, mark).as_deref() == Some(nqn)).then_some(lun)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const UUID: [u8; 16] = [
        0xdc, 0x87, 0x66, 0xbb, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,
    ];

    #[test]
    fn names_are_as_the_table_says() {
        for (lun, escaped) in [
            ("vol0/lun0", "vol0.lun0"),
            ("a.b/c", "a..b.c"),
            ("a./b.", "a...b.."),
            ("a_-/9", "a_-.9"),
        ] {
            let nqn = format!("{PREFIX}{escaped}:dc8766bb");
            assert_eq!(of_lun(lun, &UUID).as_deref(), Some(&*nqn));
            assert_eq!(lun_of(&nqn).as_deref(), Some(lun));
        }
    }

    #[test]
    fn other_names_have_no_lun() {
        let ours = [
            "",
            "a",
            "a.b",
            "a.b:",
            "a.b:1",
            "a.b:DC8766BB",
            "a.b.c:dc8766bb",
            ":dc8766bb",
        ];
        for rest in ours {
            assert_eq!(lun_of(&format!("{PREFIX}{rest}")), None, "{rest}");
        }
        for nqn in ["", DISCOVERY, "x"] {
            assert_eq!(lun_of(nqn), None, "{nqn}");
        }
    }

    #[test]
    fn a_name_that_is_too_long_has_no_subsystem() {
        let dots = format!("a{}", ".".repeat(63));
        assert_eq!(of_lun(&format!("{dots}/{dots}"), &UUID), None);
        let long = "a".repeat(64);
        assert!(of_lun(&format!("{long}/{long}"), &UUID).is_some());
    }

    proptest! {
        #[test]
        fn every_name_comes_back(volume in "[A-Za-z0-9][A-Za-z0-9._-]{0,30}",
                                 lun in "[A-Za-z0-9][A-Za-z0-9._-]{0,30}",
                                 uuid in any::<[u8; 16]>()) {
            let name = format!("{volume}/{lun}");
            let nqn = of_lun(&name, &uuid);
            prop_assert_eq!(nqn.and_then(|nqn| lun_of(&nqn)), Some(name));
        }

        #[test]
        fn any_text_is_a_name_or_none(text in "[a.@/:]{0,12}") {
            let nqn = format!("{PREFIX}{text}:dc8766bb");
            if let Some(lun) = lun_of(&nqn) {
                prop_assert_eq!(of_lun(&lun, &UUID), Some(nqn));
            }
        }
    }
}
