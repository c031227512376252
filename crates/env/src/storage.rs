//! Blocking access to the devices of a world, for start-up and offline tools. Data goes through
//! pages, because the host wants aligned memory.

use std::ops::Range;

use crate::device::Piece;
use crate::outside::write_zeroes;
use crate::transfer::{self, Fault};
use crate::{BLOCK_SIZE, DeviceId, DiskError, Page, PageRef, SegmentFault, Storage, World};

/// Bytes per call to the host.
const UNIT: usize = 1 << 20;

impl Storage for World {
    fn name(&self, device: DeviceId) -> String {
        let path = self
            .info(device)
            .map(|info| info.path.display().to_string());
        path.unwrap_or_else(|| device.0.to_string())
    }

    fn size_bytes(&self, device: DeviceId) -> u64 {
        self.opened(device).map_or(0, |device| device.size_bytes())
    }

    fn read(&self, device: DeviceId, offset: u64, buffer: &mut [u8]) -> Result<(), DiskError> {
        let device = self.opened(device)?;
        device.assert_range(offset, buffer.len() as u64);
        let mut rest = buffer;
        for piece in units(device.pieces(offset, rest.len() as u64)) {
            let (part, later) = rest.split_at_mut(length(piece));
            match device.open_segment(piece.segment, false, self.budget())? {
                None => part.fill(0),
                Some(file) => {
                    let mut pages = new_pages(part.len());
                    transfer::read_whole(&file, piece.offset, &mut pages)
                        .map_err(Fault::disk_error)?;
                    for (to, from) in part.chunks_exact_mut(BLOCK_SIZE).zip(&pages) {
                        to.copy_from_slice(&**from);
                    }
                }
            }
            rest = later;
        }
        Ok(())
    }

    fn write(&self, device: DeviceId, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
        let device = self.opened(device)?;
        device.assert_range(offset, bytes.len() as u64);
        let mut rest = bytes;
        for piece in units(device.pieces(offset, rest.len() as u64)) {
            let (part, later) = rest.split_at(length(piece));
            let Some(file) = device.open_segment(piece.segment, true, self.budget())? else {
                return Err(DiskError::Gone);
            };
            let mut pages = new_pages(part.len());
            for (to, from) in pages.iter_mut().zip(part.chunks_exact(BLOCK_SIZE)) {
                to.copy_from_slice(from);
            }
            let pages: Vec<PageRef> = pages.into_iter().map(Page::freeze).collect();
            let result = transfer::write_whole(&file, piece.offset, &pages);
            // A failed write counts too: a part of it may have been written.
            device.segment(piece.segment).soil();
            result.map_err(Fault::disk_error)?;
            rest = later;
        }
        Ok(())
    }

    fn flush(&self, device: DeviceId) -> Result<(), DiskError> {
        let device = self.opened(device)?;
        device.flushable()?;
        let mut soiled = device.soiled().into_iter();
        soiled
            .try_for_each(|(segment, written)| device.sync_segment(segment, written, self.budget()))
    }

    fn allocate(&self, device: DeviceId, offset: u64, length: u64) -> Result<(), DiskError> {
        let device = self.opened(device)?;
        device.assert_range(offset, length);
        device.allocate(offset, length, self.budget())
    }

    fn zero(&self, device: DeviceId, offset: u64, length: u64) -> Result<(), DiskError> {
        let opened = self.opened(device)?;
        opened.assert_range(offset, length);
        let mut pieces = opened.pieces(offset, length);
        match pieces.try_for_each(|piece| opened.zero(piece, self.budget())) {
            Err(fault) if fault.is_unsupported() => write_zeroes(self, device, offset, length),
            result => result.map_err(Fault::disk_error),
        }
    }

    fn find_lost(&self, device: DeviceId, written: &[Range<u64>]) -> Vec<SegmentFault> {
        let opened = self.opened(device);
        opened.map_or_else(|_| Vec::new(), |opened| opened.find_lost(device, written))
    }
}

/// Cuts pieces to the size that one call transfers.
fn units(pieces: impl Iterator<Item = Piece>) -> impl Iterator<Item = Piece> {
    pieces.flat_map(|piece| {
        (0..piece.bytes).step_by(UNIT).map(move |at| Piece {
            segment: piece.segment,
            offset: piece.offset + at,
            bytes: (piece.bytes - at).min(UNIT as u64),
        })
    })
}

fn length(piece: Piece) -> usize {
    usize::try_from(piece.bytes).expect("a unit is at most 1 MiB")
}

fn new_pages(bytes: usize) -> Vec<Page> {
    (0..bytes / BLOCK_SIZE).map(|_| Page::for_read()).collect()
}
