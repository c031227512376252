//! Segment files of directory devices that are absent, empty or too short when an aggregate is
//! opened: `status` warns of them, which is also a line of the log and an event, at each start
//! until they are back.
//!
//! The aggregate serves. Reads of what was in such a file are errors, and everything else is as it
//! was. The daemon neither makes nor changes such a file, and writes nothing where it should be. An
//! operator who finds the file can put it back at any time. One who knows that it is gone makes it
//! anew.

use std::fmt::Write as _;

use everglade_api::{Code, Condition, Health, Size};
use everglade_engine::Engine;
use everglade_env::SegmentFault;

use super::administrator::Administrator;

/// Files of an aggregate that are named; the others are counted.
const NAMED_MAX: usize = 3;

/// Segment files of one aggregate that are not as they were left; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LostSegments {
    /// Number of the aggregate in the engine.
    aggregate: u32,
    faults: Vec<SegmentFault>,
    /// Whether other drives have all that was in them.
    are_spared: bool,
}

/// Returns those of an aggregate that was just opened.
pub(super) fn find(engine: &Engine, id: u32) -> Option<LostSegments> {
    let found = [
        (engine.lost_segments(id), false),
        (engine.spared_segments(id), true),
    ];
    let lost = found.map(|(faults, are_spared)| LostSegments {
        aggregate: id,
        faults,
        are_spared,
    });
    lost.into_iter().find(|lost| !lost.faults.is_empty())
}

impl LostSegments {
    fn condition(&self) -> Condition {
        let code = Code::SegmentLost;
        let all: Vec<&SegmentFault> = self.faults.iter().collect();
        let what = listed(&all, line);
        let is_cut = |fault: &&SegmentFault| fault.found_bytes.is_some_and(|bytes| bytes > 0);
        let cut: Vec<&SegmentFault> = self.faults.iter().filter(is_cut).collect();
        let action = match (self.are_spared, !cut.is_empty()) {
            (true, false) => "the drive is left out, and others have all that it had; start the \
                daemon again, and it catches up from them"
                .to_owned(),
            (true, true) => format!(
                "the drive is left out, and others have all that it had; stop the daemon, run {}, \
                and start again: the drive catches up from them",
                listed(&cut, SegmentFault::making)
            ),
            (false, _) => format!(
                "stop the daemon, put the file back as it was, and start again; if it is lost for \
                good, run this while no daemon runs: {}; 'everglade check' lists the blocks that \
                were in it",
                listed(&all, SegmentFault::making)
            ),
        };
        Condition {
            code: code.to_string(),
            health: Health::Warning,
            object: String::new(),
            what: match self.faults.len() {
                1 => what,
                count => format!("{count} segment files are lost: {what}"),
            },
            action,
            page: code.page(),
        }
    }
}

/// Lists the first files in words, and counts the others.
fn listed(faults: &[&SegmentFault], words: impl Fn(&SegmentFault) -> String) -> String {
    let named = faults.iter().take(NAMED_MAX);
    let mut text = named
        .map(|fault| words(fault))
        .collect::<Vec<_>>()
        .join("; ");
    let others = faults.len().saturating_sub(NAMED_MAX);
    if others > 0 {
        let _ = write!(text, "; and {others} more");
    }
    text
}

fn line(fault: &SegmentFault) -> String {
    let path = fault.path.display();
    let expected = Size(fault.expected_bytes);
    match fault.found_bytes {
        None => format!("{path} is missing; expected a segment file of {expected}"),
        Some(0) => format!("{path} is empty; expected a segment file of {expected}"),
        Some(found) => format!(
            "{path} has {found} bytes; expected a segment file of {expected}, which is {} bytes",
            fault.expected_bytes
        ),
    }
}

impl Administrator {
    /// Notes the files that are not as they were left, for `status`.
    pub(crate) fn note_lost_segments(&mut self, lost: &[LostSegments]) {
        let conditions = lost.iter().map(|it| (it.aggregate, it.condition()));
        self.found_at_start.extend(conditions);
    }
}

#[cfg(test)]
mod tests {
    use everglade_env::DeviceId;

    use super::*;

    fn condition(found: &[Option<u64>]) -> Condition {
        condition_of(found, false)
    }

    fn condition_of(found: &[Option<u64>], are_spared: bool) -> Condition {
        let fault = |(index, found_bytes): (usize, &Option<u64>)| SegmentFault {
            device: DeviceId(0),
            path: format!("/d/{index:08}.seg").into(),
            found_bytes: *found_bytes,
            expected_bytes: 1 << 30,
            range: 0..1 << 30,
        };
        let lost = LostSegments {
            aggregate: 0,
            faults: found.iter().enumerate().map(fault).collect(),
            are_spared,
        };
        lost.condition()
    }

    #[test]
    fn of_a_drive_that_others_replace_only_files_that_are_cut_off_need_a_hand() {
        let absent = condition_of(&[None, Some(0)], true).action;
        assert!(absent.ends_with("start the daemon again, and it catches up from them"));
        let cut = condition_of(&[None, Some(4096)], true).action;
        let making = "run truncate -s 1073741824 '/d/00000001.seg', and start again";
        assert!(cut.contains(making), "{cut}");
    }

    #[test]
    fn an_aggregate_has_one_condition_that_names_files_and_remedies() {
        let one = condition(&[None]);
        assert_eq!(one.code, "EVG-4015");
        let missing = "/d/00000000.seg is missing; expected a segment file of 1.0 GiB";
        assert_eq!(one.what, missing);
        let making = ": truncate -s 1073741824 '/d/00000000.seg'; 'everglade check'";
        assert!(one.action.contains(making), "{}", one.action);
        let three = condition(&[None, Some(0), Some(4096)]);
        let expected = format!(
            "3 segment files are lost: {missing}; /d/00000001.seg is empty; expected a segment \
            file of 1.0 GiB; /d/00000002.seg has 4096 bytes; expected a segment file of 1.0 GiB, \
            which is 1073741824 bytes"
        );
        assert_eq!(three.what, expected);
        let many = condition(&[None; 100]);
        assert!(many.what.ends_with("; and 97 more"), "{}", many.what);
        assert!(many.action.contains("; and 97 more; "), "{}", many.action);
    }
}
