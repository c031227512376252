//! Mode pages: settings, none of which can be changed (SPC-4 §7.5, SBC-3 §6.5).

use super::cdb::ModeSense;
use super::{BLOCK_BYTES, Sense, Unit};

/// The page with all pages.
const ALL: u8 = 0x3f;

/// Pages, with their values.
const PAGES: [(u8, &[u8]); 3] = [
    // Caching: there is a write cache, and SYNCHRONIZE CACHE empties it.
    (
        0x08,
        &[0x04, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    ),
    // Control: fixed sense data, commands may be reordered.
    (0x0a, &[0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0]),
    // Informational exceptions: none are reported.
    (0x1c, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
];

/// Answers MODE SENSE.
///
/// # Errors
/// There is no such page, or saved values are asked for.
pub fn sense(unit: &Unit, command: &ModeSense) -> Result<Vec<u8>, Sense> {
    if command.control == 3 {
        return Err(Sense::NOT_SAVED);
    }
    // There are no subpages, so all of them are the pages themselves.
    if !matches!(command.subpage, 0 | 0xff) {
        return Err(Sense::in_command(3));
    }
    let mut pages = Vec::new();
    for (code, values) in PAGES {
        if command.page == ALL || command.page == code {
            pages.extend([code, u8::try_from(values.len()).expect("short")]);
            // No bit can be changed.
            let mask = if command.control == 1 { 0 } else { 0xff };
            pages.extend(values.iter().map(|value| value & mask));
        }
    }
    if pages.is_empty() {
        return Err(Sense::in_command(2));
    }
    let blocks = if command.no_blocks {
        Vec::new()
    } else {
        let blocks = u32::try_from(unit.blocks()).unwrap_or(u32::MAX);
        [blocks.to_be_bytes(), BLOCK_BYTES.to_be_bytes()].concat()
    };
    // DPO and FUA are understood.
    let specific = 0x10 | if unit.read_only { 0x80 } else { 0 };
    let block_bytes = u8::try_from(blocks.len()).expect("0 or 8");
    let length = blocks.len() + pages.len();
    let header = match command.is_long {
        false => {
            let length = u8::try_from(length + 3).expect("short");
            vec![length, 0, specific, block_bytes]
        }
        true => {
            let [high, low] = u16::try_from(length + 6).expect("short").to_be_bytes();
            vec![high, low, 0, specific, 0, 0, 0, block_bytes]
        }
    };
    Ok([header, blocks, pages].concat())
}

/// Checks the parameters of MODE SELECT: values may be set to what they are.
///
/// # Errors
/// A value would change, or the parameters are damaged.
pub fn select(unit: &Unit, is_long: bool, saves: bool, parameters: &[u8]) -> Result<(), Sense> {
    if saves {
        return Err(Sense::in_command(1));
    }
    if parameters.is_empty() {
        return Ok(());
    }
    let header_bytes = if is_long { 8 } else { 4 };
    if parameters.len() < header_bytes {
        return Err(Sense::PARAMETER_LENGTH);
    }
    let block_bytes = match is_long {
        false => usize::from(parameters[3]),
        true => usize::from(u16::from_be_bytes([parameters[6], parameters[7]])),
    };
    let at = |byte: usize| Sense::in_parameters(u16::try_from(byte).unwrap_or(u16::MAX));
    let pages_at = header_bytes + block_bytes;
    if parameters.len() < pages_at {
        return Err(Sense::PARAMETER_LENGTH);
    }
    match block_bytes {
        0 => {}
        8 => {
            let length = &parameters[header_bytes + 5..pages_at];
            let count = &parameters[header_bytes..header_bytes + 4];
            let current = u32::try_from(unit.blocks())
                .unwrap_or(u32::MAX)
                .to_be_bytes();
            let is_same = count == [0; 4] || count == current || count == [0xff; 4];
            if length != &BLOCK_BYTES.to_be_bytes()[1..] || !is_same {
                return Err(at(header_bytes));
            }
        }
        _ => return Err(at(header_bytes - 1)),
    }
    let mut place = pages_at;
    while place < parameters.len() {
        let rest = &parameters[place..];
        let code = rest[0] & 0x3f;
        let (_, values) = PAGES
            .into_iter()
            .find(|(known, _)| *known == code)
            .filter(|_| rest[0] & 0x40 == 0)
            .ok_or(at(place))?;
        if rest.len() < values.len() + 2 {
            return Err(Sense::PARAMETER_LENGTH);
        }
        if usize::from(rest[1]) != values.len() {
            return Err(at(place + 1));
        }
        let pairs = rest[2..].iter().zip(values);
        if let Some(wrong) = pairs.into_iter().position(|(new, old)| new != old) {
            return Err(at(place + 2 + wrong));
        }
        place += values.len() + 2;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::unit::example;
    use super::*;

    fn command(page: u8, is_long: bool) -> ModeSense {
        ModeSense {
            is_long,
            no_blocks: false,
            control: 0,
            page,
            subpage: 0,
            room: 255,
        }
    }

    #[test]
    fn what_is_told_can_be_set_and_nothing_else() {
        let unit = example();
        for is_long in [false, true] {
            let mut told = sense(&unit, &command(ALL, is_long)).expect("pages");
            // The length is reserved when it is sent back.
            told[0] = 0;
            told[1] = 0;
            assert_eq!(select(&unit, is_long, false, &told), Ok(()));
            let last = told.len() - 1;
            told[last] ^= 1;
            let wrong = Sense::in_parameters(u16::try_from(last).expect("small"));
            assert_eq!(select(&unit, is_long, false, &told), Err(wrong));
            for length in 1..told.len() {
                // Cut off anywhere, it must not panic.
                let _ = select(&unit, is_long, false, &told[..length]);
            }
        }
    }

    #[test]
    fn nothing_can_be_changed_or_saved() {
        let mut changeable = command(0x08, false);
        changeable.control = 1;
        let told = sense(&example(), &changeable).expect("a page");
        assert_eq!(told[12..14], [8, 18]);
        assert!(told[14..].iter().all(|value| *value == 0));
        changeable.control = 3;
        assert_eq!(sense(&example(), &changeable), Err(Sense::NOT_SAVED));
        assert_eq!(
            sense(&example(), &command(0x02, false)),
            Err(Sense::in_command(2))
        );
    }

    #[test]
    fn a_read_only_unit_says_so() {
        let mut unit = example();
        assert_eq!(
            sense(&unit, &command(0x0a, false)).expect("a page")[2],
            0x10
        );
        unit.read_only = true;
        assert_eq!(sense(&unit, &command(0x0a, true)).expect("a page")[3], 0x90);
    }
}
