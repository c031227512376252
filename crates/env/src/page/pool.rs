//! The memory of all pages of the process, and the counts of their holders.
//!
//! Memory comes in chunks of 2 MiB, aligned to 2 MiB. The first 8 KiB of a chunk are its header.
//! The header has a card for each page, and the card counts the holders of the page. The other 510
//! blocks of the chunk are pages. So the card of a page is found by masking the page's address, and
//! neither pages nor counts are allocated one by one.
//!
//! free: depot (all threads) --64 at a time--> shelf (this thread) --take()--> held, count 1 depot
//! (all threads) --a run of neighbours--> held, count 1 held --share()--> count + 1 --drop()-->
//! count - 1, and at 0 back on the shelf of the dropping thread
//!
//! 1. A page on a shelf or in the depot has no holder and is named exactly once there.
//! 2. Only a holder that found itself alone (count 1) writes.
//! 3. A memo is about the present contents: it is wiped when the page is lent, and when its sole
//!    holder may write again. A memo is made once; a second user finds it, or finds it unfinished
//!    and continues without it.
//! 4. Chunks are never unmapped, so the header of any page that is held stays valid. The address
//!    space is as large as the largest number of pages ever in use at once; the memory behind
//!    unused pages is returned to the kernel after some seconds ([`give_back_spare`]). The users of
//!    pages keep the memory cap, not this module.
//!
//! Memory is always initialised: first by the kernel, with zeroes, later by its last holder.
//!
//! The kernel is asked to back each chunk with one of its large pages. A gigabyte of cached pages
//! is then 512 entries of the processor's tables instead of 262,144 (otherwise every look into the
//! cache would miss there, at twice the cost in a guest), the kernel pins the memory of a transfer
//! with one look-up, and it zeroes 512 pages at once. A host without free large pages uses small
//! ones.
#![expect(
    unsafe_code,
    reason = "the pool hands out raw memory under counted handles"
)]

mod depot;

use std::cell::RefCell;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicIsize, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::BLOCK_SIZE;
use crate::lock::{Mutex, MutexGuard};
use crate::prefetch::{prefetch, prefetch_lines};
use depot::Depot;

const CHUNK_BYTES: usize = 2 << 20;
/// Blocks of a chunk, the header included.
const CHUNK_BLOCKS: usize = CHUNK_BYTES / BLOCK_SIZE;
/// Pages that move between a shelf and the depot at once, so that the depot's lock is rare.
const BATCH: usize = 64;
/// Pages a thread may keep for itself.
const SHELF_MAX: usize = 2 * BATCH;
/// More holders than this mean a leak of handles; the count must never wrap.
const HOLDERS_MAX: u32 = u32::MAX / 2;
/// Number of counters of pages in use, so that threads do not share a cache line.
const TALLIES: usize = 16;

/// Blocks of a chunk that its header takes.
const HEADER_BLOCKS: usize = 2;
/// The page has no memo.
const NO_MEMO: u32 = 0;
/// Somebody is about to leave a memo.
const WRITING: u32 = 1;

#[repr(C, align(4096))]
struct Header {
    /// One card for each block of the chunk, the header's own blocks included. The memo of the
    /// first card says which chunk of the depot this is.
    cards: [Card; CHUNK_BLOCKS],
}

/// The card of a page.
#[repr(C)]
struct Card {
    holders: AtomicU32,
    /// The author of the memo, or `NO_MEMO`, or `WRITING`.
    author: AtomicU32,
    memo: AtomicU64,
}

/// Returns the block of its chunk that a page is.
fn block_of(page: NonNull<[u8; BLOCK_SIZE]>) -> usize {
    (page.addr().get() % CHUNK_BYTES) / BLOCK_SIZE
}

/// Returns the header of a page's chunk.
fn header(page: NonNull<[u8; BLOCK_SIZE]>) -> &'static Header {
    let header = page
        .as_ptr()
        .map_addr(|address| address & !(CHUNK_BYTES - 1))
        .cast::<Header>();
    // SAFETY: every page lies in a chunk aligned to its size which starts with a header, is
    // never unmapped, and whose header is only touched through atomics.
    unsafe { &*header }
}

const _: () = assert!(size_of::<Header>() == HEADER_BLOCKS * BLOCK_SIZE);

/// One holder's handle to a page.
pub(super) struct Memory(NonNull<[u8; BLOCK_SIZE]>);

// SAFETY: the memory is not bound to a thread, its count is atomic, and writing needs `&mut` on the
// handle of a sole holder (invariant 2).
unsafe impl Send for Memory {}
// SAFETY: as above; `&Memory` gives only reads.
unsafe impl Sync for Memory {}

impl Memory {
    /// Takes a page with one holder and arbitrary contents.
    pub(super) fn take() -> Memory {
        let free = SHELF
            .try_with(|shelf| shelf.borrow_mut().take())
            .unwrap_or_else(|_| take_without_shelf());
        free.lend()
    }

    /// Takes this number of pages, neighbours if possible, each with one holder and arbitrary
    /// contents.
    pub(super) fn take_run(count: usize) -> Vec<Memory> {
        let mut free = Vec::with_capacity(count);
        depot().take(count, &mut free);
        let taken = isize::try_from(count).expect("fewer pages than bytes");
        let _ = SHELF
            .try_with(|shelf| {
                TALLY[shelf.borrow().tally]
                    .0
                    .fetch_add(taken, Ordering::Relaxed)
            })
            .unwrap_or_else(|_| TALLY[0].0.fetch_add(taken, Ordering::Relaxed));
        free.into_iter().map(Free::lend).collect()
    }

    pub(super) fn address(&self) -> *const u8 {
        self.0.as_ptr().cast()
    }

    /// Returns whether this is the only handle; then the writes of former holders are visible.
    pub(super) fn is_unique(&self) -> bool {
        self.holders().load(Ordering::Acquire) == 1
    }

    pub(super) fn bytes(&self) -> &[u8; BLOCK_SIZE] {
        // SAFETY: a held page is mapped and initialised (invariant 4), and nobody writes to it
        // while a shared borrow of a handle exists (invariant 2).
        unsafe { self.0.as_ref() }
    }

    /// Returns the bytes to the only holder, a [`super::Page`].
    pub(super) fn bytes_mut(&mut self) -> &mut [u8; BLOCK_SIZE] {
        assert!(self.is_unique(), "a page has one owner");
        // SAFETY: mapped and initialised; this is the only handle and it is borrowed mutably.
        unsafe { self.0.as_mut() }
    }

    /// The memo that `author` left about the contents.
    pub(super) fn memo(&self, author: u32) -> Option<u64> {
        let card = self.card();
        let is_there = card.author.load(Ordering::Acquire) == author;
        is_there.then(|| card.memo.load(Ordering::Relaxed))
    }

    /// Leaves a memo, if there is none yet.
    pub(super) fn leave_memo(&self, author: u32, memo: u64) {
        assert!(author > WRITING, "the first numbers are ours");
        let card = self.card();
        let (from, to) = (NO_MEMO, WRITING);
        let order = (Ordering::Acquire, Ordering::Relaxed);
        if card
            .author
            .compare_exchange(from, to, order.0, order.1)
            .is_ok()
        {
            card.memo.store(memo, Ordering::Relaxed);
            card.author.store(author, Ordering::Release);
        }
    }

    /// Wipes the memo, because the only holder is about to change the contents.
    pub(super) fn wipe_note(&mut self) {
        self.card().author.store(NO_MEMO, Ordering::Relaxed);
    }

    /// Asks the processor for the card and the first lines.
    pub(super) fn prefetch(&self, lines: usize) {
        prefetch(self.card());
        prefetch_lines(self.address(), lines);
    }

    fn holders(&self) -> &AtomicU32 {
        &self.card().holders
    }

    fn card(&self) -> &Card {
        &header(self.0).cards[block_of(self.0)]
    }
}

impl Clone for Memory {
    fn clone(&self) -> Memory {
        let before = self.holders().fetch_add(1, Ordering::Relaxed);
        assert!(before < HOLDERS_MAX, "too many holders of a page");
        Memory(self.0)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.holders().fetch_sub(1, Ordering::Release) != 1 {
            return;
        }
        // All accesses of earlier holders happen before the page is reused.
        fence(Ordering::Acquire);
        let free = Free(self.0);
        if let Err(free) = put_on_shelf(free) {
            TALLY[0].0.fetch_sub(1, Ordering::Relaxed);
            depot().give([free]);
        }
    }
}

/// A free page.
struct Free(NonNull<[u8; BLOCK_SIZE]>);

// SAFETY: a free page belongs to the owner of this value, on any thread.
unsafe impl Send for Free {}

impl Free {
    fn lend(self) -> Memory {
        let mut memory = Memory(self.0);
        memory.wipe_note();
        let before = memory.holders().swap(1, Ordering::Relaxed);
        assert_eq!(before, 0, "a free page has no holder");
        memory
    }
}

/// The free pages of one thread.
struct Shelf {
    free: Vec<Free>,
    tally: usize,
}

thread_local! {
    static SHELF: RefCell<Shelf> = RefCell::new(Shelf::new());
}

impl Shelf {
    fn new() -> Shelf {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        Shelf {
            free: Vec::with_capacity(SHELF_MAX),
            tally: NEXT.fetch_add(1, Ordering::Relaxed) % TALLIES,
        }
    }

    fn take(&mut self) -> Free {
        if self.free.is_empty() {
            // Lent from the end, so in ascending order.
            depot().take(BATCH, &mut self.free);
            self.free.reverse();
            self.free.reserve(SHELF_MAX - self.free.len());
        }
        TALLY[self.tally].0.fetch_add(1, Ordering::Relaxed);
        self.free.pop().expect("a refilled shelf has pages")
    }

    fn put(&mut self, free: Free) {
        if self.free.len() == SHELF_MAX {
            depot().give(self.free.drain(BATCH..));
        }
        self.free.push(free);
        TALLY[self.tally].0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Shelf {
    fn drop(&mut self) {
        depot().give(self.free.drain(..));
    }
}

/// Takes a page for a thread that is ending and has no shelf any more.
fn take_without_shelf() -> Free {
    TALLY[0].0.fetch_add(1, Ordering::Relaxed);
    let mut free = Vec::with_capacity(1);
    depot().take(1, &mut free);
    free.pop().expect("a depot gives what was asked")
}

/// Puts the page on this thread's shelf. If the thread is ending and has no shelf any more, returns
/// the page to the caller.
fn put_on_shelf(free: Free) -> Result<(), Free> {
    let mut free = Some(free);
    let done = SHELF.try_with(|shelf| {
        if let Some(free) = free.take() {
            shelf.borrow_mut().put(free);
        }
    });
    match (done, free) {
        (Ok(()), _) | (Err(_), None) => Ok(()),
        (Err(_), Some(free)) => Err(free),
    }
}

/// One counter of pages in use; alone on its cache lines.
#[repr(align(128))]
struct Tally(AtomicIsize);

/// Signed, because a page may be taken on one thread and dropped on another: only the sum counts.
static TALLY: [Tally; TALLIES] = [const { Tally(AtomicIsize::new(0)) }; TALLIES];

pub(super) fn pages_in_use() -> usize {
    let sum: isize = TALLY
        .iter()
        .map(|tally| tally.0.load(Ordering::Relaxed))
        .sum();
    usize::try_from(sum).unwrap_or(0)
}

/// The state that the caller of `give_back_spare` keeps from one call to the next.
#[derive(Default)]
pub(crate) struct Watch {
    moves: u64,
    /// Checks since pages last moved. `None` once the heap was trimmed.
    calm: Option<u32>,
}

/// Checks without movement after which the heap is trimmed.
const CALM_LOOKS: u32 = 3;

/// Returns memory to the kernel that was not needed for some seconds: pages, and then unused memory
/// of the heap once no page moves. Called once a second. Costs nothing while nothing happens.
pub(crate) fn give_back_spare(watch: &mut Watch) {
    let (mut spare, moves) = {
        let mut depot = depot();
        (depot.spare(), depot.moves())
    };
    while spare > 0 {
        // The lock is held for one chunk at a time.
        let Some(given) = depot().give_back() else {
            break;
        };
        spare = spare.saturating_sub(given);
    }
    if watch.moves != moves {
        watch.moves = moves;
        watch.calm = Some(0);
    } else if let Some(looks) = &mut watch.calm {
        *looks += 1;
        if *looks == CALM_LOOKS {
            watch.calm = None;
            trim_heap();
        }
    }
}

/// Gives free memory of the heap back to the kernel, where the C library can.
fn trim_heap() {
    #[cfg(target_env = "gnu")]
    {
        unsafe extern "C" {
            fn malloc_trim(pad: usize) -> std::ffi::c_int;
        }
        // SAFETY: it may be called at any time on any thread, and touches free memory only.
        let _ = unsafe { malloc_trim(0) };
    }
}

/// Lets the kernel take the memory of these blocks of a chunk, which then read as zeroes. Returns
/// whether the kernel accepted.
fn forget(chunk: NonNull<u8>, blocks: std::ops::Range<usize>) -> bool {
    let (offset, length) = (blocks.start * BLOCK_SIZE, blocks.len() * BLOCK_SIZE);
    assert!(
        offset + length <= CHUNK_BYTES,
        "a chunk has {CHUNK_BLOCKS} blocks"
    );
    // SAFETY: within the chunk, which is ours and never unmapped. Nobody holds a page of these
    // (they are in the depot, whose lock the caller has), and a header is among them only if nobody
    // holds any page of the chunk.
    unsafe {
        let start = chunk.add(offset).as_ptr().cast();
        rustix::mm::madvise(start, length, Advice::LinuxDontNeed).is_ok()
    }
}

fn depot() -> MutexGuard<'static, Depot> {
    static DEPOT: Mutex<Depot> = Mutex::new(Depot::EMPTY);
    // The depot is consistent wherever a holder of the lock could panic.
    DEPOT.lock()
}

/// Maps [`CHUNK_BYTES`] of zeroed memory, aligned to this size, for ever.
fn map_aligned() -> NonNull<u8> {
    // SAFETY: a fresh anonymous mapping touches no memory that exists.
    let mapped = unsafe {
        rustix::mm::mmap_anonymous(
            std::ptr::null_mut(),
            2 * CHUNK_BYTES,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE,
        )
    };
    let Ok(mapped) = mapped else {
        // Fails like any allocation of the process.
        std::alloc::handle_alloc_error(std::alloc::Layout::new::<[u8; CHUNK_BYTES]>());
    };
    let start = mapped.cast::<u8>();
    let before = start.addr().next_multiple_of(CHUNK_BYTES) - start.addr();
    let after = CHUNK_BYTES - before;
    // SAFETY: `before` and `before + CHUNK_BYTES` lie within the mapping of two chunks; the parts
    // unmapped are outside of the chunk kept and named by nobody. If unmapping
    // fails, only their address space is wasted.
    unsafe {
        let chunk = start.add(before);
        if before > 0 {
            let _ = rustix::mm::munmap(start.cast(), before);
        }
        if after > 0 {
            let _ = rustix::mm::munmap(chunk.add(CHUNK_BYTES).cast(), after);
        }
        // Only advice: the host may not support large pages, or have them switched off.
        let _ = rustix::mm::madvise(chunk.cast(), CHUNK_BYTES, Advice::LinuxHugepage);
        NonNull::new(chunk).expect("a mapping is not at address zero")
    }
}
