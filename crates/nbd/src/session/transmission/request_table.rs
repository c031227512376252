//! Requests being carried out, and which completion belongs to which.
//!
//! The low half of a token is the request's row (16 bits) and the number of the slice, or of the context that a
//! block status request asks about (16 bits). A row
//! is reused only after all operations of its request completed, so a token in flight is unique.

use everglade_env::Nanos;
use everglade_target::{Error, Extent, ReadSpan, Reply};
use slab::Slab;

use super::super::outgoing::Data;
use super::Slices;
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
    /// Bytes of payload charged for it.
    pub(super) charge: u64,
    /// When.
    pub(super) since: Nanos,
    /// Each slice of the read is answered as soon as it is there.
    pub(super) streams: bool,
}

struct Row {
    admitted: Admitted,
    /// Operations submitted so far.
    submitted: u16,
    /// Operations submitted and not completed.
    in_flight: u16,
    /// More operations will follow (a write whose payload is incomplete).
    growing: bool,
    /// The first error.
    error: Option<Refusal>,
    /// What reads returned, by slice.
    data: Gathered,
    /// What a block status request returned, for each context that was chosen.
    extents: Vec<Vec<Extent>>,
}

/// One slice needs no list.
enum Gathered {
    None,
    One(ReadSpan),
    Many(Vec<Option<ReadSpan>>),
}

/// What the completion of an operation means for its request.
pub(super) enum Progress {
    /// Nothing yet.
    Waits,
    /// A slice of a streaming read is there, or failed at an offset. The last one ends the request.
    Slice {
        request: Admitted,
        outcome: Result<ReadSpan, (u64, Refusal)>,
        /// Bytes of the slice.
        length: u32,
        is_last: bool,
        /// A slice of the request has failed.
        has_failed: bool,
    },
    /// The last operation completed.
    Finished {
        request: Admitted,
        outcome: Result<Outcome, Refusal>,
    },
}

/// What a successful request returned.
pub(super) enum Outcome {
    Nothing,
    Data(Data),
    /// For each context that was chosen.
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
            error: None,
            data: Gathered::None,
            extents: Vec::new(),
        })
    }

    /// Counts an operation and returns the low half of its token.
    pub(super) fn submitted(&mut self, id: usize) -> u32 {
        let row = &mut self.rows[id];
        let slice = u32::from(row.submitted);
        row.submitted = row
            .submitted
            .checked_add(1)
            .expect("a request has few slices");
        row.in_flight += 1;
        self.operations += 1;
        let id = u16::try_from(id).expect("requests in flight are bounded");
        u32::from(id) << SLICE_BITS | slice
    }

    /// No more operations will follow. At least one is in flight.
    pub(super) fn all_submitted(&mut self, id: usize) {
        assert!(
            self.rows[id].in_flight > 0,
            "a request is replied to when an operation completes"
        );
        self.rows[id].growing = false;
    }

    /// An operation finished.
    pub(super) fn completed(&mut self, low: u64, result: Result<Reply, Error>) -> Progress {
        let id = usize::try_from(low >> SLICE_BITS).expect("a token of this session");
        let slice = usize::try_from(low & ((1 << SLICE_BITS) - 1)).expect("16 bits");
        let row = self
            .rows
            .get_mut(id)
            .expect("the request of an operation in flight");
        assert!(
            row.in_flight > 0 && slice < usize::from(row.submitted),
            "an operation in flight"
        );
        row.in_flight -= 1;
        self.operations -= 1;
        let is_last = !row.growing && row.in_flight == 0;
        let progress = if row.admitted.streams {
            row.stream(slice, result, is_last)
        } else {
            row.gather(slice, result);
            Progress::Waits
        };
        if !is_last {
            return progress;
        }
        let row = self.rows.remove(id);
        if row.admitted.streams {
            progress
        } else {
            row.finish()
        }
    }
}

impl Row {
    fn command(&self) -> Command {
        self.admitted.command
    }

    /// The range of a slice of a read.
    fn slice_range(&self, slice: usize) -> (u64, u32) {
        let Admitted { offset, charge, .. } = self.admitted;
        let length = u32::try_from(charge).expect("a read is at most 32 MiB");
        let range = Slices::new(offset, length).nth(slice);
        range.expect("a slice that was submitted")
    }

    fn stream(&mut self, slice: usize, result: Result<Reply, Error>, is_last: bool) -> Progress {
        let (offset, length) = self.slice_range(slice);
        let outcome = match result {
            Ok(Reply::Data(span)) => {
                self.check_range(slice, &span);
                Ok(span)
            }
            Ok(other) => panic!("a read returns data, not {other:?}"),
            Err(error) => Err((offset, Refusal::from(&error))),
        };
        if let Err((_, refusal)) = &outcome
            && self.error.is_none()
        {
            self.error = Some(refusal.clone());
        }
        Progress::Slice {
            request: self.admitted,
            outcome,
            length,
            is_last,
            has_failed: self.error.is_some(),
        }
    }

    fn gather(&mut self, slice: usize, result: Result<Reply, Error>) {
        match (result, self.command()) {
            (Ok(Reply::Data(span)), Command::Read) => self.keep(slice, span),
            // It is in the cache now, which was all that was wanted.
            (Ok(Reply::Data(_)), Command::Cache) => {}
            (Ok(Reply::Extents(extents)), Command::BlockStatus) => {
                if self.extents.len() <= slice {
                    self.extents.resize_with(slice + 1, Vec::new);
                }
                self.extents[slice] = extents;
            }
            (Ok(Reply::Done), command) => {
                let has_data = matches!(
                    command,
                    Command::Read | Command::Cache | Command::BlockStatus
                );
                assert!(!has_data, "{command:?} returns something");
            }
            (Ok(reply), command) => panic!("{command:?} does not return {reply:?}"),
            (Err(error), _) => {
                if self.error.is_none() {
                    self.error = Some(Refusal::from(&error));
                }
            }
        }
    }

    /// The bytes sent must be the bytes asked for, or the client loses track of the stream.
    fn check_range(&self, slice: usize, span: &ReadSpan) {
        assert_eq!(
            self.slice_range(slice),
            (span.offset, span.length),
            "a read returns its range"
        );
    }

    fn keep(&mut self, slice: usize, span: ReadSpan) {
        self.check_range(slice, &span);
        if self.submitted == 1 && !self.growing {
            self.data = Gathered::One(span);
            return;
        }
        if !matches!(self.data, Gathered::Many(_)) {
            self.data = Gathered::Many(Vec::new());
        }
        let Gathered::Many(spans) = &mut self.data else {
            unreachable!("set above")
        };
        if spans.len() <= slice {
            spans.resize_with(slice + 1, || None);
        }
        spans[slice] = Some(span);
    }

    fn finish(self) -> Progress {
        let is_status = self.command() == Command::BlockStatus;
        let outcome = match (self.error, self.data) {
            (Some(refusal), _) => Err(refusal),
            (None, Gathered::None) if is_status => Ok(Outcome::Extents(self.extents)),
            (None, Gathered::None) => Ok(Outcome::Nothing),
            (None, Gathered::One(span)) => Ok(Outcome::Data(Data::One(span))),
            (None, Gathered::Many(spans)) => {
                let spans: Option<Vec<ReadSpan>> = spans.into_iter().collect();
                let spans = spans.expect("every slice returned its data");
                Ok(Outcome::Data(Data::Many(spans)))
            }
        };
        Progress::Finished {
            request: self.admitted,
            outcome,
        }
    }
}
