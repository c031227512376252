//! Tests of pages.

use super::*;
use crate::lock::Mutex;

/// `pages_in_use` counts the whole process, so tests that read it run one at a time, and no other
/// unit test of this crate may hold pages meanwhile.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn zeroed_is_zero_after_the_memory_was_used() {
    for round in 0..300 {
        let mut pages: Vec<Page> = (0..200).map(|_| Page::zeroed()).collect();
        for page in &mut pages {
            assert!(page.iter().all(|&byte| byte == 0), "round {round}");
            page.fill(0xa5);
        }
    }
}

#[test]
fn pages_are_aligned_and_distinct() {
    let pages: Vec<Page> = (0..2000).map(|_| Page::for_read()).collect();
    let mut addresses: Vec<usize> = pages.iter().map(|page| page.as_ptr().addr()).collect();
    addresses.sort_unstable();
    assert!(
        addresses
            .iter()
            .all(|address| address.is_multiple_of(BLOCK_SIZE))
    );
    assert!(
        addresses
            .windows(2)
            .all(|pair| pair[1] - pair[0] >= BLOCK_SIZE)
    );
}

#[test]
fn thaw_copies_only_when_shared() {
    let mut page = Page::zeroed();
    page[7] = 1;
    let address = page.as_ptr().addr();
    let mut page = page.freeze().thaw();
    assert_eq!(page.as_ptr().addr(), address);
    page[7] = 2;
    let shared = page.freeze();
    let other = shared.clone();
    assert!(PageRef::same_memory(&shared, &other));
    let mut copy = shared.thaw();
    assert_ne!(copy.as_ptr().addr(), address);
    copy[7] = 3;
    assert_eq!(other[7], 2);
    assert_eq!(other.thaw().as_ptr().addr(), address);
}

#[test]
fn the_zero_page_is_shared_and_zero() {
    let zero = PageRef::zero();
    assert!(PageRef::same_memory(&zero, &PageRef::zero()));
    let mut thawed = zero.thaw();
    thawed.fill(9);
    assert!(PageRef::zero().iter().all(|&byte| byte == 0));
}

#[test]
fn churn_on_many_threads_neither_loses_nor_doubles_pages() {
    let _alone = ALONE.lock();
    let (sender, receiver) = crossbeam_channel::bounded::<(u8, PageRef)>(64);
    let threads = 4u8;
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let sender = sender.clone();
            let receiver = receiver.clone();
            scope.spawn(move || {
                let mut held = Vec::new();
                for step in 0..20_000u32 {
                    let mut page = Page::for_read();
                    page.fill(thread);
                    let page = page.freeze();
                    if step % 3 == 0 {
                        let _ = sender.try_send((thread, page.clone()));
                    }
                    held.push(page);
                    if step % 5 == 0
                        && let Ok((filler, page)) = receiver.try_recv()
                    {
                        assert!(page.iter().all(|&byte| byte == filler));
                    }
                    if held.len() > 300 {
                        for page in held.drain(..150) {
                            assert!(page.iter().all(|&byte| byte == thread));
                        }
                    }
                }
            });
        }
    });
    while receiver.try_recv().is_ok() {}
    // Other tests hold a few thousand at most; this one took 80,000.
    assert!(pages_in_use() < 4_000, "{} pages leaked", pages_in_use());
}

#[test]
fn a_note_is_its_authors_and_ends_with_the_contents() {
    let page = Page::zeroed().freeze();
    assert_eq!(page.memo(7), None);
    page.leave_memo(7, 42);
    page.leave_memo(8, 43);
    assert_eq!(
        (page.memo(7), page.memo(8)),
        (Some(42), None),
        "the first stays"
    );
    assert_eq!(page.clone().memo(7), Some(42), "all holders see it");
    let page = page.thaw().freeze();
    assert_eq!(page.memo(7), None, "it could have been written");
    PageRef::zero().leave_memo(7, 1);
    assert_eq!(PageRef::zero().memo(7), None, "it is everybody's");
}

#[test]
fn several_pages_are_in_the_order_of_their_addresses() {
    let mut held = Vec::new();
    for count in [0, 1, 64, 300] {
        let pages = Page::several(count);
        assert_eq!(pages.len(), count);
        let address = |page: &Page| page.as_ptr().addr();
        assert!(pages.is_sorted_by(|a, b| address(a) < address(b)));
        // Pages are dropped in another order, so that the next are not in order by themselves.
        held.extend(pages.into_iter().rev().step_by(2));
    }
}

#[test]
fn what_was_let_go_together_is_lent_as_neighbours_again() {
    let _alone = ALONE.lock();
    let address = |page: &Page| page.as_ptr().addr();
    let mut streams: Vec<Vec<Page>> = (0..200).map(|_| Page::several(32)).collect();
    // Requests are dropped in random order, their pages one at a time.
    while !streams.is_empty() {
        let mut pages = streams.swap_remove(streams.len() * 7 / 11);
        while !pages.is_empty() {
            drop(pages.swap_remove(pages.len() * 3 / 5));
        }
    }
    let again: Vec<Vec<Page>> = (0..100).map(|_| Page::several(32)).collect();
    let pieces = |pages: &Vec<Page>| {
        let apart = |pair: &&[Page]| address(&pair[1]) - address(&pair[0]) != BLOCK_SIZE;
        1 + pages.windows(2).filter(apart).count()
    };
    let pieces: usize = again.iter().map(pieces).sum();
    // Alone it is 110 or so; other tests take pages from between.
    assert!(pieces < 400, "100 requests are {pieces} pieces");
}

/// Bytes of this process that are in memory.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages = text.split(' ').nth(1).unwrap();
    pages.parse::<usize>().unwrap() * rustix::param::page_size()
}

#[test]
fn memory_nobody_has_used_for_some_seconds_goes_back_and_can_be_used_again() {
    const MIB: usize = 1 << 20;
    let _alone = ALONE.lock();
    let mut watch = pool::Watch::default();
    let fill = |byte: u8| {
        let mut pages: Vec<Page> = (0..200).flat_map(|_| Page::several(256)).collect();
        pages.iter_mut().for_each(|page| page.fill(byte));
        pages
    };
    for round in 1..4 {
        let mut pages = fill(round);
        // Some stay, so that chunks are free in part.
        let kept: Vec<Page> = pages.drain(..2000).step_by(200).collect();
        let full = resident();
        drop(pages);
        pool::give_back_spare(&mut watch);
        assert!(resident() > full - 50 * MIB, "somebody may need it again");
        (0..4).for_each(|_| pool::give_back_spare(&mut watch));
        let after = resident();
        assert!(
            after < full - 150 * MIB,
            "round {round}: {} MiB of {}",
            after / MIB,
            full / MIB
        );
        let is_kept = |page: &Page| page.iter().all(|byte| *byte == round);
        assert!(kept.iter().all(is_kept));
        // Once more, and everybody gets pages of their own.
        let mut addresses: Vec<usize> = fill(9).iter().map(|page| page.as_ptr().addr()).collect();
        addresses.extend(kept.iter().map(|page| page.as_ptr().addr()));
        addresses.sort_unstable();
        addresses.dedup();
        assert_eq!(addresses.len(), 200 * 256 + kept.len());
        assert!(kept.iter().all(is_kept));
    }
}
