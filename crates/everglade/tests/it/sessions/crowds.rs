//! Many connections: up to the bound and not beyond, and everybody gets a share.

use std::time::{Duration, Instant};

use rustix::process::{Resource, getrlimit, setrlimit};

use super::{LUN, MIB, serve};
use crate::running::{Place, Server};
use crate::tools::skip;
use crate::wire::{CMD_READ, Client};

/// This process may have so many files open, or the calling test is skipped.
fn may_open(files: u64) -> bool {
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
    let place = Place::new();
    let server = serve(&place, &[]);
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

/// A share, not a speed: the machine may be slow, but it is so for all.
#[test]
fn everybody_in_a_crowd_gets_a_share() {
    const CLIENTS: usize = 200;
    const DEPTH: usize = 4;
    let place = Place::new();
    let server = serve(&place, &[]);
    let mut clients: Vec<Client> = (0..CLIENTS)
        .map(|_| Client::open(&server.tcp, LUN).expect("a client").0)
        .collect();
    for mib in 0..8 {
        clients[0]
            .write(mib * MIB, &vec![3; 1 << 20])
            .expect("written");
    }
    let stop = Instant::now() + Duration::from_secs(3);
    let workers = clients.into_iter().zip(0u64..).map(|(mut client, number)| {
        std::thread::spawn(move || {
            let mut count = 0u64;
            for request in 0..DEPTH as u64 {
                client.ask(CMD_READ, (number + request) % 2048 * 4096, 4096);
            }
            while Instant::now() < stop {
                assert_eq!(client.reply_with(4096), Ok(0));
                client.ask(CMD_READ, (number * 7 + count) % 2048 * 4096, 4096);
                count += 1;
            }
            count
        })
    });
    let workers: Vec<_> = workers.collect();
    let mut counts: Vec<u64> = workers
        .into_iter()
        .map(|worker| worker.join().expect("a worker"))
        .collect();
    counts.sort_unstable();
    let (slowest, median) = (counts[0], counts[CLIENTS / 2]);
    let total: u64 = counts.iter().sum();
    println!("crowd: {total} reads, slowest {slowest}, median {median}");
    // The goal is a half; what two hundred threads of this test get from a busy kernel differs more.
    assert!(slowest * 5 >= median, "slowest {slowest}, median {median}");
    server.stop();
}

/// A client with one request at a time, next to one with hundreds of any size, gets its turn again and again:
/// also where one thread serves both.
#[test]
fn a_modest_client_beside_a_greedy_one_is_served() {
    for options in [[].as_slice(), &["--reactors", "1"]] {
        let place = Place::new();
        let server = serve(&place, options);
        let (mut greedy, _) = Client::open(&server.tcp, LUN).expect("a client");
        for mib in 0..8 {
            greedy.write(mib * MIB, &vec![3; 1 << 20]).expect("written");
        }
        drop(greedy);
        for length in [4096, 65_536, 1 << 20] {
            beside_a_hog(&server, length);
        }
        server.stop();
    }
}

fn beside_a_hog(server: &Server, length: u32) {
    let (mut greedy, _) = Client::open(&server.tcp, LUN).expect("a client");
    let (mut modest, _) = Client::open(&server.tcp, LUN).expect("a client");
    let places = (8 << 20) / u64::from(length);
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
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
        }
        count
    });
    let mut times = Vec::new();
    for number in 0..300 {
        let begun = Instant::now();
        modest.read(number % 2048 * 4096, 4096).expect("read");
        times.push(begun.elapsed());
    }
    sender.send(()).expect("the hog listens");
    let served = hog.join().expect("the hog");
    times.sort_unstable();
    let (median, p99) = (times[150], times[297]);
    println!("modest: median {median:?}, p99 {p99:?}, beside {served} reads of {length}");
    assert!(served > 0);
    // Far from the goal of 5 ms on purpose: this is to notice starvation, not a busy machine.
    assert!(median < Duration::from_millis(100), "median {median:?}");
}
