//! Commands of input and output, from the moment when their data is there.

use everglade_target::{Error, LunHandle, Op, ReadSpan, Reply, Target, WriteSpan};

use super::outgoing::Data;
use super::plan::{
    COPY_BLOCKS_MAX, COPY_ENTRY_BYTES, COPY_RANGE_BLOCKS_MAX, PIECE_BYTES, RANGE_ENTRY_BYTES,
    checked_range,
};
use super::requests::{CopyWork, Work};
use super::{Phase, Session, State};
use crate::metrics::Operation;
use crate::wire::Status;
use crate::wire::fields::{u16_at, u32_at, u64_at};
use crate::wire::identify::BLOCK_SHIFT;

impl Session {
    /// Carries out a command whose data is there.
    #[inline]
    pub(super) fn run(&mut self, row: usize, target: &mut dyn Target) {
        // The host may have turned the write cache off since the command came.
        let writes_through = matches!(
            &self.phase,
            Phase::Queue(queue) if queue.controller.writes_through()
        );
        let request = self.requests.row(row);
        let (lun, offset, length) = (request.lun, request.offset, request.length);
        request.durable |= writes_through && !matches!(request.work, Work::Read);
        let durable = request.durable;
        match &mut request.work {
            Work::FusedCompare { .. } | Work::FusedWrite { .. } => self.run_half(row, target),
            _ if request.status.is_error() => self.finish(row, Data::None),
            Work::Reservation(_) => self.run_reservation(row),
            Work::Read if durable => self.submit(row, lun, Op::Flush, target),
            Work::Read => self.submit(row, lun, Op::Read { offset, length }, target),
            Work::Write => {
                let data = request.payload.take_span();
                self.submit(row, lun, Op::Write { data, durable }, target);
            }
            Work::Flush => self.submit(row, lun, Op::Flush, target),
            Work::Zeroes { bytes, allocate } => {
                let op = Op::WriteZeroes {
                    offset,
                    length: *bytes,
                    allocate: *allocate,
                    durable,
                };
                self.submit(row, lun, op, target);
            }
            Work::Discard { .. } => self.begin_discard(row, target),
            Work::Compare { data, .. } => {
                *data = Some(request.payload.take_span());
                self.compare_on(row, target);
            }
            Work::Verify { .. } => self.verify_on(row, target),
            Work::Copy(_) => self.begin_copy(row, target),
            Work::Admin(_) => self.run_admin(row, target),
            Work::Shutdown => unreachable!("it has no data"),
        }
    }

    /// Submits an operation of a command.
    #[inline]
    pub(super) fn submit(&mut self, row: usize, lun: LunHandle, op: Op, target: &mut dyn Target) {
        let low = self.requests.submitted(row);
        self.publish_operations();
        target.submit(lun, op, self.token_base + low);
    }

    /// Takes the end of an operation.
    pub(super) fn operation_ended(
        &mut self,
        row: usize,
        result: Result<Reply, Error>,
        target: &mut dyn Target,
    ) {
        let request = self.requests.row(row);
        let outcome = match result {
            Ok(reply) => Ok(reply),
            Err(error) => {
                let status = status_of(&error, request.operation);
                if !request.status.is_error() {
                    request.status = status;
                }
                Err(status)
            }
        };
        match (&mut request.work, outcome) {
            (Work::FusedWrite { .. }, outcome) => {
                let status = outcome.err().unwrap_or(Status::SUCCESS);
                self.count_work(row);
                self.fused_ended(row, status);
            }
            (Work::Read, Ok(Reply::Data(span))) => {
                let is_asked = (span.offset, span.length) == (request.offset, request.length);
                assert!(is_asked, "a read returns its range");
                self.count_work(row);
                self.finish(row, Data::Pages(span));
            }
            // What is read must be on stable media; it is now.
            (Work::Read, Ok(Reply::Done)) => {
                let (lun, offset, length) = (request.lun, request.offset, request.length);
                self.submit(row, lun, Op::Read { offset, length }, target);
            }
            (Work::Discard { .. }, Ok(_)) => self.discard_on(row, target),
            (Work::Compare { .. }, Ok(Reply::Data(span))) => self.compare(row, &span, target),
            (Work::Verify { at, .. }, Ok(Reply::Data(span))) => {
                *at += u64::from(span.length);
                self.verify_on(row, target);
            }
            (Work::Copy(_), Ok(Reply::Data(span))) => self.write_copy(row, &span, target),
            (Work::Copy(_), Ok(_)) => self.piece_copied(row, target),
            (Work::Copy(copy), Err(_)) => {
                request.result = copy.index as u64;
                self.finish(row, Data::None);
            }
            (Work::Shutdown, _) => self.shutdown_flushed(row),
            // Others of the command may be in flight.
            _ if request.in_flight > 0 => {}
            _ => {
                self.count_work(row);
                self.finish(row, Data::None);
            }
        }
    }

    /// Adds what a command has done to the controller's health log page.
    fn count_work(&mut self, row: usize) {
        let Phase::Queue(queue) = &mut self.phase else {
            unreachable!("commands belong to a queue")
        };
        let request = self.requests.row(row);
        let work = &mut queue.work;
        let bytes = u64::from(request.length);
        match request.work {
            Work::Read => (work.reads, work.bytes_read) = (work.reads + 1, work.bytes_read + bytes),
            Work::Write | Work::FusedWrite { .. } => {
                (work.writes, work.bytes_written) = (work.writes + 1, work.bytes_written + bytes);
            }
            _ => {}
        }
        let is_media = [Status::READ_ERROR, Status::WRITE_FAULT].contains(&request.status);
        work.media_errors += u64::from(is_media);
    }

    /// Ends a command with a status.
    fn fail(&mut self, row: usize, status: Status) {
        self.requests.row(row).status = status;
        self.finish(row, Data::None);
    }

    /// Returns why a command of several operations does not go on: the host has another controller
    /// by now, or has lost its reservation.
    fn obstacle(&mut self, row: usize) -> Option<Status> {
        if self.state != State::Open || self.is_over() {
            return Some(Status::ABORT_REQUESTED);
        }
        (!self.may_run(row)).then_some(Status::RESERVATION_CONFLICT)
    }

    // ---- dataset management ----

    fn begin_discard(&mut self, row: usize, target: &mut dyn Target) {
        let request = self.requests.row(row);
        // The LUN may have changed its size since the command came, or be gone; then the target
        // says so.
        let size_bytes = target.size_bytes(request.lun).unwrap_or(0);
        let entries = request.payload.take_bytes();
        let Work::Discard { count, ranges } = &mut request.work else {
            unreachable!("called for a discard")
        };
        let entries = entries.chunks_exact(RANGE_ENTRY_BYTES).take(*count);
        let checked: Result<Vec<(u64, u64)>, Status> = entries
            .map(|entry| checked_range(u64_at(entry, 8), u64::from(u32_at(entry, 4)), size_bytes))
            .collect();
        match checked {
            Ok(mut checked) => {
                checked.retain(|(_, length)| *length > 0);
                // Taken from the end.
                checked.reverse();
                *ranges = checked;
                self.discard_on(row, target);
            }
            Err(status) => self.fail(row, status),
        }
    }

    /// Deallocates the next range, unless all are.
    fn discard_on(&mut self, row: usize, target: &mut dyn Target) {
        let obstacle = self.obstacle(row);
        let request = self.requests.row(row);
        let (lun, durable) = (request.lun, request.durable);
        let Work::Discard { ranges, .. } = &mut request.work else {
            unreachable!("called for a discard")
        };
        match (ranges.pop(), obstacle) {
            (None, _) => self.finish(row, Data::None),
            (Some(_), Some(status)) => self.fail(row, status),
            (Some((offset, length)), None) => {
                let op = Op::Discard {
                    offset,
                    length,
                    durable,
                };
                self.submit(row, lun, op, target);
            }
        }
    }

    // ---- compare ----

    /// Reads the next piece to be compared.
    fn compare_on(&mut self, row: usize, target: &mut dyn Target) {
        let request = self.requests.row(row);
        let Work::Compare { at, .. } = request.work else {
            unreachable!("called for a compare")
        };
        let piece = u32::try_from(PIECE_BYTES).expect("256 KiB");
        let op = Op::Read {
            offset: request.offset + u64::from(at),
            length: (request.length - at).min(piece),
        };
        let lun = request.lun;
        self.submit(row, lun, op, target);
    }

    fn compare(&mut self, row: usize, span: &ReadSpan, target: &mut dyn Target) {
        let request = self.requests.row(row);
        let length = request.length;
        let Work::Compare {
            data: Some(data),
            at,
        } = &mut request.work
        else {
            unreachable!("called for a compare with its data")
        };
        // Both are cut at the same blocks.
        let is_equal = data.slices_from(*at, span.length).eq(span.slices());
        *at += span.length;
        match (is_equal, *at == length) {
            (false, _) => self.fail(row, Status::COMPARE_FAILURE),
            (true, true) => self.finish(row, Data::None),
            (true, false) => match self.obstacle(row) {
                Some(status) => self.fail(row, status),
                None => self.compare_on(row, target),
            },
        }
    }

    // ---- verify ----

    /// Reads the next piece, unless all are read.
    fn verify_on(&mut self, row: usize, target: &mut dyn Target) {
        let request = self.requests.row(row);
        let Work::Verify { bytes, at } = request.work else {
            unreachable!("called for a verify")
        };
        if at == bytes {
            return self.finish(row, Data::None);
        }
        if at > 0
            && let Some(status) = self.obstacle(row)
        {
            return self.fail(row, status);
        }
        let request = self.requests.row(row);
        let length = u32::try_from((bytes - at).min(PIECE_BYTES)).expect("256 KiB");
        let offset = request.offset + at;
        let lun = request.lun;
        self.submit(row, lun, Op::Read { offset, length }, target);
    }

    // ---- copy ----

    fn begin_copy(&mut self, row: usize, target: &mut dyn Target) {
        let request = self.requests.row(row);
        let size_bytes = target.size_bytes(request.lun).unwrap_or(0);
        let entries = request.payload.take_bytes();
        let Work::Copy(copy) = &mut request.work else {
            unreachable!("called for a copy")
        };
        match copy_ranges(&entries[..copy.count * COPY_ENTRY_BYTES], copy, size_bytes) {
            Ok(ranges) => {
                copy.ranges = ranges;
                self.copy_on(row, target);
            }
            Err(status) => self.fail(row, status),
        }
    }

    /// Reads the next piece of a copy, unless all are copied.
    fn copy_on(&mut self, row: usize, target: &mut dyn Target) {
        let obstacle = self.obstacle(row);
        let request = self.requests.row(row);
        let lun = request.lun;
        let Work::Copy(copy) = &mut request.work else {
            unreachable!("called for a copy")
        };
        let Some((first, bytes)) = copy.ranges.get(copy.index) else {
            return self.finish(row, Data::None);
        };
        if let Some(status) = obstacle {
            request.result = copy.index as u64;
            return self.fail(row, status);
        }
        let length = u32::try_from((bytes - copy.at).min(PIECE_BYTES)).expect("a piece");
        let offset = first + copy.at;
        self.submit(row, lun, Op::Read { offset, length }, target);
    }

    /// Writes a piece that was read.
    fn write_copy(&mut self, row: usize, span: &ReadSpan, target: &mut dyn Target) {
        if let Some(status) = self.obstacle(row) {
            let request = self.requests.row(row);
            if let Work::Copy(copy) = &request.work {
                request.result = copy.index as u64;
            }
            return self.fail(row, status);
        }
        let request = self.requests.row(row);
        let (lun, durable) = (request.lun, request.durable);
        let Work::Copy(copy) = &mut request.work else {
            unreachable!("called for a copy")
        };
        copy.piece = span.length;
        let data = copied(span, copy.destination);
        self.submit(row, lun, Op::Write { data, durable }, target);
    }

    /// A piece was written.
    fn piece_copied(&mut self, row: usize, target: &mut dyn Target) {
        let Work::Copy(copy) = &mut self.requests.row(row).work else {
            unreachable!("called for a copy")
        };
        copy.destination += u64::from(copy.piece);
        copy.at += u64::from(copy.piece);
        if copy.at == copy.ranges[copy.index].1 {
            copy.index += 1;
            copy.at = 0;
        }
        self.copy_on(row, target);
    }
}

/// Returns the bytes of `span` as a write at another place.
fn copied(span: &ReadSpan, destination: u64) -> WriteSpan {
    let mut data = WriteSpan::to_receive(destination, span.length);
    let mut filled = 0;
    for piece in span.slices() {
        let mut rest = piece;
        for place in data.slices_mut_from(filled) {
            let count = place.len().min(rest.len());
            place[..count].copy_from_slice(&rest[..count]);
            rest = &rest[count..];
            if rest.is_empty() {
                break;
            }
        }
        filled += u32::try_from(piece.len()).expect("at most a block");
        if filled == span.length {
            break;
        }
    }
    data
}

/// Returns the ranges of a copy in bytes, if they and the destination exist.
fn copy_ranges(
    entries: &[u8],
    copy: &CopyWork,
    size_bytes: u64,
) -> Result<Vec<(u64, u64)>, Status> {
    let mut ranges = Vec::with_capacity(copy.count);
    let mut blocks = 0;
    for entry in entries.chunks_exact(COPY_ENTRY_BYTES) {
        let count = u32::from(u16_at(entry, 16)) + 1;
        if count > u32::from(COPY_RANGE_BLOCKS_MAX) {
            return Err(Status::SIZE_LIMIT_EXCEEDED);
        }
        blocks += count;
        ranges.push(checked_range(
            u64_at(entry, 8),
            u64::from(count),
            size_bytes,
        )?);
    }
    if blocks > COPY_BLOCKS_MAX {
        return Err(Status::SIZE_LIMIT_EXCEEDED);
    }
    let first = copy.destination >> BLOCK_SHIFT;
    let (to, bytes) = checked_range(first, u64::from(blocks), size_bytes)?;
    // Pieces are copied one after the other, so a piece could be copied twice.
    let overlaps = |(from, length): &(u64, u64)| *from < to + bytes && to < from + length;
    match ranges.iter().any(overlaps) {
        true => Err(Status::INVALID_FIELD),
        false => Ok(ranges),
    }
}

/// Returns what the host is told about an error.
fn status_of(error: &Error, operation: Operation) -> Status {
    let is_reading = matches!(
        operation,
        Operation::Read | Operation::Compare | Operation::Verify
    );
    match error {
        // Ranges were checked; the LUN has become smaller since.
        Error::Invalid(_) => Status::LBA_OUT_OF_RANGE,
        Error::ReadOnly => Status::WRITE_PROTECTED,
        Error::NoSpace => Status::CAPACITY_EXCEEDED,
        Error::Io(_) if is_reading => Status::READ_ERROR,
        Error::Io(_) => Status::WRITE_FAULT,
        // The controller ends.
        Error::Gone => Status::NAMESPACE_NOT_READY,
        Error::NotFound(_) => Status::INVALID_NAMESPACE,
        Error::Miscompare { .. } => Status::COMPARE_FAILURE,
    }
}
