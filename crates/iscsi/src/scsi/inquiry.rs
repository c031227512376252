//! INQUIRY: what this is (SPC-4 §6.6, §7.8; SBC-3 §6.6).

use super::unit::RELATIVE_PORT;
use super::{
    COMPARE_BLOCKS_MAX, PHYSICAL_EXPONENT, Sense, TRANSFER_BLOCKS_MAX, UNMAP_RANGES_MAX, Unit,
    WRITE_SAME_BLOCKS_MAX,
};
use crate::login::PORTAL_GROUP;

/// Vendor, eight characters (SPC-4 §6.6.2).
const VENDOR: &[u8; 8] = b"EVERGLAD";
const PRODUCT: &[u8; 16] = b"LUN             ";
const REVISION: &[u8; 4] = b"0001";

/// Pages of vital product data.
mod pages {
    pub(super) const SUPPORTED: u8 = 0x00;
    pub(super) const SERIAL: u8 = 0x80;
    pub(super) const IDENTIFICATION: u8 = 0x83;
    pub(super) const EXTENDED: u8 = 0x86;
    pub(super) const BLOCK_LIMITS: u8 = 0xb0;
    pub(super) const CHARACTERISTICS: u8 = 0xb1;
    pub(super) const PROVISIONING: u8 = 0xb2;
    pub(super) const ALL: [u8; 7] = [
        SUPPORTED,
        SERIAL,
        IDENTIFICATION,
        EXTENDED,
        BLOCK_LIMITS,
        CHARACTERISTICS,
        PROVISIONING,
    ];
}

/// Answers INQUIRY. `unit` is `None` for a logical unit that does not exist.
///
/// # Errors
/// There is no such page.
pub fn answer(unit: Option<&Unit>, page: Option<u8>) -> Result<Vec<u8>, Sense> {
    match (unit, page) {
        (unit, None) => Ok(standard(unit.is_some())),
        (None, Some(_)) => Err(Sense::NO_SUCH_UNIT),
        (Some(unit), Some(page)) => vital(unit, page),
    }
}

fn standard(exists: bool) -> Vec<u8> {
    let mut answer = vec![0; 96];
    // Qualifier 3 and type 31: there is nothing here.
    answer[0] = if exists { 0x00 } else { 0x7f };
    // SPC-4.
    answer[2] = 6;
    // Hierarchical numbers of units are understood; the format of this data is 2.
    answer[3] = 0x12;
    answer[4] = 91;
    // States of port groups are told and cannot be set.
    answer[5] = 0x10;
    // Several ports: each session is a path.
    answer[6] = 0x10;
    // Commands are queued.
    answer[7] = 0x02;
    answer[8..16].copy_from_slice(VENDOR);
    answer[16..32].copy_from_slice(PRODUCT);
    answer[32..36].copy_from_slice(REVISION);
    // SAM-5, iSCSI, SPC-4, SBC-3, no version in particular of each.
    let versions = [0x00a0_u16, 0x0960, 0x0460, 0x04c0];
    for (version, place) in versions.iter().zip(answer[58..].chunks_exact_mut(2)) {
        place.copy_from_slice(&version.to_be_bytes());
    }
    answer
}

fn vital(unit: &Unit, page: u8) -> Result<Vec<u8>, Sense> {
    let body = match page {
        pages::SUPPORTED => pages::ALL.to_vec(),
        pages::SERIAL => unit.serial.as_bytes().to_vec(),
        pages::IDENTIFICATION => identification(unit),
        pages::EXTENDED => extended(),
        pages::BLOCK_LIMITS => block_limits(),
        pages::CHARACTERISTICS => characteristics(),
        pages::PROVISIONING => provisioning(),
        _ => return Err(Sense::in_command(2)),
    };
    let length = u16::try_from(body.len()).expect("names are short");
    let mut answer = vec![0, page];
    answer.extend(length.to_be_bytes());
    answer.extend(body);
    Ok(answer)
}

/// A designator: code set, association, type and value.
fn designator(codes: u8, association: u8, kind: u8, value: &[u8]) -> Vec<u8> {
    // Those of ports and targets name the transport: iSCSI.
    let (protocol, piv) = match association {
        0 => (0, 0),
        _ => (0x50, 0x80),
    };
    let length = u8::try_from(value.len()).expect("a name has at most 252 bytes");
    let mut bytes = vec![protocol | codes, piv | association << 4 | kind, 0, length];
    bytes.extend(value);
    bytes
}

/// A name as text: ended by a zero byte, filled up to four bytes.
fn padded(mut text: Vec<u8>) -> Vec<u8> {
    text.push(0);
    text.resize(text.len().next_multiple_of(4), 0);
    text
}

fn identification(unit: &Unit) -> Vec<u8> {
    let (binary, ascii, utf8) = (1, 2, 3);
    let (of_unit, of_port, of_target) = (0, 1, 2);
    let port = format!("{},t,0x{PORTAL_GROUP:04x}", unit.target_name);
    let numbers = |number: u16| [0, 0, number.to_be_bytes()[0], number.to_be_bytes()[1]];
    let vendor = [&VENDOR[..], unit.serial.as_bytes()].concat();
    [
        designator(binary, of_unit, 3, &unit.naa),
        designator(ascii, of_unit, 1, &vendor),
        designator(binary, of_port, 4, &numbers(RELATIVE_PORT)),
        designator(binary, of_port, 5, &numbers(PORTAL_GROUP)),
        designator(utf8, of_port, 8, &padded(port.into_bytes())),
        designator(
            utf8,
            of_target,
            8,
            &padded(unit.target_name.clone().into_bytes()),
        ),
    ]
    .concat()
}

fn extended() -> Vec<u8> {
    let mut body = vec![0; 60];
    // Tasks are simple: they may be carried out in any order.
    body[1] = 0x01;
    // There is a volatile cache.
    body[2] = 0x01;
    // A unit attention of a reset concerns one unit.
    body[3] = 0x01;
    body
}

fn block_limits() -> Vec<u8> {
    let mut body = vec![0; 60];
    let mut put = |at: usize, value: u32| {
        // Places in the standard count from the beginning of the page.
        body[at - 4..at].copy_from_slice(&value.to_be_bytes());
    };
    let physical = 1 << PHYSICAL_EXPONENT;
    let ranges = u32::try_from(UNMAP_RANGES_MAX).expect("a small number");
    put(8, TRANSFER_BLOCKS_MAX);
    put(12, TRANSFER_BLOCKS_MAX);
    put(20, u32::MAX);
    put(24, ranges);
    put(28, physical);
    // The first whole block of the storage is number 0.
    put(32, 0x8000_0000);
    put(
        40,
        u32::try_from(WRITE_SAME_BLOCKS_MAX).expect("it has 32 bits"),
    );
    body[1] = u8::try_from(COMPARE_BLOCKS_MAX).expect("one byte");
    body[2..4].copy_from_slice(&8_u16.to_be_bytes());
    body
}

fn characteristics() -> Vec<u8> {
    let mut body = vec![0; 60];
    // Nothing rotates.
    body[1] = 1;
    body
}

fn provisioning() -> Vec<u8> {
    // UNMAP and both kinds of WRITE SAME free space; freed blocks read as zeroes; thin.
    vec![0, 0xe4, 2, 0]
}

#[cfg(test)]
mod tests {
    use super::super::unit::example;
    use super::*;

    #[test]
    fn every_page_says_its_number_and_length() {
        let unit = example();
        let list = answer(Some(&unit), Some(0)).expect("a page");
        for page in &list[4..] {
            let bytes = answer(Some(&unit), Some(*page)).expect("a page");
            let length = usize::from(u16::from_be_bytes([bytes[2], bytes[3]]));
            assert_eq!((bytes[1], length), (*page, bytes.len() - 4));
        }
        assert_eq!(answer(Some(&unit), Some(0x81)), Err(Sense::in_command(2)));
        assert_eq!(answer(None, Some(0)), Err(Sense::NO_SUCH_UNIT));
        assert_eq!(answer(None, None).expect("always")[0], 0x7f);
    }

    #[test]
    fn limits_are_where_the_standard_has_them() {
        let unit = example();
        let page = answer(Some(&unit), Some(0xb0)).expect("a page");
        let at = |at: usize| u32::from_be_bytes(page[at..at + 4].try_into().expect("four"));
        assert_eq!(page.len(), 64);
        assert_eq!((page[5], at(8), at(12)), (128, 2048, 2048));
        assert_eq!(
            (at(20), at(24), at(28), at(32)),
            (u32::MAX, 256, 8, 0x8000_0000)
        );
        assert_eq!((at(36), at(40)), (0, 0xffff));
    }

    #[test]
    fn identification_is_a_list_of_designators() {
        let page = answer(Some(&example()), Some(0x83)).expect("a page");
        let mut rest = &page[4..];
        let mut kinds = Vec::new();
        while let [first, second, _, length, behind @ ..] = rest {
            kinds.push((first >> 4, second & 0x3f));
            rest = &behind[usize::from(*length)..];
        }
        let expected = [(0, 3), (0, 1), (5, 0x14), (5, 0x15), (5, 0x18), (5, 0x28)];
        assert_eq!(kinds, expected);
        assert_eq!(page[8..24], example().naa);
    }
}
