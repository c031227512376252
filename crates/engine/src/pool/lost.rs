//! Blocks that could not be read (docs/design/design.md §5), counted and listed for administrators.
//!
//! A block that cannot be read is an error for the operations that need it, and for no others.
//! Damaged data stays where it is until it is overwritten. A damaged block that a consistency point
//! needs (pointers above a change, or the rest of a block that was written in part) becomes *lost*:
//! its pointer in the tree is marked, and the consistency point continues.

use everglade_env::lock::Mutex;
use std::collections::BTreeSet;

/// Lines kept for administrators; counts have no bound.
const LINES_MAX: usize = 256;

#[derive(Default)]
struct State {
    info: LostInfo,
    /// Reasons that were noted.
    seen: BTreeSet<String>,
}

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct LostBlocks(Mutex<State>);

/// Unreadable blocks, for administrators.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LostInfo {
    /// Blocks of LUNs' trees that became lost since the volumes were created.
    pub lost: u64,
    /// Blocks found to be damaged or unreadable by any reader since the aggregate was opened.
    pub unreadable: u64,
    /// The block and its file in each line, oldest first; the first 256.
    pub lines: Vec<String>,
}

impl LostBlocks {
    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.0.lock())
    }

    /// Lost blocks that a mounted volume knows of.
    pub(crate) fn found(&self, count: u64) {
        self.with(|state| state.info.lost = state.info.lost.saturating_add(count));
    }

    /// A block became lost.
    pub(crate) fn lost(&self, line: String) {
        self.with(|state| {
            state.info.lost = state.info.lost.saturating_add(1);
            push_bounded(&mut state.info.lines, line);
        });
    }

    /// Records that a client's read of a block failed; once for each reason, which names the block.
    pub(crate) fn unreadable(&self, lun: &str, reason: &str) {
        self.with(|state| {
            // Beyond the bound a block may be counted twice.
            let is_new = state.seen.len() >= LINES_MAX * 64 || state.seen.insert(reason.to_owned());
            if is_new {
                state.info.unreadable += 1;
                push_bounded(&mut state.info.lines, format!("{lun}: {reason}"));
            }
        });
    }

    pub(crate) fn info(&self) -> LostInfo {
        self.with(|state| state.info.clone())
    }
}

fn push_bounded(lines: &mut Vec<String>, line: String) {
    if lines.len() < LINES_MAX {
        lines.push(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unreadable_block_is_counted_once_for_each_reason() {
        let lost = LostBlocks::default();
        for _ in 0..3 {
            lost.unreadable("vol0/a", "pvbn 7 is not what was written there");
        }
        lost.unreadable("vol0/a", "pvbn 8 is not what was written there");
        let info = lost.info();
        assert_eq!((info.lost, info.unreadable, info.lines.len()), (0, 2, 2));
        assert_eq!(
            info.lines[0],
            "vol0/a: pvbn 7 is not what was written there"
        );
    }

    #[test]
    fn lines_have_a_bound_and_counts_have_none() {
        let lost = LostBlocks::default();
        lost.found(10);
        for block in 0..LINES_MAX + 50 {
            lost.lost(format!("block {block}"));
        }
        let info = lost.info();
        assert_eq!(info.lost, 10 + LINES_MAX as u64 + 50);
        assert_eq!(info.lines.len(), LINES_MAX);
        assert_eq!(info.lines.last().map(String::as_str), Some("block 255"));
    }
}
