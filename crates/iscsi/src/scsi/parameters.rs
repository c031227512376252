//! Lists of parameters that initiators send (SBC-3 §5.28).

use super::{Range, Sense, UNMAP_RANGES_MAX};

/// Bytes of a range of UNMAP.
const RANGE_BYTES: usize = 16;

/// Reads the ranges of UNMAP. `blocks` is the size of the unit.
///
/// # Errors
/// The list is damaged or too long, or a range ends beyond the unit.
pub fn unmap(parameters: &[u8], blocks: u64) -> Result<Vec<Range>, Sense> {
    if parameters.is_empty() {
        return Ok(Vec::new());
    }
    let (header, ranges) = parameters
        .split_first_chunk::<8>()
        .ok_or(Sense::PARAMETER_LENGTH)?;
    let told = usize::from(u16::from_be_bytes([header[2], header[3]]));
    // A list that is cut off is used as far as it goes (SBC-3 §5.28.2).
    let ranges = &ranges[..told.min(ranges.len())];
    let ranges = ranges.chunks_exact(RANGE_BYTES);
    if ranges.len() > UNMAP_RANGES_MAX {
        return Err(Sense::in_parameters(2));
    }
    let ranges = ranges.map(|bytes| Range {
        lba: u64::from_be_bytes(bytes[..8].try_into().expect("eight bytes")),
        blocks: u64::from(u32::from_be_bytes(bytes[8..12].try_into().expect("four"))),
    });
    let ranges: Vec<Range> = ranges.collect();
    let is_inside = |range: &Range| {
        let end = range.lba.checked_add(range.blocks);
        end.is_some_and(|end| end <= blocks)
    };
    match ranges.iter().all(is_inside) {
        true => Ok(ranges),
        false => Err(Sense::OUT_OF_RANGE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(ranges: &[(u64, u32)]) -> Vec<u8> {
        let length = u16::try_from(ranges.len() * RANGE_BYTES).expect("short");
        let mut bytes = (length + 6).to_be_bytes().to_vec();
        bytes.extend(length.to_be_bytes());
        bytes.extend([0; 4]);
        for (lba, blocks) in ranges {
            bytes.extend(lba.to_be_bytes());
            bytes.extend(blocks.to_be_bytes());
            bytes.extend([0; 4]);
        }
        bytes
    }

    #[test]
    fn ranges_are_read_and_checked() {
        let ranges = unmap(&list(&[(0, 8), (92, 8), (100, 0)]), 100).expect("inside");
        let (lba, blocks) = (92, 8);
        assert_eq!((ranges.len(), ranges[1]), (3, Range { lba, blocks }));
        for outside in [(93, 8), (101, 0), (u64::MAX, 1)] {
            assert_eq!(unmap(&list(&[outside]), 100), Err(Sense::OUT_OF_RANGE));
        }
        let many = vec![(0, 1); UNMAP_RANGES_MAX + 1];
        assert_eq!(unmap(&list(&many), 100), Err(Sense::in_parameters(2)));
        assert_eq!(unmap(&[0; 7], 100), Err(Sense::PARAMETER_LENGTH));
        let cut = &list(&[(0, 8), (8, 8)])[..39];
        assert_eq!(unmap(cut, 100).expect("one is whole").len(), 1);
    }
}
