//! Requests being carried out, and which completion belongs to which.
//!
//! The low half of a token is the request's row (16 bits) and the number of the slice (16 bits). A row
//! is reused only after all operations of its request completed, so a token in flight is unique.

use everglade_env::Nanos;
use everglade_target::{Error, ReadSpan, Reply};
use slab::Slab;

use super::super::outgoing::Data;
use super::Slices;
use crate::wire::{Command, Errno};

/// Bits of a token that number the slice.
const SLICE_BITS: u32 = 16;

#[derive(Default)]
pub(super) struct RequestTable {
    rows: Slab<Row>,
    operations: usize,
}

struct Row {
    cookie: u64,
    command: Command,
    offset: u64,
    length: u32,
    /// When it was admitted.
    since: Nanos,
    /// Operations submitted so far.
    submitted: u16,
    /// Operations submitted and not completed.
    in_flight: u16,
    /// More operations will follow (a write whose payload is incomplete).
    growing: bool,
    /// The first error.
    error: Option<Errno>,
    /// What reads returned, by slice.
    data: Gathered,
}

/// One slice needs no list.
enum Gathered {
    None,
    One(ReadSpan),
    Many(Vec<Option<ReadSpan>>),
}

/// A request whose last operation completed.
pub(super) struct Finished {
    pub(super) cookie: u64,
    pub(super) command: Command,
    pub(super) since: Nanos,
    /// Bytes of its range.
    pub(super) length: u32,
    /// Bytes charged for it.
    pub(super) payload: u64,
    pub(super) result: Result<Data, Errno>,
}

impl RequestTable {
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn operations_in_flight(&self) -> usize {
        self.operations
    }

    /// Adds a request and returns its number.
    pub(super) fn insert(
        &mut self,
        cookie: u64,
        command: Command,
        offset: u64,
        length: u32,
        since: Nanos,
    ) -> usize {
        self.rows.insert(Row {
            cookie,
            command,
            offset,
            length,
            since,
            submitted: 0,
            in_flight: 0,
            growing: true,
            error: None,
            data: Gathered::None,
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

    /// An operation finished; returns its request if that finished as well.
    pub(super) fn completed(&mut self, low: u64, result: Result<Reply, Error>) -> Option<Finished> {
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
        match result {
            Ok(Reply::Data(span)) => row.keep(slice, span),
            Ok(Reply::Extents(_)) => panic!("extents were not asked for"),
            Ok(Reply::Done) => assert!(row.command != Command::Read, "a read returns data"),
            Err(error) => row.error = row.error.or(Some(Errno::from(&error))),
        }
        if row.growing || row.in_flight > 0 {
            return None;
        }
        let row = self.rows.remove(id);
        Some(row.finish())
    }
}

impl Row {
    /// The bytes sent must be the bytes asked for, or the client loses track of the stream.
    fn keep(&mut self, slice: usize, span: ReadSpan) {
        let expected = Slices::new(self.offset, self.length).nth(slice);
        assert_eq!(self.command, Command::Read, "only reads return data");
        assert_eq!(
            expected,
            Some((span.offset, span.length)),
            "a read returns its range"
        );
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

    fn finish(self) -> Finished {
        let payload = match self.command {
            Command::Read | Command::Write => u64::from(self.length),
            _ => 0,
        };
        let result = match (self.error, self.data) {
            (Some(errno), _) => Err(errno),
            (None, Gathered::None) => Ok(Data::None),
            (None, Gathered::One(span)) => Ok(Data::One(span)),
            (None, Gathered::Many(spans)) => {
                let spans: Option<Vec<ReadSpan>> = spans.into_iter().collect();
                Ok(Data::Many(spans.expect("every slice returned its data")))
            }
        };
        Finished {
            cookie: self.cookie,
            command: self.command,
            since: self.since,
            length: self.length,
            payload,
            result,
        }
    }
}
