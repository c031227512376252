//! Units and words: the engine counts blocks, administrators read bytes.

use everglade_api::Moment;
use everglade_env::BLOCK_SIZE;

/// Returns the bytes of this number of blocks.
pub(super) fn bytes(blocks: u64) -> u64 {
    blocks.saturating_mul(BLOCK_SIZE as u64)
}

/// Says where a deleted object is, after its name or size.
pub(super) fn in_trash(until: Option<Moment>) -> String {
    until.map_or_else(String::new, |until| format!(", in the trash until {until}"))
}
