//! What a command does to storage: one operation after the other, until its outcome is known.
//!
//! | command | operations |
//! | --- | --- |
//! | READ, WRITE, SYNCHRONIZE CACHE, GET LBA STATUS | one |
//! | COMPARE AND WRITE | one, atomic against all clients |
//! | WRITE SAME of zeroes, UNMAP | zeroes, range by range |
//! | WRITE SAME of something else | writes, piece by piece |
//! | VERIFY | reads, piece by piece, compared with the data |
//! | WRITE AND VERIFY | durable writes, then as VERIFY |
//! | ORWRITE | for each piece: read, combine, compare and write; again if somebody was faster |
//!
//! UNMAP zeroes its ranges to the byte, although freeing whole blocks would do: what is told to
//! read as zeroes does (LBPRZ), also at the edges of ranges that are not aligned.

use everglade_target::sessions::memory::{Reservation, page_bytes};
use everglade_target::{Error, OP_BYTES_MAX, Op, ReadSpan, Reply, WriteSpan};

use super::super::outgoing::Data;
use super::super::payload::Payload;
use crate::scsi::cdb::Check;
use crate::scsi::{BLOCK_BYTES, Command, Range, Sense, Unit, capacity, parameters, unit};

/// Bytes that are compared or written at once by commands of many operations.
const PIECE_BYTES: u32 = 256 << 10;
/// Bytes that are compared and written at once.
const COMPARE_BYTES: u32 = 64 << 10;
/// Extents told by one GET LBA STATUS.
const EXTENTS_MAX: u32 = 1024;
/// Times that ORWRITE tries a piece again. Somebody else succeeds each time.
const ATTEMPTS_MAX: u32 = 10_000;

/// The work of one command.
#[derive(Debug)]
pub(super) enum Work {
    /// One operation, and no data to return.
    Once(Option<Op>),
    /// READ.
    Read {
        range: Option<(u64, u32)>,
        data: Option<ReadSpan>,
    },
    /// GET LBA STATUS.
    Status {
        lba: u64,
        length: u64,
        room: u32,
        answer: Option<Vec<u8>>,
    },
    /// Ranges of zeroes, the last first.
    Zeroes(Vec<(u64, u64)>),
    /// The same block again and again.
    Fill { at: u64, end: u64, block: Vec<u8> },
    /// Writes, then comparisons.
    Check(CheckWork),
    /// ORWRITE.
    Merge(Merge),
    /// COMPARE AND WRITE.
    Compare { op: Option<Op> },
}

/// The work of WRITE AND VERIFY, and of VERIFY.
#[derive(Debug)]
pub(super) struct CheckWork {
    offset: u64,
    length: u32,
    bytes: Vec<u8>,
    check: Check,
    /// Bytes written.
    written: u32,
    /// Bytes checked.
    checked: u32,
}

/// The work of ORWRITE.
#[derive(Debug)]
pub(super) struct Merge {
    offset: u64,
    bytes: Vec<u8>,
    durable: bool,
    merged: u32,
    attempts: u32,
    /// What was read of the current piece.
    read: Option<Vec<u8>>,
}

/// What is to be done next.
#[derive(Debug)]
pub(super) enum Next {
    Submit(Op),
    End(Result<Data, Sense>),
}

fn bytes_of(range: Range) -> (u64, u64) {
    let block = u64::from(BLOCK_BYTES);
    (range.lba * block, range.blocks * block)
}

fn short(range: Range) -> (u64, u32) {
    let (offset, length) = bytes_of(range);
    (
        offset,
        u32::try_from(length).expect("bounded by the transfer length"),
    )
}

/// Returns the memory that a command needs besides the data it takes, whose length is `keep`.
pub(super) fn charge(command: &Command, keep: u32) -> u64 {
    let keep = u64::from(keep);
    match command {
        Command::Read(range) => {
            let (offset, length) = short(*range);
            page_bytes(offset, length)
        }
        // Data is received into pages.
        Command::Write { range, .. } => {
            let (offset, length) = short(*range);
            page_bytes(offset, length)
        }
        Command::WriteAndVerify { range, .. } | Command::Verify { range, .. } => {
            let (offset, length) = short(*range);
            keep + page_bytes(offset, length.min(PIECE_BYTES))
        }
        Command::WriteSame { no_data: true, .. } => 0,
        Command::WriteSame { range, .. } => {
            let (offset, length) = bytes_of(*range);
            let length = u32::try_from(length.min(u64::from(OP_BYTES_MAX))).expect("32 bits");
            // 0 blocks mean all to the end.
            let length = if length == 0 { OP_BYTES_MAX } else { length };
            keep + page_bytes(offset, length)
        }
        Command::CompareAndWrite { range, .. } => {
            let (offset, length) = short(*range);
            keep + 2 * page_bytes(offset, length)
        }
        Command::OrWrite { range, .. } => {
            let (offset, length) = short(*range);
            keep + 3 * page_bytes(offset, length.min(COMPARE_BYTES))
        }
        Command::Prefetch(range) => {
            let (offset, length) = prefetched(*range);
            page_bytes(offset, length)
        }
        Command::LbaStatus { .. } => 32 * u64::from(EXTENTS_MAX),
        _ => keep,
    }
}

/// Returns the bytes that PRE-FETCH reads: one operation at most, because it is a hint.
fn prefetched(range: Range) -> (u64, u32) {
    let (offset, length) = bytes_of(range);
    let length = length.min(u64::from(OP_BYTES_MAX));
    (offset, u32::try_from(length).expect("one operation"))
}

/// Returns the memory that a command holds while its answer is sent: the pages of a read. Other
/// answers are small.
pub(super) fn held_by_answer(command: &Command, held: Reservation) -> Reservation {
    match command {
        Command::Read(_) | Command::LbaStatus { .. } => held,
        _ => Reservation {
            bytes: held
                .bytes
                .min(everglade_target::sessions::memory::REQUEST_BYTES),
            class: held.class,
        },
    }
}

impl Work {
    /// Begins the work of a command whose data has arrived.
    pub(super) fn begin(command: &Command, payload: Payload, unit: &Unit) -> Result<Work, Sense> {
        let bytes = |payload: Payload| match payload {
            Payload::Bytes(bytes) => bytes,
            _ => Vec::new(),
        };
        Ok(match *command {
            Command::Read(range) => Work::Read {
                range: Some(short(range)),
                data: None,
            },
            Command::Write { durable, .. } => {
                let Payload::Pages(data) = payload else {
                    unreachable!("data of a write is received into pages")
                };
                Work::Once(Some(Op::Write { data, durable }))
            }
            Command::Flush(_) => Work::Once(Some(Op::Flush)),
            Command::Prefetch(range) => {
                let (offset, length) = prefetched(range);
                let op = (length > 0).then_some(Op::Read { offset, length });
                Work::Once(op)
            }
            Command::LbaStatus { lba, room } => Work::Status {
                lba,
                length: (unit.blocks() - lba) * u64::from(BLOCK_BYTES),
                room,
                answer: None,
            },
            Command::WriteSame { range, no_data, .. } => {
                let range = match range.blocks {
                    0 => Range {
                        blocks: unit.blocks() - range.lba,
                        ..range
                    },
                    _ => range,
                };
                let (offset, length) = bytes_of(range);
                let block = bytes(payload);
                // Zeroes take no space, whether the initiator asks for that or not: they read the
                // same.
                if no_data || block.iter().all(|byte| *byte == 0) {
                    Work::Zeroes(vec![(offset, length)])
                } else {
                    Work::Fill {
                        at: offset,
                        end: offset + length,
                        block,
                    }
                }
            }
            Command::Unmap { .. } => {
                let ranges = parameters::unmap(&bytes(payload), unit.blocks())?;
                Work::Zeroes(ranges.into_iter().rev().map(bytes_of).collect())
            }
            Command::WriteAndVerify { range, compares } => {
                let (offset, length) = short(range);
                Work::Check(CheckWork {
                    offset,
                    length,
                    bytes: bytes(payload),
                    check: if compares {
                        Check::Blocks
                    } else {
                        Check::Readable
                    },
                    written: 0,
                    checked: 0,
                })
            }
            Command::Verify { range, check } => {
                let (offset, length) = short(range);
                Work::Check(CheckWork {
                    offset,
                    length,
                    bytes: bytes(payload),
                    check,
                    written: length,
                    checked: 0,
                })
            }
            Command::CompareAndWrite { range, durable } => {
                let (offset, length) = short(range);
                let bytes = bytes(payload);
                let (compare, data) = bytes.split_at(length as usize);
                let op = (length > 0).then(|| Op::CompareAndWrite {
                    compare: WriteSpan::copy_of(offset, compare),
                    data: WriteSpan::copy_of(offset, data),
                    durable,
                });
                Work::Compare { op }
            }
            Command::OrWrite { range, durable } => Work::Merge(Merge {
                offset: short(range).0,
                bytes: bytes(payload),
                durable,
                merged: 0,
                attempts: 0,
                read: None,
            }),
            // Commands that need no storage do not come here.
            _ => Work::Once(None),
        })
    }

    /// Returns what is to be done next.
    pub(super) fn next(&mut self) -> Next {
        match self {
            Work::Once(op) | Work::Compare { op } => match op.take() {
                Some(op) => Next::Submit(op),
                None => Next::End(Ok(Data::None)),
            },
            Work::Read { range, data } => match (range.take(), data.take()) {
                (Some((offset, length)), _) if length > 0 => {
                    Next::Submit(Op::Read { offset, length })
                }
                (_, Some(data)) => Next::End(Ok(Data::Span(data))),
                _ => Next::End(Ok(Data::None)),
            },
            Work::Status {
                lba,
                length,
                room,
                answer,
            } => match answer.take() {
                Some(answer) => Next::End(Ok(Data::Bytes(answer))),
                None => Next::Submit(Op::Extents {
                    offset: *lba * u64::from(BLOCK_BYTES),
                    length: *length,
                    count_max: (room.saturating_sub(8) / 16).clamp(1, EXTENTS_MAX),
                }),
            },
            Work::Zeroes(ranges) => {
                while let Some((offset, length)) = ranges.pop() {
                    if length > 0 {
                        return Next::Submit(Op::WriteZeroes {
                            offset,
                            length,
                            allocate: false,
                            durable: false,
                        });
                    }
                }
                Next::End(Ok(Data::None))
            }
            Work::Fill { at, end, block } => {
                let left = *end - *at;
                if left == 0 {
                    return Next::End(Ok(Data::None));
                }
                let length = left.min(u64::from(OP_BYTES_MAX));
                let count = usize::try_from(length / u64::from(BLOCK_BYTES)).expect("one piece");
                let data = WriteSpan::copy_of(*at, &block.repeat(count));
                *at += length;
                Next::Submit(Op::Write {
                    data,
                    durable: false,
                })
            }
            Work::Check(work) => work.next(),
            Work::Merge(work) => work.next(),
        }
    }

    /// Takes the outcome of an operation.
    pub(super) fn took(&mut self, result: Result<Reply, Error>, writes: bool) -> Result<(), Sense> {
        let result = match (&mut *self, result) {
            (Work::Merge(work), Err(Error::Miscompare { .. })) => return work.try_again(),
            (_, result) => result.map_err(|error| Sense::of_error(&error, writes))?,
        };
        match (self, result) {
            (Work::Read { data, .. }, Reply::Data(span)) => *data = Some(span),
            (
                Work::Status {
                    lba, room, answer, ..
                },
                Reply::Extents(extents),
            ) => *answer = Some(unit::within(capacity::status(*lba, &extents), *room)),
            (Work::Check(work), Reply::Data(span)) => work.compare(&span)?,
            (Work::Merge(work), Reply::Data(span)) => work.read = Some(span.to_vec()),
            (Work::Merge(work), Reply::Done) => work.piece_merged(),
            _ => {}
        }
        Ok(())
    }
}

impl CheckWork {
    fn next(&mut self) -> Next {
        if self.written < self.length {
            let at = self.written;
            let length = (self.length - at).min(PIECE_BYTES);
            self.written += length;
            let bytes = &self.bytes[at as usize..][..length as usize];
            return Next::Submit(Op::Write {
                data: WriteSpan::copy_of(self.offset + u64::from(at), bytes),
                durable: true,
            });
        }
        if self.checked < self.length {
            return Next::Submit(Op::Read {
                offset: self.offset + u64::from(self.checked),
                length: (self.length - self.checked).min(PIECE_BYTES),
            });
        }
        Next::End(Ok(Data::None))
    }

    fn compare(&mut self, span: &ReadSpan) -> Result<(), Sense> {
        let start = self.checked;
        self.checked += span.length;
        let (is_same, expected) = match self.check {
            Check::Readable => return Ok(()),
            Check::Blocks => (false, &self.bytes[start as usize..]),
            Check::Same => (true, &self.bytes[..]),
        };
        let expected: Box<dyn Iterator<Item = &u8>> = match is_same {
            true => Box::new(expected.iter().cycle()),
            false => Box::new(expected.iter()),
        };
        let found = span.slices().flatten();
        match found
            .zip(expected)
            .position(|(found, expected)| found != expected)
        {
            None => Ok(()),
            Some(place) => {
                let place = u32::try_from(place).expect("within a piece");
                Err(Sense::miscompare(start + place))
            }
        }
    }
}

impl Merge {
    fn piece(&self) -> (u64, u32) {
        let left = u32::try_from(self.bytes.len()).expect("bounded") - self.merged;
        (
            self.offset + u64::from(self.merged),
            left.min(COMPARE_BYTES),
        )
    }

    fn next(&mut self) -> Next {
        let (offset, length) = self.piece();
        if length == 0 {
            return Next::End(Ok(Data::None));
        }
        let Some(read) = self.read.take() else {
            return Next::Submit(Op::Read { offset, length });
        };
        let ours = &self.bytes[self.merged as usize..];
        let both: Vec<u8> = read
            .iter()
            .zip(ours)
            .map(|(read, ours)| read | ours)
            .collect();
        Next::Submit(Op::CompareAndWrite {
            compare: WriteSpan::copy_of(offset, &read),
            data: WriteSpan::copy_of(offset, &both),
            durable: self.durable,
        })
    }

    fn piece_merged(&mut self) {
        self.merged += self.piece().1;
        self.attempts = 0;
    }

    /// Somebody wrote between our read and our write.
    fn try_again(&mut self) -> Result<(), Sense> {
        self.attempts += 1;
        match self.attempts < ATTEMPTS_MAX {
            true => Ok(()),
            false => Err(Sense::WRITE_ERROR),
        }
    }
}
