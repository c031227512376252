//! The ranges in which a LUN differs from an image of it, which the engine finds for
//! administrators, one part after the other.
//!
//! An administrator's thread asks a reactor for one part after the other; each is one operation of
//! the engine, which opens both images and closes them again. So nothing is held between parts, and
//! memory is in proportion to the ranges in one answer, whatever the LUN's size. Two snapshots
//! never change: so the parts of their comparison fit together exactly. The active image changes
//! meanwhile, so each part of a comparison with it is right for a moment of its own.

use std::collections::HashMap;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use everglade_api::{ChangedRange, Code, CompareSnapshot, Problem, SnapshotChanges};
use everglade_target::{
    Allocation, Completion, Error, Extent, LunHandle, Op, Reply, Target, Token,
};

use super::administrator::Administrator;
use super::control::{Answer, Control};

/// Ranges in one answer, if the question does not say fewer.
pub(crate) const RANGES_MAX: usize = 10_000;
/// Extents in one part.
const PART_EXTENTS: u32 = 4096;
/// An answer ends after this time, wherever it is, so that nobody waits long for it.
const ANSWERED_WITHIN: Duration = Duration::from_secs(1);
/// Tokens of sessions have zeroes in the highest four bits.
const TOKENS_FROM: Token = 1 << 60;

/// A part of a comparison.
pub(super) struct Comparison {
    /// The newer image: `volume/lun` or `volume/lun@snapshot`.
    pub(super) lun: String,
    /// The older one: a snapshot of the same volume.
    pub(super) since: String,
    /// First byte.
    pub(super) offset: u64,
    /// Bytes, cut at the end of the newer image.
    pub(super) length: u64,
}

/// An answer.
pub(super) struct Compared {
    /// Of the newer image.
    pub(super) size_bytes: u64,
    /// From the offset on; none if that is at the end or beyond.
    pub(super) extents: Vec<Extent>,
}

/// Those that a reactor has under way.
#[derive(Default)]
pub(super) struct Comparisons {
    asked: HashMap<Token, Asked>,
    next: u64,
}

struct Asked {
    lun: LunHandle,
    since: LunHandle,
    size_bytes: u64,
    reply: Sender<Answer>,
}

impl Comparisons {
    /// True for completions of operations that were begun here.
    pub(super) fn is_ours(completion: &Completion) -> bool {
        completion.token >= TOKENS_FROM
    }

    pub(super) fn begin(
        &mut self,
        asked: &Comparison,
        reply: Sender<Answer>,
        target: &mut impl Target,
    ) {
        if let Err(error) = self.try_begin(asked, &reply, target) {
            // Whoever asked may have gone.
            drop(reply.send(Answer::Compared(Err(error))));
        }
    }

    fn try_begin(
        &mut self,
        asked: &Comparison,
        reply: &Sender<Answer>,
        target: &mut impl Target,
    ) -> Result<(), Error> {
        let (lun, export) = target.open(&asked.lun)?;
        // An image is not among the others that it can be compared with, and nothing of it differs
        // from itself.
        let is_same = asked.lun.split_once('@').map(|(_, image)| image) == Some(&*asked.since);
        if is_same {
            target.close(lun);
            drop(reply.send(Answer::Compared(Ok(Compared {
                size_bytes: export.size_bytes,
                extents: same(asked, export.size_bytes),
            }))));
            return Ok(());
        }
        let mut images = target.images(&asked.lun).into_iter();
        let since = images
            .find(|image| image.label == asked.since)
            .ok_or(Error::NotFound(asked.since.clone()))
            .and_then(|image| target.open(&image.export));
        let since = match since {
            Ok((since, _)) => since,
            Err(error) => {
                target.close(lun);
                return Err(error);
            }
        };
        let size_bytes = export.size_bytes;
        let length = asked.length.min(size_bytes.saturating_sub(asked.offset));
        if length == 0 {
            target.close(lun);
            target.close(since);
            let extents = Vec::new();
            drop(reply.send(Answer::Compared(Ok(Compared {
                size_bytes,
                extents,
            }))));
            return Ok(());
        }
        self.next += 1;
        let token = TOKENS_FROM + self.next;
        let under_way = Asked {
            lun,
            since,
            size_bytes,
            reply: reply.clone(),
        };
        self.asked.insert(token, under_way);
        let op = Op::Changes {
            offset: asked.offset,
            length,
            count_max: PART_EXTENTS,
            since,
        };
        target.submit(lun, op, token);
        Ok(())
    }

    pub(super) fn complete(&mut self, completion: Completion, target: &mut impl Target) {
        let asked = self.asked.remove(&completion.token);
        let asked = asked.expect("an operation that was begun here");
        target.close(asked.lun);
        target.close(asked.since);
        let size_bytes = asked.size_bytes;
        let compared = completion.result.map(|reply| match reply {
            Reply::Extents(extents) => Compared {
                size_bytes,
                extents,
            },
            other => panic!("a comparison returns extents, not {other:?}"),
        });
        // Whoever asked may have gone.
        drop(asked.reply.send(Answer::Compared(compared)));
    }
}

/// One extent without a difference, from the offset to the end of the question or of the image.
fn same(asked: &Comparison, size_bytes: u64) -> Vec<Extent> {
    let rest = size_bytes.saturating_sub(asked.offset);
    let length = asked.length.min(rest);
    let extent = Extent {
        length,
        allocation: Allocation::Hole,
    };
    (length > 0).then_some(extent).into_iter().collect()
}

impl Administrator {
    /// What of a LUN differs from what it was in a snapshot; as much as fits into an answer.
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

/// Why the engine refused it.
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

/// Ranges that differ, as far as was looked.
struct Ranges {
    ranges: Vec<ChangedRange>,
    most: usize,
    /// All before is known.
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

    /// False if there was no room.
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

    #[test]
    fn a_reactor_closes_what_it_compared() {
        let mut model = everglade_target::model::Model::with_lun("v/l", 1 << 20);
        model.keep_image("v/l", "s");
        let mut comparisons = Comparisons::default();
        let ask = |lun: &str, since: &str, offset| Comparison {
            lun: lun.to_owned(),
            since: since.to_owned(),
            offset,
            length: u64::MAX,
        };
        let (reply, answer) = std::sync::mpsc::channel();
        for (asked, expected) in [
            (ask("v/l", "s", 0), Ok(1)),
            (ask("v/l", "s", 1 << 20), Ok(0)),
            (ask("v/l@s", "s", 0), Ok(1)),
            (ask("v/l@s", "s", 1 << 20), Ok(0)),
            (ask("v/l", "t", 0), Err(Error::NotFound("t".to_owned()))),
            (ask("v/m", "s", 0), Err(Error::NotFound("v/m".to_owned()))),
        ] {
            comparisons.begin(&asked, reply.clone(), &mut model);
            let mut done = Vec::new();
            model.poll(&mut done);
            for completion in done {
                assert!(Comparisons::is_ours(&completion));
                comparisons.complete(completion, &mut model);
            }
            let found = answer.try_recv().expect("an answer").compared();
            assert_eq!(found.map(|found| found.extents.len()), expected);
        }
        assert_eq!(model.open_handles(), 0);
    }
}
