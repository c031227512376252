//! One wait point: disk, sockets, timers and wake-ups end a sleep at once, and nothing else does.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use everglade_env::{Interest, Op, Outside, World, WorldOptions};

use crate::rig::Storage::{Disk, Memory};
use crate::rig::{BLOCK, Rig, SEGMENT, any_way, dirty_pages, everywhere, one_reactor, pattern};

/// Far more than a wake-up takes, far less than the sleeps here.
const PROMPT: Duration = Duration::from_secs(10);
const LONG: Option<Duration> = Some(Duration::from_secs(20));

#[test]
fn a_disk_completion_ends_the_sleep() {
    everywhere(Disk, |mut rig| {
        let device = rig.directory(4 * SEGMENT);
        rig.write(device, 0, &pattern(1, SEGMENT as usize)).unwrap();
        let start = Instant::now();
        for token in 0..200 {
            rig.real.submit(
                Op::Read {
                    device,
                    offset: 0,
                    pages: dirty_pages(1),
                },
                token,
            );
            let mut done = Vec::new();
            while done.is_empty() {
                rig.real.wait(LONG, &mut Vec::new());
                rig.real.poll(&mut done);
            }
            assert_eq!(done[0].token, token);
        }
        assert!(
            start.elapsed() < PROMPT,
            "{}: {:?}",
            rig.name,
            start.elapsed()
        );
    });
}

#[test]
fn a_worker_that_is_done_ends_the_sleep() {
    everywhere(Disk, |mut rig| {
        let device = rig.directory(4 * SEGMENT);
        let start = Instant::now();
        rig.run(Op::Allocate {
            device,
            offset: 0,
            length: SEGMENT,
        })
        .result
        .unwrap();
        assert!(start.elapsed() < PROMPT, "{}", rig.name);
    });
}

#[test]
fn a_timeout_ends_the_sleep_and_not_before() {
    everywhere(Disk, |mut rig| {
        let device = rig.directory(4 * SEGMENT);
        rig.read(device, 0, BLOCK as usize).unwrap();
        rig.write(device, 0, &pattern(1, BLOCK as usize)).unwrap();
        // The bell of a worker may ring late, and the kernel interrupts a sleep to make or dismiss
        // the ring's own workers: a few sleeps may be cut short on a busy machine, but not all.
        const ASKED: Duration = Duration::from_millis(50);
        let mut slept = Vec::new();
        while slept.last().is_none_or(|last| *last < ASKED) {
            assert!(slept.len() < 100, "{}: {slept:?}", rig.name);
            let start = Instant::now();
            rig.real.wait(Some(ASKED), &mut Vec::new());
            slept.push(start.elapsed());
        }
        assert!(
            slept.iter().all(|slept| *slept < PROMPT),
            "{}: {slept:?}",
            rig.name
        );
    });
}

#[test]
fn a_wake_up_before_or_during_the_sleep_ends_it() {
    let world = World::new(&WorldOptions {
        reactors: 2,
        ..one_reactor()
    })
    .unwrap();
    let mut real = world.reactor(1).unwrap();
    let other = world.reactor(0).unwrap();
    let start = Instant::now();
    for _ in 0..3 {
        other.wake(1);
    }
    real.wait(LONG, &mut Vec::new());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(50));
            world.wake(1);
        });
        let during = Instant::now();
        while during.elapsed() < Duration::from_millis(40) {
            real.wait(LONG, &mut Vec::new());
        }
    });
    assert!(start.elapsed() < PROMPT);
    // No wake-up is left over: the bell was rung and heard.
    real.wait(Some(Duration::ZERO), &mut Vec::new());
    let is_quiet = (0..100).any(|_| {
        let quiet = Instant::now();
        real.wait(Some(Duration::from_millis(30)), &mut Vec::new());
        quiet.elapsed() >= Duration::from_millis(30)
    });
    assert!(is_quiet, "something goes on ringing");
}

#[test]
fn no_message_is_missed_when_threads_ring_while_the_reactor_dozes_off() {
    let world = World::new(&one_reactor()).unwrap();
    let mut real = world.reactor(0).unwrap();
    let (sender, receiver) = crossbeam_channel::unbounded();
    let count = 50_000;
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let (sender, world) = (sender.clone(), &world);
            scope.spawn(move || {
                for _ in 0..count {
                    sender.send(()).unwrap();
                    world.wake(0);
                }
            });
        }
        let mut received = 0;
        while received < 2 * count {
            let start = Instant::now();
            real.wait(LONG, &mut Vec::new());
            assert!(
                start.elapsed() < Duration::from_secs(10),
                "a wake-up was lost"
            );
            received += receiver.try_iter().count();
        }
    });
}

#[test]
fn sockets_are_reported_by_key_and_interest() {
    let world = World::new(&one_reactor()).unwrap();
    let mut real = world.reactor(0).unwrap();
    let (mine, mut peer) = UnixStream::pair().unwrap();
    mine.set_nonblocking(true).unwrap();
    real.register(&mine, Interest::READ, 42).unwrap();
    let mut ready = Vec::new();
    real.wait(Some(Duration::ZERO), &mut ready);
    assert!(ready.is_empty());
    peer.write_all(b"hello").unwrap();
    real.wait(LONG, &mut ready);
    assert_eq!(ready.len(), 1);
    assert!(ready[0].key == 42 && ready[0].readable && !ready[0].writable && !ready[0].hangup);
    ready.clear();
    real.wait(LONG, &mut ready);
    assert_eq!(ready.len(), 1, "reported again until read");
    (&mine).read_exact(&mut [0; 5]).unwrap();
    real.modify(&mine, Interest::BOTH, 43).unwrap();
    ready.clear();
    real.wait(LONG, &mut ready);
    assert!(ready[0].key == 43 && ready[0].writable && !ready[0].readable);
    real.modify(&mine, Interest::NONE, 43).unwrap();
    ready.clear();
    peer.write_all(b"more").unwrap();
    real.wait(Some(Duration::from_millis(10)), &mut ready);
    assert!(ready.is_empty());
    real.modify(&mine, Interest::READ, 44).unwrap();
    drop(peer);
    real.wait(LONG, &mut ready);
    assert!(ready[0].key == 44 && ready[0].readable && ready[0].hangup);
    real.deregister(&mine).unwrap();
    ready.clear();
    real.wait(Some(Duration::from_millis(10)), &mut ready);
    assert!(ready.is_empty());
    assert!(real.deregister(&mine).is_err());
}

/// CPU time of this thread so far.
fn thread_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(
        time.tv_sec.cast_unsigned(),
        u32::try_from(time.tv_nsec).unwrap(),
    )
}

#[test]
fn an_idle_reactor_costs_nothing() {
    everywhere(Disk, |mut rig: Rig| {
        let device = rig.directory(4 * SEGMENT);
        rig.write(device, 0, &pattern(1, BLOCK as usize)).unwrap();
        let (mine, _peer) = UnixStream::pair().unwrap();
        rig.real.register(&mine, Interest::READ, 1).unwrap();
        let (start, cpu) = (Instant::now(), thread_cpu());
        let mut turns = 0;
        while start.elapsed() < Duration::from_millis(500) {
            let left = Duration::from_millis(500).saturating_sub(start.elapsed());
            rig.real.wait(Some(left), &mut Vec::new());
            rig.real.poll(&mut Vec::new());
            turns += 1;
        }
        assert!(turns < 50, "{}: {turns} turns while idle", rig.name);
        let used = thread_cpu() - cpu;
        assert!(
            used < Duration::from_millis(25),
            "{}: {used:?} of CPU while idle",
            rig.name
        );
    });
}

#[test]
fn clock_random_and_host_space_answer() {
    let mut rig = any_way(Memory);
    let device = rig.directory(SEGMENT);
    let before = rig.real.now();
    std::thread::sleep(Duration::from_millis(2));
    assert!(rig.real.now() - before >= 2_000_000);
    assert!(rig.real.now() <= rig.world.now());
    assert!(rig.real.wall_seconds() > 1_700_000_000);
    assert_ne!(rig.real.random(), rig.real.random());
    assert!(rig.real.host_free_bytes(device).unwrap() > 0);
}
