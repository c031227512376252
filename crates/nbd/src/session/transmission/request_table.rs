//! Requests under way, and the request of each completion.
//!
//! The low half of a token is the request's row (16 bits) and the number of the slice, or of the
//! context that a block status request asks about (16 bits). A row is reused only after all
//! operations of its request completed, and a slice number only after its operation completed, so a
//! token in flight is unique.
//!
//! A request of one operation is charged as a whole until its reply is sent. A longer request is
//! charged for each slice: a slice of a write until its operation is done, a slice of a read until
//! it is sent, is dropped, or has failed. A long read whose reply begins with its outcome (no
//! chunks, or one) is read to its end before its reply begins. The data is kept meanwhile if there
//! is memory for it; otherwise the reply owes the data, and the data is read a second time when it
//! is sent.

use everglade_env::Nanos;
use everglade_target::sessions::memory::{Class, Reservation, page_bytes};
use everglade_target::{Error, Extent, ReadSpan, Reply};
use slab::Slab;

use super::super::outgoing::{Data, Part, Parts};
use super::replies::Asker;
use super::verdict::Refusal;
use crate::wire::{Command, Errno};

/// Bits of a token that number the slice.
const SLICE_BITS: u32 = 16;

#[derive(Default)]
pub(super) struct RequestTable {
    rows: Slab<Row>,
    operations: usize,
}

/// A request as it was admitted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Admitted {
    pub(super) asker: Asker,
    pub(super) command: Command,
    pub(super) offset: u64,
    /// Bytes of its range.
    pub(super) length: u64,
    /// The charge for the whole request.
    pub(super) held: Reservation,
    /// When.
    pub(super) since: Nanos,
    pub(super) course: Course,
}

/// The way in which a request is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Course {
    /// As one operation, or one for each context.
    Whole,
    /// As one operation: a read that is answered in chunks.
    WholeInChunks,
    /// Slice by slice, and answered at the end.
    Sliced,
    /// As a read of which each slice is answered as soon as it is read.
    Streamed,
    /// As no request: data of a reply is read a second time.
    Refill,
}

struct Row {
    admitted: Admitted,
    /// Operations submitted so far.
    submitted: u32,
    /// Operations submitted and not completed.
    in_flight: u16,
    /// More operations will follow (a write whose payload is incomplete, a read that waits for
    /// memory).
    growing: bool,
    /// Apart, so that rows are short: most requests are one operation, and are over when it is.
    more: Option<Box<More>>,
}

/// The state of a request that does not end with its first operation.
#[derive(Default)]
struct More {
    /// The first error.
    error: Option<Refusal>,
    /// The result of a read of one operation.
    data: Option<ReadSpan>,
    /// Ranges of the slices in flight, of a request of several.
    slices: Slab<(u64, u32)>,
    /// The kept results of the slices of a read.
    kept: Vec<ReadSpan>,
    /// The result of a block status request, for each chosen context.
    extents: Vec<Vec<Extent>>,
}

/// The effect of an operation's completion.
pub(super) struct Completed {
    /// Memory of its slice that is no longer held.
    pub(super) freed: u64,
    pub(super) progress: Progress,
}

/// The effect on its request.
pub(super) enum Progress {
    /// Nothing can be sent yet.
    Waits,
    /// A slice of a read answered in chunks was read, or failed at an offset. The last slice ends
    /// the request.
    Slice {
        request: Admitted,
        outcome: Result<ReadSpan, (u64, Refusal)>,
        is_last: bool,
        /// A slice of the request has failed.
        has_failed: bool,
    },
    /// The last operation completed.
    Finished {
        request: Admitted,
        outcome: Result<Success, Refusal>,
    },
    /// Owed data of a reply was read, or its read failed.
    Refilled(Option<ReadSpan>),
}

/// The result of a successful request.
pub(super) enum Success {
    Nothing,
    Data(Data),
    /// Extents for each context that was chosen.
    Extents(Vec<Vec<Extent>>),
}

impl From<&Error> for Refusal {
    fn from(error: &Error) -> Self {
        Refusal::new(Errno::from(error), error.to_string())
    }
}

impl RequestTable {
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn operations_in_flight(&self) -> usize {
        self.operations
    }

    /// Adds a request and returns its number.
    pub(super) fn insert(&mut self, admitted: Admitted) -> usize {
        self.rows.insert(Row {
            admitted,
            submitted: 0,
            in_flight: 0,
            growing: true,
            more: None,
        })
    }

    /// Counts an operation and returns the low half of its token.
    pub(super) fn submitted(&mut self, id: usize) -> u32 {
        let number = self.rows[id].submitted;
        self.count_submitted(id, number)
    }

    /// Does the same as [`RequestTable::submitted`] for one slice of a request that has several.
    pub(super) fn slice_submitted(&mut self, id: usize, slice: (u64, u32)) -> u32 {
        let number = self.rows[id].more().slices.insert(slice);
        self.count_submitted(id, u32::try_from(number).expect("few slices at once"))
    }

    fn count_submitted(&mut self, id: usize, slice: u32) -> u32 {
        let row = &mut self.rows[id];
        assert!(slice < 1 << SLICE_BITS, "a request has few slices at once");
        row.submitted += 1;
        row.in_flight += 1;
        self.operations += 1;
        let id = u16::try_from(id).expect("requests in flight are bounded");
        u32::from(id) << SLICE_BITS | slice
    }

    /// Notes that no more operations will follow. At least one is in flight.
    pub(super) fn all_submitted(&mut self, id: usize) {
        assert!(
            self.rows[id].in_flight > 0,
            "a request is replied to when an operation completes"
        );
        self.rows[id].growing = false;
    }

    /// Takes a finished operation. Data that is not sent at once is dropped unless it `may_keep`
    /// it.
    pub(super) fn completed(
        &mut self,
        low: u64,
        result: Result<Reply, Error>,
        may_keep: bool,
    ) -> Completed {
        let id = usize::try_from(low >> SLICE_BITS).expect("a token of this session");
        let slice = usize::try_from(low & ((1 << SLICE_BITS) - 1)).expect("16 bits");
        let row = self
            .rows
            .get_mut(id)
            .expect("the request of an operation in flight");
        assert!(row.in_flight > 0, "an operation in flight");
        row.in_flight -= 1;
        self.operations -= 1;
        let is_last = !row.growing && row.in_flight == 0;
        let result = match result {
            Ok(Reply::Data(span)) if is_last && row.is_one_read() => {
                row.assert_asked(&span);
                let request = self.rows.remove(id).admitted;
                let outcome = Ok(Success::Data(Data::One(span)));
                return Completed {
                    freed: 0,
                    progress: Progress::Finished { request, outcome },
                };
            }
            result => result,
        };
        let completed = row.take_in(slice, result, is_last, may_keep);
        if !is_last {
            return completed;
        }
        let row = self.rows.remove(id);
        match completed.progress {
            Progress::Waits => Completed {
                freed: completed.freed,
                progress: row.finish(),
            },
            _ => completed,
        }
    }

    /// Drops data that is kept for replies that have not begun. Returns its memory.
    pub(super) fn yield_memory(&mut self) -> u64 {
        let more = self
            .rows
            .iter_mut()
            .filter_map(|(_, row)| row.more.as_mut());
        let kept = more.flat_map(|more| more.kept.drain(..));
        kept.map(|span| page_bytes(span.offset, span.length)).sum()
    }
}

impl Row {
    fn command(&self) -> Command {
        self.admitted.command
    }

    /// Takes the result of an operation.
    fn take_in(
        &mut self,
        slice: usize,
        result: Result<Reply, Error>,
        is_last: bool,
        may_keep: bool,
    ) -> Completed {
        match self.admitted.course {
            Course::Whole => {
                self.gather(slice, result);
                Completed {
                    freed: 0,
                    progress: Progress::Waits,
                }
            }
            Course::WholeInChunks => {
                let length = u32::try_from(self.admitted.length).expect("at most 1 MiB");
                let range = (self.admitted.offset, length);
                Completed {
                    freed: 0,
                    progress: self.stream(range, result, is_last),
                }
            }
            Course::Streamed => {
                let range = self.slice_done(slice);
                let freed = match result {
                    Ok(_) => 0,
                    Err(_) => page_bytes(range.0, range.1),
                };
                let progress = self.stream(range, result, is_last);
                Completed { freed, progress }
            }
            Course::Sliced => {
                let range = self.slice_done(slice);
                let freed = self.take_in_slice(range, result, may_keep);
                let progress = Progress::Waits;
                Completed { freed, progress }
            }
            Course::Refill => {
                let range = self.slice_done(slice);
                let (freed, span) = match data_of(range, result) {
                    Ok(span) => (0, Some(span)),
                    Err(_) => (page_bytes(range.0, range.1), None),
                };
                let progress = Progress::Refilled(span);
                Completed { freed, progress }
            }
        }
    }

    fn more(&mut self) -> &mut More {
        self.more.get_or_insert_default()
    }

    fn has_failed(&self) -> bool {
        self.more.as_ref().is_some_and(|more| more.error.is_some())
    }

    /// Returns whether the read is one operation.
    fn is_one_read(&self) -> bool {
        self.admitted.course == Course::Whole
            && self.command() == Command::Read
            && self.more.is_none()
    }

    fn assert_asked(&self, span: &ReadSpan) {
        let asked = (self.admitted.offset, self.admitted.length);
        let is_asked = asked == (span.offset, u64::from(span.length));
        assert!(is_asked, "a read returns its range");
    }

    /// Returns the range of a slice that is no longer in flight.
    fn slice_done(&mut self, slice: usize) -> (u64, u32) {
        self.more().slices.remove(slice)
    }

    fn fail(&mut self, error: &Error) -> Refusal {
        let refusal = Refusal::from(error);
        self.more().error.get_or_insert_with(|| refusal.clone());
        refusal
    }

    fn stream(
        &mut self,
        range: (u64, u32),
        result: Result<Reply, Error>,
        is_last: bool,
    ) -> Progress {
        let outcome = data_of(range, result).map_err(|error| (range.0, self.fail(&error)));
        Progress::Slice {
            request: self.admitted,
            outcome,
            is_last,
            has_failed: self.has_failed(),
        }
    }

    /// Takes in a slice of a request that is answered at its end. Returns the memory that it does
    /// not keep.
    fn take_in_slice(
        &mut self,
        range: (u64, u32),
        result: Result<Reply, Error>,
        may_keep: bool,
    ) -> u64 {
        let freed = page_bytes(range.0, range.1);
        match (self.command(), result) {
            (Command::Write, Ok(Reply::Done)) => freed,
            (_, Err(error)) => {
                self.fail(&error);
                freed
            }
            (Command::Read | Command::Cache, result) => {
                let span = data_of(range, result).expect("errors were looked at");
                if self.command() == Command::Cache || self.has_failed() || !may_keep {
                    return freed;
                }
                self.more().kept.push(span);
                0
            }
            (command, Ok(reply)) => panic!("{command:?} does not return {reply:?}"),
        }
    }

    fn gather(&mut self, slice: usize, result: Result<Reply, Error>) {
        match (result, self.command()) {
            (Ok(Reply::Data(span)), Command::Read) => {
                self.assert_asked(&span);
                self.more().data = Some(span);
            }
            // The data is in the cache now, as the command requested.
            (Ok(Reply::Data(_)), Command::Cache) => {}
            (Ok(Reply::Extents(extents)), Command::BlockStatus) => {
                let known = &mut self.more().extents;
                if known.len() <= slice {
                    known.resize_with(slice + 1, Vec::new);
                }
                known[slice] = extents;
            }
            (Ok(Reply::Done), command) => {
                let has_data = matches!(
                    command,
                    Command::Read | Command::Cache | Command::BlockStatus
                );
                assert!(!has_data, "{command:?} returns something");
            }
            (Ok(reply), command) => panic!("{command:?} does not return {reply:?}"),
            (Err(error), _) => drop(self.fail(&error)),
        }
    }

    fn finish(self) -> Progress {
        let request = self.admitted;
        let More {
            error,
            data,
            kept,
            extents,
            slices: _,
        } = self.more.map_or_else(More::default, |more| *more);
        let outcome = match (error, data, request.command) {
            (Some(refusal), _, _) => Err(refusal),
            (None, Some(span), _) => Ok(Success::Data(Data::One(span))),
            (None, None, Command::BlockStatus) => Ok(Success::Extents(extents)),
            (None, None, Command::Read) => {
                Ok(Success::Data(Data::Many(reply_parts(&request, kept))))
            }
            (None, None, _) => Ok(Success::Nothing),
        };
        Progress::Finished { request, outcome }
    }
}

/// Returns the result of a read. The bytes sent must be the bytes requested, or the client loses
/// track of the stream.
fn data_of(range: (u64, u32), result: Result<Reply, Error>) -> Result<ReadSpan, Error> {
    match result? {
        Reply::Data(span) => {
            let is_asked = range == (span.offset, span.length);
            assert!(is_asked, "a read returns its range");
            Ok(span)
        }
        other => panic!("a read returns data, not {other:?}"),
    }
}

/// Returns the data of a long read: the kept part, and the owed rest.
fn reply_parts(request: &Admitted, mut kept: Vec<ReadSpan>) -> Parts {
    kept.sort_unstable_by_key(|span| span.offset);
    let mut parts = Vec::with_capacity(2 * kept.len() + 1);
    let mut at = request.offset;
    let owe_up_to = |at: u64, to: u64, parts: &mut Vec<Part>| {
        if at < to {
            let length = u32::try_from(to - at).expect("at most a request");
            parts.push(Part::Owed { offset: at, length });
        }
    };
    for span in kept {
        owe_up_to(at, span.offset, &mut parts);
        at = span.offset + u64::from(span.length);
        parts.push(Part::Here(span, Class::Large));
    }
    owe_up_to(at, request.offset + request.length, &mut parts);
    Parts::of(parts)
}
