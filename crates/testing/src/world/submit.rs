//! The two ends of a device operation: submission, where its fate is drawn, and completion.
//!
//! Life of a write: `submit` → (effect now, or at completion; the die says) → `complete` →
//! reactor's queue → `poll`. Blocking calls have effect and complete inside the call, with the same
//! bookkeeping: they stay unflushed until a flush.

use std::ops::Range;

use everglade_env::{BLOCK_SIZE, Completion, DeviceId, DiskError, Nanos, Op, Page, PageRef};

use super::change::{Change, Grain};
use super::fault::Fault;
use super::state::{Event, Flight, FlightKind, State};
use super::{EINVAL, EIO};
use crate::digest::{fingerprint, halves};
use crate::rng::scramble;

/// Longest operation, in bytes; the contract of [`everglade_env::Op`].
const OP_BYTES_MAX: usize = 1 << 20;

/// First words of the records in the digest.
mod record {
    pub(super) const READ: u64 = 1;
    pub(super) const WRITE: u64 = 2;
    pub(super) const PUNCH: u64 = 3;
    pub(super) const ALLOCATE: u64 = 4;
    pub(super) const FLUSH: u64 = 5;
    pub(super) const COMPLETE: u64 = 6;
    // 7 is a reply to a client.
    pub(super) const SIZE: u64 = 8;
}

/// A device and a range of its blocks, both checked.
struct DeviceRange {
    device: usize,
    range: Range<u64>,
}

impl State {
    pub(super) fn submit(&mut self, reactor: usize, op: Op, token: u64) {
        if self.is_dead() {
            return;
        }
        let (device, kind, result, latency) = match op {
            Op::Read {
                device,
                offset,
                pages,
            } => self.submit_read(device, offset, pages),
            Op::Write {
                device,
                offset,
                pages,
                durable,
            } => self.submit_write(device, offset, pages, durable),
            Op::Flush { device } => self.submit_flush(device),
            Op::Allocate {
                device,
                offset,
                length,
            } => self.submit_allocate(device, offset, length),
            Op::Punch {
                device,
                offset,
                length,
            } => self.submit_punch(device, offset, length),
        };
        // Allocations change no contents, so a cut at them adds nothing.
        let counts = match &kind {
            FlightKind::Change {
                pending: Some(Change::Allocate(_)),
                ..
            } => false,
            FlightKind::Change { .. } => true,
            _ => false,
        };
        let submitted = self.next_tick();
        let flight = Flight {
            reactor,
            token,
            device,
            submitted,
            kind,
            result,
        };
        self.flights.insert(submitted, flight);
        self.schedule(latency, Event::Complete(submitted));
        if counts {
            self.count_write();
        }
    }

    fn submit_read(&mut self, device: DeviceId, offset: u64, mut pages: Vec<Page>) -> Submitted {
        let at = match self.checked_range(device, offset, pages.len() * BLOCK_SIZE) {
            Ok(at) => at,
            Err(error) => return refused(device, error),
        };
        self.record(record::READ, &at, 0);
        self.track_read(at.device, at.range.clone());
        let device = &mut self.devices[at.device];
        let latency = device.latency(device.spec.latency.read);
        let first = at.range.start;
        // The contents are those of one moment inside the operation.
        let filled = device.rng.one_in(2);
        let result = if filled {
            device.read(first, &mut pages)
        } else {
            Ok(())
        };
        (
            at.device,
            FlightKind::Read {
                first,
                pages,
                filled,
            },
            result,
            latency,
        )
    }

    fn submit_write(
        &mut self,
        device: DeviceId,
        offset: u64,
        pages: Vec<PageRef>,
        durable: bool,
    ) -> Submitted {
        let at = match self.checked_range(device, offset, pages.len() * BLOCK_SIZE) {
            Ok(at) => at,
            Err(error) => return refused(device, error),
        };
        self.record(record::WRITE, &at, pages_print(&pages) ^ u64::from(durable));
        if let Err(error) = self.take_space(&at) {
            return refused(device, error);
        }
        self.overlapping += u64::from(self.is_being_written(&at));
        self.track_written(at.device, at.range.clone());
        let change = Change::write(at.range.start, pages);
        let device = &mut self.devices[at.device];
        let mut latency = device.latency(device.spec.latency.write);
        if durable {
            latency += device.latency(device.spec.latency.flush);
        }
        let mut result = Ok(());
        let mut pending = device.deflected(change, &at.range);
        if device.faults.concern(&at.range) && device.rng.one_in(device.faults.write_error) {
            device.counts.loud(Fault::WriteError);
            result = Err(DiskError::Io(EIO));
            pending = match (device.rng.below(3), pending) {
                (0, _) | (_, None) => None,
                (1, Some(all)) => Some(all),
                (_, Some(all)) => Some(all.torn(Grain::Sector, &device.live, &mut device.rng)),
            };
        }
        let durable = durable && result.is_ok();
        (
            at.device,
            self.maybe_now(at.device, pending, durable),
            result,
            latency,
        )
    }

    fn submit_punch(&mut self, device: DeviceId, offset: u64, length: u64) -> Submitted {
        let at = match self.checked_long_range(device, offset, length) {
            Ok(at) => at,
            Err(error) => return refused(device, error),
        };
        self.record(record::PUNCH, &at, 0);
        let result = self.devices[at.device].space_result(&at.range);
        self.punch(at, result)
    }

    fn submit_allocate(&mut self, device: DeviceId, offset: u64, length: u64) -> Submitted {
        let at = match self.checked_long_range(device, offset, length) {
            Ok(at) => at,
            Err(error) => return refused(device, error),
        };
        self.record(record::ALLOCATE, &at, 0);
        if let Err(error) = self.take_space(&at) {
            return self.punch(at, Err(error));
        }
        let device = &mut self.devices[at.device];
        let result = device.space_result(&at.range);
        let latency = device.latency(device.spec.latency.write);
        let pending = Some(Change::Allocate(at.range));
        let kind = FlightKind::Change {
            pending,
            version: None,
            durable: false,
        };
        (at.device, kind, result, latency)
    }

    /// The host takes the space of a range back, and the contents with it: as it was asked to, or
    /// because it became full while it gave some.
    fn punch(&mut self, at: DeviceRange, result: Result<(), DiskError>) -> Submitted {
        self.overlapping += u64::from(self.is_being_written(&at));
        self.track_written(at.device, at.range.clone());
        let device = &mut self.devices[at.device];
        let latency = device.latency(device.spec.latency.write);
        device.damage.clear(at.range.clone());
        let pending = Some(Change::Punch(at.range));
        let kind = self.maybe_now(at.device, pending, false);
        (at.device, kind, result, latency)
    }

    fn submit_flush(&mut self, device: DeviceId) -> Submitted {
        let Some(index) = self.device_index(device) else {
            return refused(device, DiskError::Gone);
        };
        self.record(
            record::FLUSH,
            &DeviceRange {
                device: index,
                range: 0..0,
            },
            0,
        );
        let device = &mut self.devices[index];
        let latency = device.latency(device.spec.latency.flush);
        let failed = device.rng.one_in(device.faults.flush_error);
        let result = if failed {
            device.counts.loud(Fault::FlushError);
            Err(DiskError::Io(EIO))
        } else {
            Ok(())
        };
        let is_lost = device.rng.one_in(device.faults.lost_flush);
        device.counts.fired[Fault::LostFlush] += u64::from(is_lost);
        (index, FlightKind::Flush { is_lost }, result, latency)
    }

    /// Lets a change take effect already at submission, or leaves that to its completion.
    fn maybe_now(&mut self, index: usize, pending: Option<Change>, durable: bool) -> FlightKind {
        let version = self.next_tick();
        let device = &mut self.devices[index];
        match pending {
            Some(change) if device.rng.one_in(2) => {
                device.take_effect(change, version);
                FlightKind::Change {
                    pending: None,
                    version: Some(version),
                    durable,
                }
            }
            pending => FlightKind::Change {
                pending,
                version: None,
                durable,
            },
        }
    }

    pub(super) fn complete(&mut self, number: u64) {
        let mut flight = self
            .flights
            .remove(&number)
            .expect("an operation completes once");
        let tick = self.next_tick();
        let overtook = self
            .flights
            .range(..number)
            .any(|(_, f)| f.device == flight.device);
        self.reordered += u64::from(overtook);
        let known = flight.device < self.devices.len();
        if known && self.devices[flight.device].gone {
            let device = &mut self.devices[flight.device];
            device.counts.loud(Fault::Vanished);
            flight.result = Err(DiskError::Gone);
            if let FlightKind::Change { pending, .. } = &mut flight.kind
                && device.rng.one_in(2)
            {
                *pending = None;
            }
        }
        let mut pages = Vec::new();
        match flight.kind {
            FlightKind::Read {
                first,
                pages: mut buffers,
                filled,
            } => {
                if flight.result.is_ok() && !filled {
                    flight.result = self.devices[flight.device].read(first, &mut buffers);
                }
                if flight.result.is_ok() {
                    pages = buffers;
                }
            }
            FlightKind::Change {
                pending,
                mut version,
                durable,
            } => {
                let device = &mut self.devices[flight.device];
                if let Some(change) = pending {
                    device.take_effect(change, tick);
                    version = Some(tick);
                }
                if let Some(version) = version {
                    device.complete(version, tick);
                    if durable && flight.result.is_ok() {
                        device.harden(version);
                    }
                }
            }
            FlightKind::Flush { is_lost } => {
                let device = &mut self.devices[flight.device];
                match flight.result {
                    Ok(()) if is_lost => device.claim_before(flight.submitted),
                    Ok(()) => device.harden_before(flight.submitted),
                    Err(_) => {}
                }
            }
            FlightKind::Refused => {}
        }
        let code = flight.result.err().map_or(0, error_code);
        self.digest
            .numbers(&[record::COMPLETE, number, self.now, code]);
        let (reactor, token, result) = (flight.reactor, flight.token, flight.result);
        self.trace_line(|| {
            format!("complete #{number} token {token:#x} on reactor {reactor}: {result:?}")
        });
        self.reactors[reactor].done.push_back(Completion {
            token,
            result,
            pages,
        });
        self.reactors[reactor].runnable = true;
    }

    // Blocking calls.

    pub(super) fn read_now(
        &mut self,
        device: DeviceId,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<(), DiskError> {
        let at = self.range_alive(device, offset, buffer.len() as u64)?;
        self.track_read(at.device, at.range.clone());
        let count = buffer.len() / BLOCK_SIZE;
        let mut pages: Vec<Page> = (0..count).map(|_| Page::zeroed()).collect();
        self.devices[at.device].read(at.range.start, &mut pages)?;
        for (piece, page) in buffer.chunks_mut(BLOCK_SIZE).zip(&pages) {
            piece.copy_from_slice(&page[..]);
        }
        Ok(())
    }

    pub(super) fn write_now(
        &mut self,
        device: DeviceId,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), DiskError> {
        let at = self.range_alive(device, offset, bytes.len() as u64)?;
        let pages: Vec<PageRef> = bytes.chunks(BLOCK_SIZE).map(page_of).collect();
        self.record(record::WRITE, &at, pages_print(&pages));
        self.take_space(&at)?;
        self.track_written(at.device, at.range.clone());
        let version = self.next_tick();
        let change = Change::write(at.range.start, pages);
        let device = &mut self.devices[at.device];
        if device.faults.concern(&at.range) && device.rng.one_in(device.faults.write_error) {
            device.counts.loud(Fault::WriteError);
            let part = change.torn(Grain::Sector, &device.live, &mut device.rng);
            device.take_effect(part, version);
            self.count_write();
            return Err(DiskError::Io(EIO));
        }
        if let Some(change) = device.deflected(change, &at.range) {
            device.take_effect(change, version);
        }
        self.count_write();
        if self.is_dead() {
            return Err(DiskError::Gone);
        }
        let tick = self.next_tick();
        self.devices[at.device].complete(version, tick);
        Ok(())
    }

    pub(super) fn flush_now(&mut self, device: DeviceId) -> Result<(), DiskError> {
        let at = self.range_alive(device, 0, 0)?;
        self.record(record::FLUSH, &at, 0);
        let tick = self.next_tick();
        let device = &mut self.devices[at.device];
        if device.rng.one_in(device.faults.flush_error) {
            device.counts.loud(Fault::FlushError);
            return Err(DiskError::Io(EIO));
        }
        device.harden_before(tick);
        Ok(())
    }

    pub(super) fn allocate_now(
        &mut self,
        device: DeviceId,
        offset: u64,
        length: u64,
    ) -> Result<(), DiskError> {
        let at = self.range_alive(device, offset, length)?;
        self.record(record::ALLOCATE, &at, 0);
        self.take_space(&at)?;
        self.devices[at.device].space_result(&at.range)?;
        let (version, completed) = (self.next_tick(), self.next_tick());
        let device = &mut self.devices[at.device];
        device.take_effect(Change::Allocate(at.range), version);
        device.complete(version, completed);
        Ok(())
    }

    // Checks.

    /// The range of a blocking call, if there is anybody to answer it.
    fn range_alive(
        &mut self,
        device: DeviceId,
        offset: u64,
        length: u64,
    ) -> Result<DeviceRange, DiskError> {
        if self.is_dead() {
            return Err(DiskError::Gone);
        }
        let at = self.checked_long_range(device, offset, length)?;
        let device = &mut self.devices[at.device];
        if device.gone {
            device.counts.loud(Fault::Vanished);
            return Err(DiskError::Gone);
        }
        Ok(at)
    }

    /// The range of an operation of the data path. Misaligned or too long is a bug of the caller.
    fn checked_range(
        &mut self,
        device: DeviceId,
        offset: u64,
        length: usize,
    ) -> Result<DeviceRange, DiskError> {
        assert!(length > 0, "an operation without pages");
        assert!(
            length <= OP_BYTES_MAX,
            "an operation of {length} bytes, more than 1 MiB"
        );
        self.checked_long_range(device, offset, length as u64)
    }

    fn checked_long_range(
        &mut self,
        device: DeviceId,
        offset: u64,
        length: u64,
    ) -> Result<DeviceRange, DiskError> {
        let block = BLOCK_SIZE as u64;
        assert!(
            offset.is_multiple_of(block),
            "offset {offset} is not that of a block"
        );
        assert!(
            length.is_multiple_of(block),
            "{length} bytes are not whole blocks"
        );
        let index = self.device_index(device).ok_or(DiskError::Gone)?;
        let device = &mut self.devices[index];
        match offset.checked_add(length) {
            Some(end) if end <= device.spec.size_bytes => Ok(DeviceRange {
                device: index,
                range: offset / block..end / block,
            }),
            _ => {
                device.counts.out_of_range += 1;
                Err(DiskError::Io(EINVAL))
            }
        }
    }

    fn device_index(&self, device: DeviceId) -> Option<usize> {
        usize::try_from(device.0)
            .ok()
            .filter(|&index| index < self.devices.len())
    }

    /// Takes what `at` needs from the host at once, so that two writers never share a byte.
    fn take_space(&mut self, at: &DeviceRange) -> Result<(), DiskError> {
        let free = self.host_free();
        let device = &mut self.devices[at.device];
        let missing = device.blocks_unallocated(&at.range);
        if missing == 0 {
            return Ok(());
        }
        let short = free.is_some_and(|free| missing * BLOCK_SIZE as u64 > free);
        let unlucky = device.faults.concern(&at.range) && device.rng.one_in(device.faults.no_space);
        if short || unlucky {
            device.counts.loud(Fault::NoSpace);
            return Err(DiskError::NoSpace);
        }
        device.live_allocated.insert(at.range.clone());
        Ok(())
    }

    fn is_being_written(&self, at: &DeviceRange) -> bool {
        let others = self
            .flights
            .values()
            .filter(|flight| flight.device == at.device);
        others.into_iter().any(|flight| match &flight.kind {
            FlightKind::Change {
                pending: Some(change),
                ..
            } => touches(change, &at.range),
            FlightKind::Change {
                version: Some(version),
                ..
            } => {
                let entry = self.devices[at.device].unflushed(*version);
                entry.is_some_and(|entry| touches(&entry.change, &at.range))
            }
            _ => false,
        })
    }

    /// Records the size of a device that has appeared or become larger.
    pub(super) fn record_size(&mut self, device: usize) {
        let (size, now) = (self.devices[device].spec.size_bytes, self.now);
        self.digest
            .numbers(&[record::SIZE, device as u64, size, now]);
        self.trace_line(|| format!("device {device} has {size} bytes"));
    }

    fn record(&mut self, what: u64, at: &DeviceRange, print: u64) {
        let (device, range, now) = (at.device, at.range.clone(), self.now);
        self.digest
            .numbers(&[what, device as u64, range.start, range.end, print, now]);
        self.trace_line(|| {
            let names = ["", "read", "write", "punch", "allocate", "flush"];
            let name = usize::try_from(what)
                .ok()
                .and_then(|w| names.get(w))
                .unwrap_or(&"");
            format!("{name} device {device} blocks {range:?} contents {print:016x}")
        });
    }
}

/// Device index, what to do, what to report, how long it takes.
type Submitted = (usize, FlightKind, Result<(), DiskError>, Nanos);

/// Operations that fail at once still take a moment.
const REFUSAL_LATENCY: Nanos = 1_000;

fn refused(device: DeviceId, error: DiskError) -> Submitted {
    (
        device.0 as usize,
        FlightKind::Refused,
        Err(error),
        REFUSAL_LATENCY,
    )
}

fn touches(change: &Change, range: &Range<u64>) -> bool {
    match change {
        Change::Write(blocks) => blocks.iter().any(|(block, _)| range.contains(block)),
        Change::Punch(other) => other.start < range.end && range.start < other.end,
        Change::Allocate(_) => false,
    }
}

fn page_of(bytes: &[u8]) -> PageRef {
    let mut page = Page::zeroed();
    page[..bytes.len()].copy_from_slice(bytes);
    page.freeze()
}

fn pages_print(pages: &[PageRef]) -> u64 {
    let prints = pages.iter().map(|page| halves(fingerprint(&page[..])));
    prints.fold(0, |all, (high, low)| {
        scramble(scramble(all).wrapping_add(low) ^ high)
    })
}

fn error_code(error: DiskError) -> u64 {
    match error {
        DiskError::NoSpace => 1,
        DiskError::Gone => 2,
        DiskError::Io(errno) => 3 + u64::from(errno.unsigned_abs()),
    }
}
