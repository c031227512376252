//! Blocks that could not be read (docs/design/design.md §5), counted and listed for administrators.
//!
//! A block that cannot be read is an error for the operations that need it, and for no others.
//! Damaged data stays where it is until it is overwritten. A damaged block that a consistency point
//! needs (pointers above a change, or the rest of a block that was written in part) becomes *lost*:
//! its pointer in the tree is marked, and the consistency point continues.
//!
//! A line names the object and, for a LUN, the bytes of the LUN: that is what an administrator can
//! restore from a copy. The number of the block in the aggregate is a part of the reason only.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

use everglade_env::lock::Mutex;

use crate::read::load::WAS_LOST;

/// Lines kept for administrators; counts have no bound.
const LINES_MAX: usize = 256;

#[derive(Default)]
struct State {
    info: LostInfo,
    /// Reasons that were noted, or whole lines where the reason names no block.
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
    /// Damaged parts of objects, oldest first; the first 256.
    pub lines: Vec<DamageLine>,
}

/// A damaged part of an object, for administrators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamageLine {
    /// The object: `volume/lun`, `volume/lun@snapshot`, or another part of the aggregate in words.
    pub object: String,
    /// The damaged bytes of the object, if they are known, and the reason.
    pub text: String,
}

impl fmt::Display for DamageLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.object, self.text)
    }
}

impl LostBlocks {
    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.0.lock())
    }

    /// Lost blocks that a mounted volume knows of.
    pub(crate) fn found(&self, count: u64) {
        self.with(|state| state.info.lost = state.info.lost.saturating_add(count));
    }

    /// Bytes of a LUN became lost with a block.
    pub(crate) fn lost(&self, lun: String, bytes: &Range<u64>, reason: &str) {
        let Range { start, end } = bytes;
        let text = format!(
            "bytes {start} up to {end} are lost, except where they were overwritten: {reason}"
        );
        self.with(|state| {
            state.info.lost = state.info.lost.saturating_add(1);
            push_bounded(&mut state.info.lines, DamageLine { object: lun, text });
        });
    }

    /// Records that a part of the aggregate cannot be read; once for each reason, which names the
    /// block.
    pub(crate) fn unreadable(&self, object: &str, reason: &str) {
        self.note_unreadable(object, reason, || reason.to_owned());
    }

    /// Records that a client's read of these bytes of a LUN failed; once for each reason.
    pub(crate) fn unreadable_bytes(&self, lun: &str, bytes: &Range<u64>, reason: &str) {
        let Range { start, end } = bytes;
        let text = || format!("bytes {start} up to {end} cannot be read: {reason}");
        self.note_unreadable(lun, reason, text);
    }

    fn note_unreadable(&self, object: &str, reason: &str, text: impl FnOnce() -> String) {
        self.with(|state| {
            // Beyond the bound a block may be counted twice.
            let is_full = state.seen.len() >= LINES_MAX * 64;
            if !is_full && reason != WAS_LOST && !state.seen.insert(reason.to_owned()) {
                return;
            }
            let (object, text) = (object.to_owned(), text());
            let line = DamageLine { object, text };
            if !is_full && reason == WAS_LOST && !state.seen.insert(line.to_string()) {
                return;
            }
            state.info.unreadable += 1;
            push_bounded(&mut state.info.lines, line);
        });
    }

    pub(crate) fn info(&self) -> LostInfo {
        self.with(|state| state.info.clone())
    }
}

fn push_bounded(lines: &mut Vec<DamageLine>, line: DamageLine) {
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
            info.lines[0].to_string(),
            "vol0/a: pvbn 7 is not what was written there"
        );
    }

    #[test]
    fn a_line_names_the_bytes_of_the_lun() {
        let lost = LostBlocks::default();
        lost.unreadable_bytes("vol0/a", &(8192..12288), "block 7 is damaged");
        lost.unreadable_bytes("vol0/a", &(8192..12288), "block 7 is damaged");
        lost.lost("vol0/b".to_owned(), &(0..4096), "block 9 is damaged");
        for start in [0, 4096, 0] {
            lost.unreadable_bytes("vol0/b", &(start..start + 4096), WAS_LOST);
        }
        let lines: Vec<String> = lost.info().lines.iter().map(ToString::to_string).collect();
        let expected = [
            "vol0/a: bytes 8192 up to 12288 cannot be read: block 7 is damaged",
            "vol0/b: bytes 0 up to 4096 are lost, except where they were overwritten: block 9 is \
            damaged",
            "vol0/b: bytes 0 up to 4096 cannot be read: it was lost with a block that could not be \
            read",
            "vol0/b: bytes 4096 up to 8192 cannot be read: it was lost with a block that could not \
            be read",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn lines_have_a_bound_and_counts_have_none() {
        let lost = LostBlocks::default();
        lost.found(10);
        for block in 0..LINES_MAX + 50 {
            lost.lost(format!("vol0/{block}"), &(0..4096), "damaged");
        }
        let info = lost.info();
        assert_eq!(info.lost, 10 + LINES_MAX as u64 + 50);
        assert_eq!(info.lines.len(), LINES_MAX);
        assert_eq!(
            info.lines.last().map(|line| line.object.as_str()),
            Some("vol0/255")
        );
    }
}
