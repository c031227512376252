//! A device in memory whose operations complete at once, in order. The cost is minimal, so that the
//! server's instructions are counted.

use std::sync::Arc;

use everglade_env::lock::{Mutex, MutexGuard};
use everglade_env::{
    BLOCK_SIZE, Completion, DeviceId, DiskError, Nanos, Op, Outside, Page, PageRef, Storage,
};

/// Blocks by number; nothing where nothing was written.
#[derive(Clone)]
pub(crate) struct Ram(Arc<Mutex<Vec<Option<PageRef>>>>);

impl Ram {
    pub(crate) fn new(bytes: u64) -> Ram {
        let blocks = block_index(bytes);
        Ram(Arc::new(Mutex::new(vec![None; blocks])))
    }

    fn blocks(&self) -> MutexGuard<'_, Vec<Option<PageRef>>> {
        self.0.lock()
    }
}

fn block_index(offset: u64) -> usize {
    usize::try_from(offset).expect("memory is addressable") / BLOCK_SIZE
}

impl Storage for Ram {
    fn size_bytes(&self, _device: DeviceId) -> u64 {
        (self.blocks().len() * BLOCK_SIZE) as u64
    }

    fn read(&self, _device: DeviceId, offset: u64, buffer: &mut [u8]) -> Result<(), DiskError> {
        let blocks = self.blocks();
        for (block, to) in blocks[block_index(offset)..]
            .iter()
            .zip(buffer.chunks_exact_mut(BLOCK_SIZE))
        {
            match block {
                Some(page) => to.copy_from_slice(&**page),
                None => to.fill(0),
            }
        }
        Ok(())
    }

    fn write(&self, _device: DeviceId, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
        let mut blocks = self.blocks();
        for (block, from) in blocks[block_index(offset)..]
            .iter_mut()
            .zip(bytes.chunks_exact(BLOCK_SIZE))
        {
            let mut page = Page::for_read();
            page.copy_from_slice(from);
            *block = Some(page.freeze());
        }
        Ok(())
    }

    fn flush(&self, _device: DeviceId) -> Result<(), DiskError> {
        Ok(())
    }

    fn allocate(&self, _device: DeviceId, _offset: u64, _length: u64) -> Result<(), DiskError> {
        Ok(())
    }
}

/// The device as the engine sees it. Time passes only when the rig advances it.
pub(crate) struct RamOutside {
    ram: Ram,
    done: Vec<Completion>,
    now: Nanos,
}

impl RamOutside {
    pub(crate) fn new(ram: &Ram) -> RamOutside {
        RamOutside {
            ram: ram.clone(),
            done: Vec::new(),
            now: 1,
        }
    }
}

impl Outside for RamOutside {
    fn submit(&mut self, op: Op, token: u64) {
        let mut blocks = self.ram.blocks();
        let pages = match op {
            Op::Read {
                offset, mut pages, ..
            } => {
                for (page, block) in pages.iter_mut().zip(&blocks[block_index(offset)..]) {
                    match block {
                        Some(content) => page.copy_from_slice(&**content),
                        None => page.fill(0),
                    }
                }
                pages
            }
            Op::Write { offset, pages, .. } => {
                for (page, block) in pages.into_iter().zip(&mut blocks[block_index(offset)..]) {
                    *block = Some(page);
                }
                Vec::new()
            }
            Op::Flush { .. } | Op::Allocate { .. } | Op::Punch { .. } => Vec::new(),
        };
        self.done.push(Completion {
            token,
            result: Ok(()),
            pages,
        });
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        done.append(&mut self.done);
    }

    fn now(&self) -> Nanos {
        self.now
    }

    fn thread_cpu(&self) -> Nanos {
        self.now()
    }

    fn wall_seconds(&self) -> u64 {
        1
    }

    fn random(&mut self) -> u64 {
        4
    }

    fn wake(&self, _reactor: usize) {}

    fn host_free_bytes(&self, _device: DeviceId) -> Option<u64> {
        None
    }
}
