//! A process without descriptors: openings of segments wait until there are some, and are no
//! errors.
//!
//! The limit belongs to the whole process, so each test runs again in a process of its own.

use std::fs::File;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use everglade_env::{DeviceId, Op, Outside, World};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::rig::Storage::Memory;
use crate::rig::{BLOCK, Rig, SEGMENT, any_way, pages_of, pattern};

const ALONE: &str = "EVERGLADE_TEST_ALONE";

/// True in the process of its own; otherwise that has run when it returns.
fn is_alone(name: &str) -> bool {
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let itself = std::env::current_exe().unwrap();
    let output = Command::new(itself)
        .args(["--exact", name, "--nocapture"])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("1 passed"), "it ran: {said}");
    false
}

/// Opens files until the process has no descriptor left.
fn take_all() -> Vec<File> {
    let limit = Rlimit {
        current: Some(64),
        ..getrlimit(Resource::Nofile)
    };
    setrlimit(Resource::Nofile, limit).unwrap();
    std::iter::from_fn(|| File::open("/dev/null").ok()).collect()
}

fn write_later(rig: &mut Rig, device: DeviceId, segment: u64) {
    rig.real.submit(
        Op::Write {
            device,
            offset: segment * SEGMENT,
            pages: pages_of(&pattern(segment, BLOCK as usize)),
            durable: true,
        },
        segment,
    );
}

/// Polls until somebody waits for a descriptor; nothing may complete meanwhile.
fn until_somebody_waits(world: &World, rig: &mut Rig) {
    while world.device_files().waits == 0 {
        let mut done = Vec::new();
        rig.real.poll(&mut done);
        assert!(done.is_empty(), "{done:?}");
        rig.real
            .wait(Some(Duration::from_millis(1)), &mut Vec::new());
    }
}

#[test]
fn an_opening_without_descriptors_waits_and_is_no_error() {
    if !is_alone("shortage::an_opening_without_descriptors_waits_and_is_no_error") {
        return;
    }
    let mut rig = any_way(Memory);
    let device = rig.directory(8 * SEGMENT);
    let world = rig.world.clone();
    let taken = take_all();
    for segment in 0..6 {
        write_later(&mut rig, device, segment);
    }
    until_somebody_waits(&world, &mut rig);
    drop(taken);
    let done = rig.finish(6);
    assert!(done.iter().all(|done| done.result.is_ok()), "{done:?}");
    assert_eq!(
        world.info(device).unwrap().errors,
        [("no_space", 0), ("io", 0), ("gone", 0)]
    );
    for segment in 0..6 {
        let read = rig.read(device, segment * SEGMENT, BLOCK as usize).unwrap();
        assert_eq!(read, pattern(segment, BLOCK as usize));
    }
}

#[test]
fn without_descriptors_idle_segments_make_room_for_others() {
    if !is_alone("shortage::without_descriptors_idle_segments_make_room_for_others") {
        return;
    }
    let mut rig = any_way(Memory);
    let device = rig.directory(8 * SEGMENT);
    rig.write(device, 0, &pattern(0, BLOCK as usize)).unwrap();
    let taken = take_all();
    for segment in [1, 2, 3, 2, 1, 0] {
        let bytes = pattern(segment, BLOCK as usize);
        rig.write(device, segment * SEGMENT, &bytes).unwrap();
        assert_eq!(rig.world.open_segments(), 1);
    }
    rig.flush(device).unwrap();
    assert!(!taken.is_empty());
}

#[test]
fn a_device_that_is_closed_ends_the_wait() {
    if !is_alone("shortage::a_device_that_is_closed_ends_the_wait") {
        return;
    }
    let mut rig = any_way(Memory);
    let device = rig.directory(8 * SEGMENT);
    let world = rig.world.clone();
    let taken = take_all();
    write_later(&mut rig, device, 1);
    until_somebody_waits(&world, &mut rig);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            world.close(device);
            is_over.store(true, Ordering::Relaxed);
        });
        let done = rig.finish(1);
        assert!(done[0].result.is_err());
    });
    assert!(is_over.load(Ordering::Relaxed));
    drop(taken);
}
