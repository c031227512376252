//! Log pages (SPC-4 §7.3): which there are, and that nothing is wrong.

use super::Sense;

const SUPPORTED: u8 = 0x00;
const EXCEPTIONS: u8 = 0x2f;

/// Answers LOG SENSE.
///
/// # Errors
/// There is no such page.
pub fn sense(page: u8, subpage: u8) -> Result<Vec<u8>, Sense> {
    let body: &[u8] = match (page, subpage) {
        (SUPPORTED, 0) => &[SUPPORTED, EXCEPTIONS],
        // With subpages: pairs.
        (SUPPORTED, 0xff) => &[SUPPORTED, 0, SUPPORTED, 0xff, EXCEPTIONS, 0],
        // One parameter, a list in binary format: no exception, no temperature.
        (EXCEPTIONS, 0) => &[0, 0, 3, 4, 0, 0, 0xff, 0],
        (SUPPORTED | EXCEPTIONS, _) => return Err(Sense::in_command(3)),
        _ => return Err(Sense::in_command(2)),
    };
    let length = u16::try_from(body.len()).expect("short").to_be_bytes();
    // Bit 6: the page has a subpage's format.
    let format = if subpage == 0 { 0 } else { 0x40 };
    let header = [page | format, subpage, length[0], length[1]];
    Ok([&header, body].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_page_is_there() {
        let list = sense(0, 0).expect("the list");
        for page in &list[4..] {
            let answer = sense(*page, 0).expect("a page");
            assert_eq!(
                (answer[0], usize::from(answer[3])),
                (*page, answer.len() - 4)
            );
        }
        assert_eq!(sense(0x0d, 0), Err(Sense::in_command(2)));
        assert_eq!(sense(0, 1), Err(Sense::in_command(3)));
    }
}
