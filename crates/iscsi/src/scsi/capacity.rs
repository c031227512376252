//! READ CAPACITY, REPORT LUNS and GET LBA STATUS (SBC-3 §5.16, §5.17, §5.12; SPC-4 §6.33).

use everglade_target::{Allocation, Extent};

use super::{BLOCK_BYTES, PHYSICAL_EXPONENT, Sense, Unit};

/// Answers READ CAPACITY (10): a larger unit says to ask the other way.
#[must_use]
pub fn short(unit: &Unit) -> Vec<u8> {
    let last = unit.blocks().saturating_sub(1);
    let last = u32::try_from(last).unwrap_or(u32::MAX);
    [last.to_be_bytes(), BLOCK_BYTES.to_be_bytes()].concat()
}

/// Answers READ CAPACITY (16).
#[must_use]
pub fn long(unit: &Unit) -> Vec<u8> {
    let mut answer = vec![0; 32];
    let last = unit.blocks().saturating_sub(1);
    answer[..8].copy_from_slice(&last.to_be_bytes());
    answer[8..12].copy_from_slice(&BLOCK_BYTES.to_be_bytes());
    answer[13] = PHYSICAL_EXPONENT;
    // Thin, and freed blocks read as zeroes.
    answer[14] = 0xc0;
    answer
}

/// Answers REPORT LUNS: number 0 is all there is.
///
/// # Errors
/// The selection is not known.
pub fn luns(select: u8) -> Result<Vec<u8>, Sense> {
    match select {
        0x00 | 0x02 => {
            let mut answer = vec![0; 16];
            answer[3] = 8;
            Ok(answer)
        }
        // Well-known units: there is none.
        0x01 => Ok(vec![0; 8]),
        _ => Err(Sense::in_command(2)),
    }
}

/// Answers GET LBA STATUS. `extents` begin at `lba`. Extents have whole blocks, because the storage
/// has.
#[must_use]
pub fn status(lba: u64, extents: &[Extent]) -> Vec<u8> {
    let mut answer = vec![0; 8];
    let mut lba = lba;
    for extent in extents {
        let mut blocks = extent.length / u64::from(BLOCK_BYTES);
        let state = match extent.allocation {
            Allocation::Data => 0,
            Allocation::Hole => 1,
        };
        while blocks > 0 {
            let now = u32::try_from(blocks).unwrap_or(u32::MAX);
            answer.extend(lba.to_be_bytes());
            answer.extend(now.to_be_bytes());
            answer.extend([state, 0, 0, 0]);
            lba += u64::from(now);
            blocks -= u64::from(now);
        }
    }
    let length = u32::try_from(answer.len() - 4).expect("extents are bounded");
    answer[..4].copy_from_slice(&length.to_be_bytes());
    answer
}

#[cfg(test)]
mod tests {
    use super::super::unit::example;
    use super::*;

    #[test]
    fn a_large_unit_is_told_by_the_long_answer_only() {
        let mut unit = example();
        assert_eq!(short(&unit), [0, 0x1f, 0xff, 0xff, 0, 0, 2, 0]);
        unit.size_bytes = 4 << 40;
        assert_eq!(short(&unit)[..4], [0xff; 4]);
        let answer = long(&unit);
        assert_eq!(
            answer[..16],
            [
                0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0, 0, 2, 0, 0, 3, 0xc0, 0
            ]
        );
    }

    #[test]
    fn long_extents_have_several_descriptors() {
        let extents = [
            Extent {
                length: 4096,
                allocation: Allocation::Data,
            },
            Extent {
                length: 3 << 40,
                allocation: Allocation::Hole,
            },
        ];
        let answer = status(8, &extents);
        assert_eq!(answer[..4], 52_u32.to_be_bytes());
        assert_eq!(
            answer[8..24],
            [0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 8, 0, 0, 0, 0]
        );
        assert_eq!(
            answer[24..37],
            [0, 0, 0, 0, 0, 0, 0, 16, 0xff, 0xff, 0xff, 0xff, 1]
        );
        assert_eq!(answer.len(), 56);
    }
}
