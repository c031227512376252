//! Commands in progress: a row for each, from its admission until its answer is queued.

use everglade_env::Nanos;
use everglade_target::sessions::memory::Reservation;
use everglade_target::{LunHandle, WriteSpan};
use slab::Slab;

use crate::metrics::Operation;
use crate::wire::{Command, Status};

/// A command in progress.
pub(super) struct Request {
    /// The host's id.
    pub(super) command_id: u16,
    pub(super) operation: Operation,
    /// Where it goes; of no meaning for admin commands.
    pub(super) lun: LunHandle,
    /// First byte of the range.
    pub(super) offset: u64,
    /// Bytes of the range that one operation or transfer has.
    pub(super) length: u32,
    pub(super) durable: bool,
    /// The charge.
    pub(super) held: Reservation,
    /// Memory that is charged when the data comes that the host was asked for.
    pub(super) later: u64,
    pub(super) since: Nanos,
    /// Operations of the target under way.
    pub(super) in_flight: u32,
    /// The first error.
    pub(super) status: Status,
    /// Result of the command.
    pub(super) result: u64,
    pub(super) payload: Payload,
    pub(super) work: Work,
}

/// Data from the host.
pub(super) enum Payload {
    /// There is none, or it is complete and was taken.
    None,
    /// The host was asked for `length` bytes; nothing has come.
    Awaited { length: u32 },
    /// Blocks on their way into pages.
    Span {
        span: WriteSpan,
        filled: u32,
        /// The host was asked for them.
        is_asked: bool,
    },
    /// A structure.
    Bytes {
        bytes: Vec<u8>,
        filled: u32,
        /// The host was asked for it.
        is_asked: bool,
    },
}

/// What a command does once its data is there.
pub(super) enum Work {
    /// One operation, and its data if it reads.
    Read,
    /// One operation with the data.
    Write,
    /// One operation.
    Flush,
    /// Zeroes in `bytes` bytes. `allocate` if they are to take space.
    Zeroes { bytes: u64, allocate: bool },
    /// Deallocates ranges, which are in the data.
    Discard {
        /// Number of ranges that are looked at.
        count: usize,
        /// Ranges that are left, the next one last: first byte and bytes.
        ranges: Vec<(u64, u64)>,
    },
    /// Compares pieces of the data with the LUN, one after the other.
    Compare { data: Option<WriteSpan>, at: u32 },
    /// The first half of compare and write: waits with its data for the second.
    FusedCompare {
        data: Option<WriteSpan>,
        /// The row of the second, when it has come.
        second: Option<usize>,
    },
    /// The second half; `first` is the row of the first.
    FusedWrite {
        /// `None` if the first was answered with an error.
        first: Option<usize>,
        data: Option<WriteSpan>,
    },
    /// Reads `bytes` bytes, piece by piece.
    Verify { bytes: u64, at: u64 },
    /// Copies ranges, which are in the data, piece by piece.
    Copy(Box<CopyWork>),
    /// An admin command.
    Admin(Box<Command>),
    /// A reservation command.
    Reservation(Box<Command>),
    /// A flush when the host shuts the controller down. Nobody is answered.
    Shutdown,
}

/// The progress of a copy.
pub(super) struct CopyWork {
    /// Ranges: first byte and bytes. None until the data is there.
    pub(super) ranges: Vec<(u64, u64)>,
    /// Number of ranges that the command announces.
    pub(super) count: usize,
    /// The range that is copied.
    pub(super) index: usize,
    /// Bytes of it that are copied.
    pub(super) at: u64,
    /// Where the next piece goes.
    pub(super) destination: u64,
    /// Bytes of the piece that is written.
    pub(super) piece: u32,
}

/// The rows of a session.
#[derive(Default)]
pub(super) struct Requests {
    rows: Slab<Request>,
    /// Operations of the target under way.
    operations: usize,
    /// Rows whose data has begun to come and is not complete.
    pub(super) incomplete: usize,
    /// Rows whose data the host was asked for and that is not complete.
    pub(super) asked: usize,
}

/// Bits of the session's part of a token that are not the row's number.
const ROW_SHIFT: u32 = 16;

impl Request {
    /// Returns whether data is complete that the command needs before it is carried out.
    pub(super) fn has_payload(&self) -> bool {
        match &self.payload {
            Payload::None => true,
            Payload::Awaited { .. } => false,
            Payload::Span { span, filled, .. } => *filled == span.length,
            Payload::Bytes { bytes, filled, .. } => *filled as usize == bytes.len(),
        }
    }
}

impl Payload {
    /// Takes the blocks of a command.
    ///
    /// # Panics
    /// If it has none.
    pub(super) fn take_span(&mut self) -> WriteSpan {
        match std::mem::replace(self, Payload::None) {
            Payload::Span { span, .. } => span,
            _ => unreachable!("the command has blocks"),
        }
    }

    /// Takes the structure of a command; empty if it has none.
    pub(super) fn take_bytes(&mut self) -> Vec<u8> {
        match std::mem::replace(self, Payload::None) {
            Payload::Bytes { bytes, .. } => bytes,
            _ => Vec::new(),
        }
    }

    /// Returns the memory of `count` bytes that are not filled yet, in order.
    pub(super) fn unfilled(&mut self, count: u32) -> impl Iterator<Item = &mut [u8]> {
        let (mut span_pieces, mut bytes_piece) = (None, None);
        match self {
            Payload::None | Payload::Awaited { .. } => {}
            Payload::Span { span, filled, .. } => {
                if *filled < span.length {
                    span_pieces = Some(span.slices_mut_from(*filled));
                }
            }
            Payload::Bytes { bytes, filled, .. } => {
                bytes_piece = Some(&mut bytes[*filled as usize..]);
            }
        }
        let mut rest = count as usize;
        let pieces = span_pieces.into_iter().flatten().chain(bytes_piece);
        pieces.map_while(move |piece| {
            let here = piece.len().min(rest);
            rest -= here;
            (here > 0).then(|| &mut piece[..here])
        })
    }

    /// Counts bytes that were filled.
    pub(super) fn fill(&mut self, count: u32) {
        match self {
            Payload::None | Payload::Awaited { .. } => panic!("filled what is not there"),
            Payload::Span { filled, .. } | Payload::Bytes { filled, .. } => *filled += count,
        }
    }

    /// Returns the pieces of `length` filled bytes from `start` on.
    pub(super) fn pieces(&self, start: u32, length: u32) -> impl Iterator<Item = &[u8]> {
        let span = match self {
            Payload::Span { span, .. } => Some(span.slices_from(start, length)),
            _ => None,
        };
        let bytes = match self {
            Payload::Bytes { bytes, .. } => bytes.get(start as usize..(start + length) as usize),
            _ => None,
        };
        span.into_iter().flatten().chain(bytes)
    }
}

impl Requests {
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(super) fn operations(&self) -> usize {
        self.operations
    }

    pub(super) fn insert(&mut self, request: Request) -> usize {
        let row = self.rows.insert(request);
        assert!(row < 1 << 16, "requests are bounded by the queue");
        row
    }

    pub(super) fn get(&self, row: usize) -> Option<&Request> {
        self.rows.get(row)
    }

    pub(super) fn row(&mut self, row: usize) -> &mut Request {
        self.rows.get_mut(row).expect("a command in progress")
    }

    /// Returns the number of the row with this id of a command.
    pub(super) fn remove(&mut self, row: usize) -> Request {
        let request = self.rows.remove(row);
        match &request.payload {
            Payload::None => {}
            Payload::Awaited { .. } => self.asked -= 1,
            Payload::Span { is_asked, .. } | Payload::Bytes { is_asked, .. } => {
                if !request.has_payload() {
                    self.incomplete -= 1;
                    self.asked -= usize::from(*is_asked);
                }
            }
        }
        request
    }

    /// Notes that the data of a row is complete.
    pub(super) fn completed_payload(&mut self, row: usize) {
        self.incomplete -= 1;
        let is_asked = match self.row(row).payload {
            Payload::Span { is_asked, .. } | Payload::Bytes { is_asked, .. } => is_asked,
            Payload::None | Payload::Awaited { .. } => false,
        };
        self.asked -= usize::from(is_asked);
    }

    /// Counts an operation of a row and returns the low half of its token.
    #[inline]
    pub(super) fn submitted(&mut self, row: usize) -> u64 {
        self.rows[row].in_flight += 1;
        self.operations += 1;
        (row as u64) << ROW_SHIFT
    }

    /// Counts the end of an operation, and returns its row.
    #[inline]
    pub(super) fn ended(&mut self, low: u64) -> usize {
        let row = usize::try_from(low >> ROW_SHIFT).expect("a token of this session");
        let request = self.rows.get_mut(row).expect("the command of an operation");
        assert!(request.in_flight > 0, "an operation in flight");
        request.in_flight -= 1;
        self.operations -= 1;
        row
    }

    /// Returns the rows without operations in flight.
    pub(super) fn resting(&self) -> Vec<usize> {
        let resting = self
            .rows
            .iter()
            .filter(|(_, request)| request.in_flight == 0);
        resting.map(|(row, _)| row).collect()
    }
}
