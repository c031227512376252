//! REPORT TARGET PORT GROUPS (SPC-4 §6.37): one group, whose ports are all as good.

use super::unit::RELATIVE_PORT;
use crate::login::PORTAL_GROUP;

/// Answers REPORT TARGET PORT GROUPS.
#[must_use]
pub fn port_groups(is_extended: bool) -> Vec<u8> {
    let group = PORTAL_GROUP.to_be_bytes();
    let port = RELATIVE_PORT.to_be_bytes();
    let descriptor = [
        // Active and optimised, which is the only state there is.
        0x00, 0x01, group[0], group[1], 0, 0, 0, 1, 0, 0, port[0], port[1],
    ];
    let header: &[u8] = match is_extended {
        false => &[0, 0, 0, 12],
        true => &[0, 0, 0, 16, 0x10, 0, 0, 0],
    };
    [header, &descriptor].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_covers_what_follows() {
        for is_extended in [false, true] {
            let answer = port_groups(is_extended);
            assert_eq!(usize::from(answer[3]), answer.len() - 4);
        }
    }
}
