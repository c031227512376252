//! Many connections: up to the bound and not beyond, and everybody gets a share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Resource, getrlimit, setrlimit};

use super::{LUN, MIB, serve};
use crate::running::{Server, TestDir};
use crate::tools::skip;
use crate::wire::{CMD_READ, Client};

/// This process may have so many files open, or the calling test is skipped.
pub(super) fn may_open(files: u64) -> bool {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.maximum.is_some_and(|maximum| maximum < files) {
        skip("few open files are allowed");
        return false;
    }
    if limit.current.is_some_and(|current| current < files) {
        limit.current = Some(files);
        setrlimit(Resource::Nofile, limit).expect("below the maximum");
    }
    true
}

#[test]
fn a_thousand_connections_are_served_and_one_more_than_the_bound_is_not() {
    if !may_open(1024 + 200) {
        return;
    }
    let dir = TestDir::new();
    let server = serve(&dir, &[]);
    let mut clients = Vec::new();
    for _ in 0..1024 {
        clients.push(Client::open(&server.tcp, LUN).expect("a client").0);
    }
    assert!(Client::open(&server.tcp, LUN).is_err(), "one too many");
    for (client, number) in clients.iter_mut().zip(0u64..) {
        let block = number.to_be_bytes();
        client.write(number * 4096, &block).expect("written");
    }
    for (client, number) in clients.iter_mut().rev().zip(0u64..) {
        let expected = number.to_be_bytes().to_vec();
        assert_eq!(client.read(number * 4096, 8), Ok(expected));
    }
    // A place that becomes free is given away again.
    drop(clients.pop());
    let begun = Instant::now();
    while Client::open(&server.tcp, LUN).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(30), "no place");
    }
    server.stop();
}

/// A share, not a speed: counted are the replies that each got when all together had so many. One
/// thread is all two hundred clients, so that it is the server that decides who is next, and not a
/// kernel that deals out its cores.
#[test]
fn everybody_in_a_crowd_gets_a_share() {
    for options in [&["--reactors", "1"][..], &[]] {
        let dir = TestDir::new();
        let server = serve(&dir, options);
        let (mut client, _) = Client::open(&server.tcp, LUN).expect("a client");
        for mib in 0..8 {
            client.write(mib * MIB, &vec![3; 1 << 20]).expect("written");
        }
        drop(client);
        // On a busy machine one of two reactors may be kept from its core for most of a look.
        let looks = if options.is_empty() { 3 } else { 1 };
        let fair = (0..looks).any(|_| {
            let (slowest, median) = crowd(&server);
            println!("crowd {options:?}: slowest {slowest}, median {median}");
            slowest * 2 >= median
        });
        assert!(
            fair,
            "{options:?}: the slowest has less than half of what the median has"
        );
        server.stop();
    }
}

/// Replies that the slowest got, and the median.
fn crowd(server: &Server) -> (u64, u64) {
    const CLIENTS: usize = 200;
    const DEPTH: u64 = 4;
    const LENGTH: u32 = 4096;
    const REPLIES: u64 = 500 * CLIENTS as u64;
    let reply_bytes = 16 + LENGTH as usize;
    let mut clients: Vec<Client> = (0..CLIENTS)
        .map(|_| Client::open(&server.tcp, LUN).expect("a client").0)
        .collect();
    for client in &mut clients {
        (0..DEPTH).for_each(|number| client.ask(CMD_READ, number * 4096, LENGTH));
    }
    let mut counts = vec![0u64; CLIENTS];
    // Of a reply that is not there in full.
    let mut parts = vec![0usize; CLIENTS];
    let mut bytes = vec![0; usize::try_from(DEPTH).expect("small") * reply_bytes];
    while counts.iter().sum::<u64>() < REPLIES {
        let mut waiting: Vec<PollFd<'_>> = clients
            .iter()
            .map(|client| PollFd::new(client.stream(), PollFlags::IN))
            .collect();
        let patience = Timespec {
            tv_sec: 20,
            tv_nsec: 0,
        };
        let ready = poll(&mut waiting, Some(&patience)).expect("poll");
        assert!(ready > 0, "nobody is served any more");
        let is_ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let ready: Vec<bool> = waiting.iter().map(is_ready).collect();
        for (index, _) in ready.into_iter().enumerate().filter(|(_, ready)| *ready) {
            parts[index] += clients[index].take_some(&mut bytes).expect("replies");
            while parts[index] >= reply_bytes {
                parts[index] -= reply_bytes;
                counts[index] += 1;
                let block = (index as u64 * 7 + counts[index]) % 2048;
                clients[index].ask(CMD_READ, block * 4096, LENGTH);
            }
        }
    }
    counts.sort_unstable();
    (counts[0], counts[CLIENTS / 2])
}

/// A client with one request at a time, next to one with hundreds of any size, gets its turn again
/// and again: also where one thread serves both.
#[test]
fn a_modest_client_beside_a_greedy_one_is_served() {
    for options in [[].as_slice(), &["--reactors", "1"]] {
        let dir = TestDir::new();
        let server = serve(&dir, options);
        let (mut greedy, _) = Client::open(&server.tcp, LUN).expect("a client");
        for mib in 0..8 {
            greedy.write(mib * MIB, &vec![3; 1 << 20]).expect("written");
        }
        drop(greedy);
        for length in [4096, 65_536, 1 << 20] {
            // Who else runs on the processors may hold up either client, or this one, and not three
            // times in a row; a server that starves somebody does so each time.
            let mut attempts = (0..3).map(|_| beside_a_hog(&server, length));
            // The goal is 5 ms, in which a fast machine serves so much; a slow or busy one is slow
            // to both.
            assert!(
                attempts.any(|bytes| bytes <= 32 << 20),
                "so much for one before the other is served: {length}, {options:?}"
            );
        }
        server.stop();
    }
}

/// Bytes that a client with hundreds of requests gets while one read of the other waits: 99 % of
/// them, less.
fn beside_a_hog(server: &Server, length: u32) -> u64 {
    let (mut greedy, _) = Client::open(&server.tcp, LUN).expect("a client");
    let (mut modest, _) = Client::open(&server.tcp, LUN).expect("a client");
    let places = (8 << 20) / u64::from(length);
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    let served = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&served);
    let hog = std::thread::spawn(move || {
        let mut count = 0u64;
        let place = |number: u64| number % places * u64::from(length);
        for request in 0..256 {
            greedy.ask(CMD_READ, place(request), length);
        }
        while receiver.try_recv().is_err() {
            assert_eq!(greedy.reply_with(length as usize), Ok(0));
            greedy.ask(CMD_READ, place(count), length);
            count += 1;
            counter.store(count, Ordering::Relaxed);
        }
    });
    let (mut times, mut meanwhile) = (Vec::new(), Vec::new());
    // Its thread may begin late.
    while served.load(Ordering::Relaxed) == 0 {
        std::thread::yield_now();
    }
    for number in 0..300 {
        let (begun, before) = (Instant::now(), served.load(Ordering::Relaxed));
        modest.read(number % 2048 * 4096, 4096).expect("read");
        times.push(begun.elapsed());
        let replies = served.load(Ordering::Relaxed) - before;
        meanwhile.push(replies * u64::from(length));
    }
    sender.send(()).expect("the hog listens");
    hog.join().expect("the hog");
    times.sort_unstable();
    meanwhile.sort_unstable();
    let (time, bytes) = (times[297], meanwhile[297]);
    let served = served.load(Ordering::Relaxed);
    println!(
        "modest: p99 {time:?}, {bytes} bytes for the hog meanwhile; {served} reads of {length}"
    );
    bytes
}
