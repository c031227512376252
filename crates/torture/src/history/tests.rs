//! Small histories with known outcomes.

use super::*;

const WRITE: Kind = Kind::Write;
const ZEROES: Kind = Kind::Zeroes;

/// One sector's answer to whether a crash may leave this.
fn may(history: &History, sector: u64, found: Found) -> bool {
    let may: Vec<u64> = history.may_remain(sector).collect();
    history.judge(sector, found, may.into_iter()).is_none()
}

#[test]
fn what_was_not_flushed_may_be_there_or_not() {
    let mut history = History::new(8, false);
    let first = history.begin(WRITE, 0, 1, false);
    assert!(may(&history, 0, Found::Zeroes) && may(&history, 0, Found::Version(first)));
    history.end(first);
    assert!(may(&history, 0, Found::Zeroes) && may(&history, 0, Found::Version(first)));
    let flush = history.begin_flush();
    let second = history.begin(WRITE, 0, 1, false);
    history.end(second);
    assert!(may(&history, 0, Found::Zeroes));
    history.end_flush(flush);
    assert!(
        !may(&history, 0, Found::Zeroes),
        "the flush covers the first"
    );
    assert!(
        may(&history, 0, Found::Version(first)),
        "but not the second"
    );
    assert!(may(&history, 0, Found::Version(second)));
    assert!(!may(&history, 0, Found::Garbage));
    assert_eq!(history.undecided(), 1);
}

#[test]
fn a_forced_write_replaces_what_was_before_it_and_not_what_overlapped_it() {
    let mut history = History::new(8, false);
    let old = history.begin(WRITE, 0, 2, false);
    history.end(old);
    let beside = history.begin(WRITE, 0, 2, false);
    let forced = history.begin(WRITE, 0, 1, true);
    history.end(forced);
    assert!(!may(&history, 0, Found::Version(old)));
    assert!(may(&history, 0, Found::Version(beside)));
    assert!(may(&history, 0, Found::Version(forced)));
    assert!(may(&history, 1, Found::Version(old)));
}

#[test]
fn where_every_reply_means_durable_a_reply_is_enough() {
    let mut history = History::new(8, true);
    let zeroes = history.begin(ZEROES, 0, 8, false);
    history.end(zeroes);
    let write = history.begin(WRITE, 4, 1, false);
    assert!(may(&history, 4, Found::Zeroes));
    history.end(write);
    assert!(!may(&history, 4, Found::Zeroes));
    assert!(may(&history, 3, Found::Zeroes));
}

#[test]
fn a_read_sees_what_was_answered_before_it_was_sent() {
    let mut history = History::new(8, false);
    let first = history.begin(WRITE, 0, 1, false);
    let early = history.begin_read();
    history.end(first);
    let late = history.begin_read();
    let violations = history.end_read(late, 0, &[Found::Zeroes]);
    assert_eq!(violations.len(), 1, "{violations:?}");
    assert_eq!(history.end_read(early, 0, &[Found::Zeroes]), []);
}

#[test]
fn a_write_is_there_whole_or_not_at_all() {
    let mut history = History::new(4, false);
    let torn = history.begin(WRITE, 0, 3, false);
    let found = [
        Found::Version(torn),
        Found::Zeroes,
        Found::Version(torn),
        Found::Zeroes,
    ];
    let violations = history.settle(&found);
    assert_eq!(violations.len(), 1, "{violations:?}");
    assert_eq!(violations[0].sector, 1);

    let mut history = History::new(4, false);
    let write = history.begin(WRITE, 0, 3, false);
    let zeroes = history.begin(ZEROES, 1, 1, false);
    let _ = zeroes;
    let found = [
        Found::Version(write),
        Found::Zeroes,
        Found::Version(write),
        Found::Zeroes,
    ];
    assert_eq!(
        history.settle(&found),
        [],
        "the zeroes may be the later ones"
    );
}

#[test]
fn what_was_found_stays() {
    let mut history = History::new(2, false);
    let lost = history.begin(WRITE, 0, 2, false);
    history.end(lost);
    assert_eq!(history.settle(&[Found::Zeroes; 2]), []);
    assert_eq!(history.settle(&[Found::Version(lost); 2]).len(), 2);
}

#[test]
fn lists_stay_short() {
    let mut history = History::new(1, false);
    for _ in 0..100 {
        let version = history.begin(WRITE, 0, 1, true);
        history.end(version);
    }
    assert!(history.sectors[0].len() <= LIST_MAX);
    let read = history.begin_read();
    for _ in 0..100 {
        let version = history.begin(WRITE, 0, 1, true);
        history.end(version);
    }
    assert!(
        history.sectors[0].len() > 100,
        "an old read may see any of them"
    );
    assert_eq!(history.end_read(read, 0, &[Found::Version(100)]), []);
}
