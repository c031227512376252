//! Segment files of directory devices that are absent, empty or too short when an aggregate is
//! opened: each is a line of the log and an event, and `status` warns until the daemon ends.
//!
//! The aggregate serves. Reads of what was in such a file are errors, and everything else is as it
//! was. The daemon may write new blocks there. So the operator who finds the file elsewhere must
//! stop the daemon first, and put it back as a whole.

use everglade_api::{Code, Condition, Health, Size};
use everglade_engine::Engine;
use everglade_env::{DeviceId, SegmentFault, World};

use super::administrator::Administrator;

/// Files of an aggregate that are named; the others are counted.
const NAMED_MAX: usize = 64;

/// Segment files of one aggregate that are not as they were left; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostSegments {
    /// Name of the aggregate.
    pub aggregate: String,
    faults: Vec<SegmentFault>,
}

/// Looks for such files in the devices of an aggregate that was just opened, before anything is
/// written to them, and says so in the log.
pub(super) fn find(world: &World, engine: &Engine, id: u32, name: &str) -> Option<LostSegments> {
    let written = engine.written(id);
    let mut devices: Vec<DeviceId> = written.iter().map(|(device, _)| *device).collect();
    devices.sort();
    devices.dedup();
    let faults_of = |device: DeviceId| {
        let own = written.iter().filter(|(of, _)| *of == device);
        let own: Vec<_> = own.map(|(_, range)| range.clone()).collect();
        world.segment_faults(device, &own)
    };
    let lost = LostSegments {
        aggregate: name.to_owned(),
        faults: devices.into_iter().flat_map(faults_of).collect(),
    };
    for line in lost.lines() {
        tracing::warn!("aggregate {name}: {line}");
    }
    (!lost.faults.is_empty()).then_some(lost)
}

impl LostSegments {
    /// Returns one line for each file, up to a bound, without the aggregate.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let named = self.faults.iter().take(NAMED_MAX);
        let mut lines: Vec<String> = named.map(line).collect();
        let others = self.faults.len() - lines.len();
        if others > 0 {
            lines.push(format!(
                "{others} more segment files are missing or too short"
            ));
        }
        lines
    }

    fn condition(&self) -> Condition {
        let code = Code::SegmentLost;
        let first = self.faults.first().map_or_else(String::new, line);
        Condition {
            code: code.to_string(),
            health: Health::Warning,
            object: format!("aggregate {}", self.aggregate),
            what: match self.faults.len() {
                1 => first,
                count => {
                    format!("{count} segment files are missing or too short; the first: {first}")
                }
            },
            action: "stop the daemon and put the file back as it was; if it is gone, restore what \
                was in it from a copy: 'everglade check' lists the damaged blocks"
                .to_owned(),
            page: code.page(),
        }
    }
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
        let conditions = lost.iter().map(LostSegments::condition);
        self.found_at_start.extend(conditions);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(found: &[Option<u64>]) -> LostSegments {
        let fault = |found_bytes: &Option<u64>| SegmentFault {
            path: "/d/00000001.seg".into(),
            found_bytes: *found_bytes,
            expected_bytes: 1 << 30,
        };
        LostSegments {
            aggregate: "a".to_owned(),
            faults: found.iter().map(fault).collect(),
        }
    }

    #[test]
    fn each_file_has_a_line_and_an_aggregate_has_one_condition() {
        let found = lost(&[None, Some(0), Some(4096)]);
        let expected = [
            "/d/00000001.seg is missing; expected a segment file of 1.0 GiB",
            "/d/00000001.seg is empty; expected a segment file of 1.0 GiB",
            "/d/00000001.seg has 4096 bytes; expected a segment file of 1.0 GiB, which is \
            1073741824 bytes",
        ];
        assert_eq!(found.lines(), expected);
        let condition = found.condition();
        assert_eq!(condition.code, "EVG-4015");
        assert!(
            condition.what.starts_with("3 segment files"),
            "{condition:?}"
        );
        let one = lost(&[None]).condition();
        assert!(
            one.what.starts_with("/d/00000001.seg is missing"),
            "{one:?}"
        );
        let many = lost(&[None; 100]).lines();
        assert_eq!(many.len(), NAMED_MAX + 1);
        assert_eq!(
            many[NAMED_MAX],
            "36 more segment files are missing or too short"
        );
    }
}
