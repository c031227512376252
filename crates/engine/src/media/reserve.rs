//! The reserve: how many blocks an aggregate keeps back.

use everglade_env::BLOCK_SIZE;

/// Blocks kept back for consistency points and releases (docs/reference/conventions.md#defaults,
/// docs/design/design.md §8): the larger of 64 MiB and 1 % (at most 64 GiB), as whole areas, but no
/// more than a quarter of a small pool.
pub(crate) fn reserve_for(blocks: u64, area_blocks: u64) -> u64 {
    let share = (blocks / 100).min((64 << 30) / BLOCK_SIZE as u64);
    let wanted = share
        .max((64 << 20) / BLOCK_SIZE as u64)
        .div_ceil(area_blocks)
        * area_blocks;
    wanted.min(blocks / 4 / area_blocks * area_blocks)
}
