//! The differences between a LUN and its image in a snapshot, for administrators.
//!
//! The reactors compare a part at a time (`plane::comparison`); here the parts become ranges of one
//! answer, which is bounded in ranges and in time.

use std::time::{Duration, Instant};

use everglade_api::{ChangedRange, Code, CompareSnapshot, Problem, SnapshotChanges};
use everglade_target::{Allocation, Error, Extent};

use super::administrator::Administrator;
use crate::plane::control::{Compared, Comparison, Control};

/// Ranges in one answer, if the question does not say fewer.
const RANGES_MAX: usize = 10_000;
/// Time limit of an answer, so that no caller waits long. The answer is cut off there.
const ANSWERED_WITHIN: Duration = Duration::from_secs(1);

impl Administrator {
    /// Returns the ranges in which a LUN differs from a snapshot, as many as fit into an answer.
    ///
    /// # Errors
    /// There is no such volume, snapshot or LUN, or its blocks cannot be read.
    pub fn compare_snapshot(
        &self,
        volume: &str,
        name: &str,
        question: &CompareSnapshot,
    ) -> Result<SnapshotChanges, Problem> {
        self.snapshot(volume, name)?;
        let lun = match &question.until {
            None => format!("{volume}/{}", question.lun),
            Some(until) => {
                self.snapshot(volume, until.as_str())?;
                format!("{volume}/{}@{until}", question.lun)
            }
        };
        let end = question
            .length
            .map(|length| question.offset.saturating_add(length));
        let most = question.max_records.unwrap_or(RANGES_MAX).min(RANGES_MAX);
        let mut found = Ranges::new(question.offset, most);
        let began = Instant::now();
        let (lun_bytes, end) = loop {
            let part = Comparison {
                lun: lun.clone(),
                since: name.to_owned(),
                offset: found.at,
                length: end.unwrap_or(u64::MAX).saturating_sub(found.at),
            };
            let answer = self.plane.ask(0, Control::Compare(part));
            let stopping = || Problem::new(Code::Unavailable, "the daemon is stopping");
            let compared = answer.ok_or_else(stopping)?.compared();
            let Compared {
                size_bytes,
                extents,
            } = compared.map_err(|error| refused(error, &lun, &format!("{volume}@{name}")))?;
            let end = end.unwrap_or(u64::MAX).min(size_bytes);
            let is_full = !extents.iter().all(|extent| found.push(extent));
            if is_full || found.at >= end || began.elapsed() > ANSWERED_WITHIN {
                break (size_bytes, end);
            }
        };
        Ok(SnapshotChanges {
            volume: volume.to_owned(),
            snapshot: name.to_owned(),
            until: question.until.as_ref().map(ToString::to_string),
            lun: question.lun.to_string(),
            lun_bytes,
            offset: question.offset,
            compared_bytes: found.at - question.offset,
            changed_bytes: found.ranges.iter().map(|range| range.length).sum(),
            next_offset: (found.at < end).then_some(found.at),
            changes: found.ranges,
        })
    }
}

/// Translates the engine's refusal.
fn refused(error: Error, lun: &str, since: &str) -> Problem {
    match error {
        Error::NotFound(name) if name == lun => Problem::not_found("LUN", lun),
        Error::NotFound(_) => {
            let text = format!("LUN {lun} is not in snapshot {since}: all of it is newer");
            Problem::new(Code::NotFound, text)
        }
        Error::Gone => Problem::not_found("LUN", lun),
        other => Problem::new(Code::Unavailable, other.to_string()),
    }
}

/// Ranges that differ, up to the offset compared.
struct Ranges {
    ranges: Vec<ChangedRange>,
    most: usize,
    /// Offset in bytes before which everything is compared.
    at: u64,
}

impl Ranges {
    fn new(offset: u64, most: usize) -> Ranges {
        Ranges {
            ranges: Vec::new(),
            most,
            at: offset,
        }
    }

    /// Adds an extent. Returns false if there is no room.
    fn push(&mut self, extent: &Extent) -> bool {
        if extent.allocation == Allocation::Data {
            let (at, is_full) = (self.at, self.ranges.len() == self.most);
            match self.ranges.last_mut() {
                Some(last) if last.offset + last.length == at => last.length += extent.length,
                _ if is_full => return false,
                _ => self.ranges.push(ChangedRange {
                    offset: at,
                    length: extent.length,
                }),
            }
        }
        self.at += extent.length;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_touch_are_one_and_the_bound_ends_before_the_next() {
        let extent = |length, allocation| Extent { length, allocation };
        let mut found = Ranges::new(100, 2);
        assert!(found.push(&extent(10, Allocation::Data)));
        assert!(found.push(&extent(10, Allocation::Data)));
        assert!(found.push(&extent(10, Allocation::Hole)));
        assert!(found.push(&extent(10, Allocation::Data)));
        assert!(found.push(&extent(10, Allocation::Hole)));
        assert!(!found.push(&extent(10, Allocation::Data)));
        assert_eq!(found.at, 150);
        let lengths: Vec<_> = found.ranges.iter().map(|r| (r.offset, r.length)).collect();
        assert_eq!(lengths, [(100, 20), (130, 10)]);
    }
}
