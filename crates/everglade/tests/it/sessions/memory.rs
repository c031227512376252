//! Network memory: however many clients ask for however much, and whatever they do then, the
//! process stays below its cap, somebody who behaves is served, and memory goes back when it is
//! calm.

use std::io::Write;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::crowds::may_open;
use super::{LUN, MIB};
use crate::running::{Server, TestDir};
use crate::thrift::status_bytes;
use crate::wire::{CMD_READ, CMD_WRITE, Client, header};

const MEMORY: u64 = 256 * MIB;
/// What the cap may be exceeded by: the program itself, and what the C library keeps.
const SLACK: u64 = 64 * MIB;
/// Metadata that stays in memory, and pages that are kept for the next request.
const METADATA: u64 = 40 * MIB;
/// What the page cache may keep, and so is not given back.
const CACHE: u64 = MEMORY / 2;
/// A server that is silent for so long has forgotten somebody.
const PATIENCE: Timespec = Timespec {
    tv_sec: 20,
    tv_nsec: 0,
};

fn serve(dir: &TestDir) -> Server {
    dir.serve(&[
        "--memory",
        "256MiB",
        "--lun-size",
        "1GiB",
        "--aggregate-size",
        "4GiB",
    ])
}

fn connect(server: &Server, count: usize) -> Vec<Client> {
    let open = |_| Client::open(&server.tcp, LUN).expect("a client").0;
    (0..count).map(open).collect()
}

/// All say something at the same time, as far as the server takes it: words of their own, and then
/// the same payload.
fn say(clients: &mut [Client], words: impl Fn(usize) -> Vec<u8>, payload: &[u8]) {
    for (index, client) in clients.iter_mut().enumerate() {
        client.send(&words(index)).expect("a short message");
        client.stream().set_nonblocking(true).expect("a socket");
    }
    let mut sent = vec![0; clients.len()];
    loop {
        let left: Vec<usize> = (0..clients.len())
            .filter(|index| sent[*index] < payload.len())
            .collect();
        if left.is_empty() {
            break;
        }
        for index in ready(clients, &left, PollFlags::OUT, "are not received from") {
            let rest = &payload[sent[index]..];
            let most = rest.len().min(256 << 10);
            sent[index] += clients[index].stream().write(&rest[..most]).unwrap_or(0);
        }
    }
    for client in clients.iter() {
        client.stream().set_nonblocking(false).expect("a socket");
    }
}

/// Those of `among` whose sockets are ready; waits for one, and fails with what all of them do in
/// vain.
fn ready(clients: &[Client], among: &[usize], flags: PollFlags, in_vain: &str) -> Vec<usize> {
    let mut waiting: Vec<PollFd<'_>> = among
        .iter()
        .map(|index| PollFd::new(clients[*index].stream(), flags))
        .collect();
    let count = poll(&mut waiting, Some(&PATIENCE)).expect("poll");
    assert!(count > 0, "{} {in_vain}", among.len());
    let both = among.iter().zip(&waiting);
    both.filter(|(_, fd)| !fd.revents().is_empty())
        .map(|(index, _)| *index)
        .collect()
}

/// Takes the replies of all at the same time, each of so many bytes; each must say that all is
/// well.
fn hear(clients: &mut [Client], bytes: usize) {
    let mut left: Vec<usize> = vec![bytes; clients.len()];
    let mut scrap = vec![0; 256 << 10];
    loop {
        let all: Vec<usize> = (0..clients.len()).filter(|i| left[*i] > 0).collect();
        if all.is_empty() {
            return;
        }
        for index in ready(clients, &all, PollFlags::IN, "wait for replies in vain") {
            let most = left[index].min(scrap.len());
            let taken = clients[index].take_some(&mut scrap[..most]).expect("bytes");
            assert!(taken > 0, "a client was dropped");
            if left[index] == bytes {
                assert!(taken >= 8 && scrap[4..8] == [0; 4], "an error");
            }
            left[index] -= taken;
        }
    }
}

/// A client that behaves gets its turn, whatever the others do.
fn assert_serves(server: &Server) {
    let begun = Instant::now();
    let (mut good, _) = Client::open(&server.tcp, LUN).expect("a client");
    for (number, length) in [(1, 4096), (2, 64 << 10), (3, 1 << 20)] {
        let bytes = vec![number; length];
        good.write(1000 * MIB, &bytes).expect("written");
        let length = u32::try_from(length).expect("short");
        assert!(good.read(1000 * MIB, length) == Ok(bytes));
    }
    good.flush().expect("flushed");
    assert!(begun.elapsed() < Duration::from_secs(10), "not at once");
}

fn assert_fits(server: &Server, what: &str) {
    let most = status_bytes(server, "VmHWM:");
    println!("{what}: {} MiB at most", most / MIB);
    assert!(most <= MEMORY + SLACK, "{what}: {} MiB", most / MIB);
}

/// When it has been calm for some seconds, the process has its cache, its metadata and little else.
fn assert_gives_back(server: &Server) {
    let begun = Instant::now();
    loop {
        let now = status_bytes(server, "VmRSS:");
        if now <= CACHE + METADATA + SLACK {
            return println!("{} MiB after {:?}", now / MIB, begun.elapsed());
        }
        // A consistency point comes first, within ten seconds.
        assert!(
            begun.elapsed() < Duration::from_secs(40),
            "{} MiB",
            now / MIB
        );
        std::thread::sleep(Duration::from_millis(250));
    }
}

#[test]
fn two_hundred_clients_with_one_request_of_8_mib_each_stay_below_the_cap() {
    const LENGTH: u32 = 8 << 20;
    let dir = TestDir::new();
    let server = serve(&dir);
    let mut clients = connect(&server, 200);
    let place_of = |index: usize| (index as u64 % 64) * u64::from(LENGTH);
    let payload = vec![7; LENGTH as usize];
    let write = |index| header(CMD_WRITE, place_of(index), LENGTH);
    say(&mut clients, write, &payload);
    hear(&mut clients, 16);
    assert_fits(&server, "200 writes of 8 MiB");
    let read = |index| header(CMD_READ, place_of(index), LENGTH);
    say(&mut clients, read, &[]);
    assert_serves(&server);
    hear(&mut clients, 16 + LENGTH as usize);
    assert_fits(&server, "200 reads of 8 MiB");
    drop(clients);
    assert_gives_back(&server);
    server.stop();
}

#[test]
fn a_thousand_clients_stalled_in_a_long_write_stay_below_the_cap() {
    if !may_open(1024 + 200) {
        return;
    }
    let dir = TestDir::new();
    let server = serve(&dir);
    let mut clients = connect(&server, 1000);
    let write = |index| header(CMD_WRITE, (index as u64 % 8) * 32 * MIB, 32 << 20);
    say(&mut clients, write, &[7; 900_000]);
    assert_serves(&server);
    assert_fits(&server, "1,000 stalled writers");
    // One goes on after all.
    let mut late = clients.swap_remove(500);
    late.send(&vec![7; (32 << 20) - 900_000]).expect("sent");
    assert_eq!(late.reply().expect("a reply"), 0);
    assert!(late.read(500 % 8 * 32 * MIB, 1 << 20) == Ok(vec![7; 1 << 20]));
    drop((clients, late));
    assert_gives_back(&server);
    assert_fits(&server, "1,000 stalled writers, and one that went on");
    server.stop();
}

#[test]
fn a_thousand_clients_that_do_not_read_long_replies_stay_below_the_cap() {
    if !may_open(1024 + 200) {
        return;
    }
    let dir = TestDir::new();
    let server = serve(&dir);
    let (mut writer, _) = Client::open(&server.tcp, LUN).expect("a client");
    for mib in 0..512u64 {
        let byte = u8::try_from(mib % 251).expect("a byte");
        writer
            .write(mib * MIB, &vec![byte; 1 << 20])
            .expect("written");
    }
    let mut clients = connect(&server, 1000);
    let read = |index| header(CMD_READ, (index as u64 % 16) * 32 * MIB, 32 << 20);
    say(&mut clients, read, &[]);
    // The last is answered when all have had a turn.
    assert_eq!(clients[999].reply().expect("a reply"), 0);
    assert_serves(&server);
    assert_fits(&server, "1,000 silent readers");
    let mut late = clients.swap_remove(3);
    assert_eq!(late.reply().expect("a reply"), 0);
    for mib in 96..128 {
        let mut bytes = vec![0; 1 << 20];
        late.take_all(&mut bytes).expect("all of it");
        let expected = u8::try_from(mib % 251).expect("a byte");
        assert!(bytes.iter().all(|byte| *byte == expected), "MiB {mib}");
    }
    assert_fits(&server, "1,000 silent readers, one of whom read after all");
    drop((clients, late));
    assert_gives_back(&server);
    server.stop();
}

/// Each write of 4 KiB at an odd place is two parts of blocks that are not in memory.
#[test]
fn parts_of_blocks_stay_below_the_cap() {
    let dir = TestDir::new();
    let server = serve(&dir);
    let (mut writer, _) = Client::open(&server.tcp, LUN).expect("a client");
    for mib in 0..1024u64 {
        writer.write(mib * MIB, &vec![3; 1 << 20]).expect("written");
    }
    writer.flush().expect("flushed");
    let mut clients = connect(&server, 16);
    let begun = Instant::now();
    let mut number = 0u64;
    while begun.elapsed() < Duration::from_secs(10) {
        for client in &mut clients {
            let mut words = Vec::new();
            for _ in 0..64 {
                number = number
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let block = (number >> 33) % (262_144 - 2);
                words.extend(header(CMD_WRITE, block * 4096 + 512, 4096));
                words.resize(words.len() + 4096, 9);
            }
            client.send(&words).expect("sent");
        }
        for client in &mut clients {
            (0..64).for_each(|_| assert_eq!(client.reply().expect("a reply"), 0));
        }
    }
    assert_fits(&server, "parts of blocks");
    drop((clients, writer));
    assert_gives_back(&server);
    server.stop();
}
