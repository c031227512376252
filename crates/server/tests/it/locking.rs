//! One daemon at a time.
//!
//! flock belongs to the open file, so two openings in one process exclude each other as two
//! processes do; the test of two processes is with the binary.

use std::os::unix::net::UnixListener;

use everglade_server::DataDir;
use everglade_server::datadir::DataDirError;
use everglade_server::offline::Offline;

use crate::world::{World, make_aggregate};

#[test]
fn a_second_instance_is_refused_and_told_who_the_first_is() {
    let world = World::missing();
    let first = world.open().expect("a first start");
    let message = world.refusal();
    let holder = format!("in use by process {} (", std::process::id());
    assert!(message.contains(&holder), "'{holder}' is not in: {message}");
    drop(first);
    world.open().expect("the lock goes with the holder");
}

/// A racer that checked between the other's lock and its `FORMAT` once took the directory for a
/// foreign one, so the race is run often, through the whole of a first start.
#[test]
fn two_first_starts_at_once_leave_one_daemon() {
    for _ in 0..100 {
        let world = World::missing();
        let race = || {
            let mut directory = world.open()?;
            make_aggregate(&mut directory);
            Ok(directory)
        };
        let won: Vec<Result<DataDir, DataDirError>> = std::thread::scope(|scope| {
            let racers: Vec<_> = (0..4).map(|_| scope.spawn(race)).collect();
            racers
                .into_iter()
                .map(|racer| racer.join().expect("no panic"))
                .collect()
        });
        assert_eq!(won.iter().filter(|outcome| outcome.is_ok()).count(), 1);
        for refused in won.iter().filter_map(|outcome| outcome.as_ref().err()) {
            assert!(refused.to_string().contains("in use"), "{refused}");
        }
    }
}

#[test]
fn a_lock_file_of_a_dead_daemon_locks_nothing() {
    let world = World::served();
    world.put("LOCK", "4194304999\n");
    world.open().expect("a start after a crash");
    world.put("LOCK", "not a pid\u{fffd}");
    world.open().expect("a start over garbage");
}

#[test]
fn a_refused_second_instance_leaves_the_sockets_of_the_first_alone() {
    let world = World::missing();
    let _first = world.open().expect("a first start");
    let _listener = UnixListener::bind(world.path.join("run/nbd.sock")).expect("bind");
    world.refusal();
    assert!(world.has("run/nbd.sock"));
}

#[test]
fn offline_tools_and_the_daemon_exclude_each_other_but_tools_share() {
    let world = World::served();
    let daemon = world.open().expect("a daemon");
    let error = Offline::open(&world.path)
        .expect_err("a refusal")
        .to_string();
    assert!(error.contains("in use by process"), "{error}");
    drop(daemon);
    let _one = Offline::open(&world.path).expect("one tool");
    let _two = Offline::open(&world.path).expect("two tools");
    let message = world.refusal();
    assert!(message.contains("in use"), "{message}");
}
