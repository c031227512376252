//! Notes: a text that administrators' programs keep in the aggregate, such as the policies of its
//! volumes. The format defines the text's place; the programs define its meaning and its version.
//!
//! A block starts with a [`crate::indirect::Header`].
//!
//! | offset | bytes | field |
//! | --- | --- | --- |
//! | 16 | 4 | bytes of the text in this block, at most 4,072 |
//! | 24 | 4,072 | the text |
//!
//! The first block that is not full ends it; those after it say 0.

use crate::bytes::{put, u32_at};
use crate::{BLOCK_SIZE, Block, Damage};

const TEXT_OFFSET: usize = 24;
/// Bytes of the text in a block.
pub const NOTES_PER_BLOCK: usize = BLOCK_SIZE - TEXT_OFFSET;
/// Blocks of the longest text: a tree of one level, so that there is one indirect block to lose.
pub const NOTES_BLOCKS_MAX: u64 = crate::SPAN;
/// Bytes of the longest text.
pub const NOTES_BYTES_MAX: usize = NOTES_PER_BLOCK * 255;
const _: () = assert!(NOTES_BLOCKS_MAX == 255, "the last block ends the text");

/// Writes a part of the text into a block that has nothing but room for its header.
pub fn encode_into(block: &mut Block, text: &[u8]) {
    assert!(text.len() <= NOTES_PER_BLOCK, "too much for a block");
    let count = u32::try_from(text.len()).expect("less than a block");
    put(block, 16, count.to_le_bytes());
    block[TEXT_OFFSET..][..text.len()].copy_from_slice(text);
    block[TEXT_OFFSET + text.len()..].fill(0);
}

/// The part of the text in a block.
///
/// # Errors
/// More than fits.
pub fn decode(block: &Block) -> Result<&[u8], Damage> {
    let count = u32_at(block, 16) as usize;
    if count > NOTES_PER_BLOCK {
        let expected = format!("at most {NOTES_PER_BLOCK}");
        return Err(Damage::new("bytes of notes", expected, count));
    }
    Ok(&block[TEXT_OFFSET..][..count])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_survives_the_round_trip_and_no_count_is_believed() {
        let mut block = [7; BLOCK_SIZE];
        for length in [0, 1, NOTES_PER_BLOCK] {
            let text = vec![b'x'; length];
            encode_into(&mut block, &text);
            assert_eq!(decode(&block), Ok(&text[..]));
        }
        put(&mut block, 16, 4073u32.to_le_bytes());
        assert!(decode(&block).is_err(), "more than there is");
    }
}
