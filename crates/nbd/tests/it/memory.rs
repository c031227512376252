//! All sessions of a table share one budget, whatever their peers do, and all sessions make
//! progress.

use everglade_nbd::{Received, SessionId, Sessions, Settings};
use everglade_target::Error;
use everglade_target::conformance::Dice;

use crate::held::Held;
use crate::peer::{DF, FLUSH, READ, at, chunk, option, pattern, reply, request, write};
use crate::table::{Pipe, connect, ready};

const MIB: u64 = 1 << 20;
const SECOND: u64 = 1_000_000_000;
/// Far less than the peers of these tests ask for together.
const BUDGET: u64 = 4 * MIB;

/// A table with a small budget, and its peers.
struct Crowd {
    sessions: Sessions,
    target: Held,
    peers: Vec<(SessionId, Pipe)>,
    /// The most that was ever held.
    peak: u64,
}

impl Crowd {
    fn new(lun_bytes: u64, peers: usize) -> Crowd {
        let mut target = Held::with_lun(lun_bytes);
        let mut sessions = Sessions::new(Settings::default(), BUDGET);
        let connect = |_| connect(&mut sessions, &mut target);
        let peers = (0..peers).map(connect).collect();
        Crowd {
            sessions,
            target,
            peers,
            peak: 0,
        }
    }

    fn join(&mut self, options: &[Vec<u8>]) -> usize {
        let id = self.sessions.attach(0).unwrap();
        let mut pipe = Pipe::default();
        pipe.to_session = [&3u32.to_be_bytes()[..], &options.concat()].concat();
        pipe.to_session.extend(option(1, b"vol0/lun0"));
        self.peers.push((id, pipe));
        self.settle();
        let last = self.peers.len() - 1;
        self.peers[last].1.from_session.clear();
        last
    }

    /// Everything that can happen without the peers doing anything.
    fn settle(&mut self) {
        for _ in 0..100_000 {
            let mut progress = self.sessions.poll(&mut self.target) > 0;
            for (id, pipe) in &mut self.peers {
                if self.sessions.interest(*id).read && !pipe.to_session.is_empty() {
                    let before = pipe.to_session.len();
                    let received = self.sessions.receive(*id, pipe, &mut self.target);
                    progress |= received == Received::More || pipe.to_session.len() < before;
                }
                // The poller says that the other end takes something.
                if pipe.room != Some(pipe.from_session.len()) && self.sessions.interest(*id).write {
                    self.sessions.writable(*id, &mut self.target);
                    self.sessions.transmit(*id, pipe, &mut self.target);
                    progress = true;
                }
                self.peak = self.peak.max(self.sessions.memory().used());
            }
            for id in ready(&mut self.sessions) {
                let peer = self.peers.iter_mut().find(|(other, _)| *other == id);
                let (_, pipe) = peer.expect("a peer of ours");
                self.sessions.transmit(id, pipe, &mut self.target);
                progress = true;
            }
            self.peak = self.peak.max(self.sessions.memory().used());
            if !progress {
                return;
            }
        }
        panic!("it never ends");
    }

    fn say(&mut self, peer: usize, bytes: &[u8]) {
        self.peers[peer].1.to_session.extend(bytes);
    }

    fn sweep(&mut self, now: u64) {
        self.sessions.tick(now);
        self.sessions.sweep(now, &mut self.target);
        self.settle();
    }

    fn is_closed(&self, peer: usize) -> bool {
        self.sessions.interest(self.peers[peer].0).closed
    }

    /// Returns the bytes that a peer got since the last call. The peer takes everything from now
    /// on.
    fn takes(&mut self, peer: usize) -> Vec<u8> {
        self.peers[peer].1.room = None;
        self.settle();
        std::mem::take(&mut self.peers[peer].1.from_session)
    }

    /// Checks that a well-behaved peer is served although the others block.
    fn assert_serves(&mut self, length: usize) {
        let good = self.join(&[]);
        let bytes = pattern(99, length);
        self.say(good, &write(0, 1, 0, &bytes));
        self.settle();
        assert_eq!(self.takes(good), reply(0, 1));
        let length = u32::try_from(length).unwrap();
        self.say(good, &request(READ, 0, 2, 0, length));
        self.settle();
        assert!(self.takes(good) == [reply(0, 2), bytes].concat());
    }
}

#[test]
fn long_writes_that_stall_hold_little_and_go_on() {
    const PEERS: usize = 40;
    let mut crowd = Crowd::new(64 * MIB, PEERS);
    let bytes = pattern(1, 2 << 20);
    let message = write(0, 7, 2 * MIB + 512, &bytes);
    for peer in 0..2 {
        crowd.say(peer, &message[..900_000 + peer]);
    }
    crowd.settle();
    // The peers have been quiet for long when others come, and have no buffer.
    crowd.sweep(5 * SECOND);
    for peer in 2..PEERS {
        crowd.say(peer, &message[..900_000 + peer]);
    }
    crowd.settle();
    for (_, pipe) in &crowd.peers {
        assert!(pipe.to_session.is_empty(), "everybody had a turn");
    }
    assert!(crowd.peak <= BUDGET, "{} bytes held", crowd.peak);
    assert!(crowd.sessions.memory().waits() > 0, "the budget was met");
    crowd.assert_serves(64 << 10);
    crowd.assert_serves(1 << 20);
    for peer in 0..PEERS {
        crowd.say(peer, &message[900_000 + peer..]);
    }
    crowd.settle();
    for peer in 0..PEERS {
        assert_eq!(crowd.takes(peer), reply(0, 7));
    }
    let stored = crowd
        .target
        .model
        .bytes("vol0/lun0", 2 * MIB + 512, 2 << 20);
    assert!(stored == bytes);
    assert!(crowd.peak <= BUDGET);
    assert_eq!(crowd.sessions.memory().used(), 0);
}

#[test]
fn long_replies_nobody_takes_hold_little_and_go_on() {
    const PEERS: usize = 30;
    const LENGTH: usize = 3 << 20;
    let styles = [
        (None, 0),
        (Some(option(8, b"")), 0),
        (Some(option(8, b"")), DF),
    ];
    for (options, flags) in styles {
        let mut crowd = Crowd::new(64 * MIB, 0);
        let writer = crowd.join(&[]);
        let bytes = pattern(1, LENGTH);
        crowd.say(writer, &write(0, 7, 100, &bytes));
        assert_eq!(crowd.takes(writer), reply(0, 7));
        let has_chunks = options.is_some();
        let options: Vec<_> = options.into_iter().collect();
        let peers: Vec<_> = (0..PEERS).map(|_| crowd.join(&options)).collect();
        for (number, peer) in peers.iter().enumerate() {
            crowd.peers[*peer].1.room = Some(100_000 + 10_000 * number);
            crowd.say(*peer, &request(READ, flags, 9, 100, 3 << 20));
        }
        crowd.settle();
        for (number, peer) in peers.iter().enumerate() {
            let sent = crowd.peers[*peer].1.from_session.len();
            assert_eq!(sent, 100_000 + 10_000 * number, "everybody had a turn");
        }
        assert!(crowd.peak <= BUDGET, "{} bytes held", crowd.peak);
        assert!(crowd.sessions.memory().waits() > 0, "the budget was met");
        crowd.assert_serves(64 << 10);
        crowd.assert_serves(1 << 20);
        // The byte at the front now differs: the well-behaved peer wrote the first block.
        let whole = [&pattern(99, 1 << 20)[100..], &bytes[(1 << 20) - 100..]].concat();
        for peer in peers {
            let taken = crowd.takes(peer);
            let data = match (has_chunks, flags) {
                (false, _) => taken[16..].to_vec(),
                (true, DF) => taken[28..].to_vec(),
                (true, _) => in_order(&taken, 100, LENGTH),
            };
            assert_eq!(data.len(), LENGTH);
            // Data sent before the front was overwritten is unchanged.
            let same = |byte: usize| data[byte] == bytes[byte] || data[byte] == whole[byte];
            assert!((0..LENGTH).all(same));
        }
        assert!(crowd.peak <= BUDGET);
        assert_eq!(crowd.sessions.memory().used(), 0);
    }
}

/// The data of chunks, at its place.
fn in_order(chunks: &[u8], offset: usize, length: usize) -> Vec<u8> {
    let mut data = vec![0; length];
    let mut rest = chunks;
    while !rest.is_empty() {
        let word = |at: usize| {
            usize::try_from(u32::from_be_bytes(rest[at..at + 4].try_into().unwrap())).unwrap()
        };
        assert_eq!(rest[6..8], [0, 1], "data");
        let (length, place) = (word(16), word(24) - offset);
        data[place..place + length - 8].copy_from_slice(&rest[28..20 + length]);
        rest = &rest[20 + length..];
    }
    data
}

#[test]
fn a_request_of_one_operation_that_stalls_is_ended_when_others_wait() {
    let mut crowd = Crowd::new(64 * MIB, 12);
    let message = write(0, 7, 0, &pattern(1, 1 << 20));
    crowd.say(0, &message[..900_000]);
    crowd.settle();
    crowd.sweep(60 * SECOND);
    assert!(!crowd.is_closed(0), "nobody waits");
    for peer in 1..12 {
        crowd.say(peer, &message[..900_000]);
    }
    crowd.settle();
    assert!(crowd.sessions.memory().waiting() > 0);
    // A peer that moves less data finds memory for it.
    crowd.assert_serves(64 << 10);
    crowd.sweep(61 * SECOND);
    assert!(crowd.is_closed(0), "it has not moved for a minute");
    assert_eq!(crowd.sessions.memory().stalled(), 1);
    crowd.assert_serves(64 << 10);
    for second in (62..200).step_by(11) {
        crowd.sweep(second * SECOND);
    }
    assert_eq!(crowd.sessions.memory().waiting(), 0);
    assert!(crowd.peak <= BUDGET);
    let open = (1..12).filter(|peer| !crowd.is_closed(*peer)).count();
    assert!(open > 0, "the last ones keep nobody waiting");
    let last = (1..12).rfind(|peer| !crowd.is_closed(*peer)).unwrap();
    crowd.say(last, &message[900_000..]);
    crowd.settle();
    assert_eq!(crowd.takes(last), reply(0, 7));
}

#[test]
fn a_peer_that_takes_nothing_is_ended_when_others_wait() {
    let mut crowd = Crowd::new(64 * MIB, 12);
    for peer in 0..12 {
        crowd.peers[peer].1.room = Some(50_000);
        crowd.say(peer, &request(READ, 0, 7, 0, 1 << 20));
    }
    crowd.sweep(SECOND);
    assert!(crowd.sessions.memory().waiting() > 0);
    crowd.sweep(5 * SECOND);
    assert!((0..12).all(|peer| !crowd.is_closed(peer)));
    for second in (6..200).step_by(11) {
        crowd.sweep(second * SECOND);
    }
    assert_eq!(crowd.sessions.memory().waiting(), 0);
    assert!(crowd.sessions.memory().stalled() > 0);
    crowd.assert_serves(64 << 10);
}

/// A simple reply has said that all is well before the data that is read again cannot be read.
#[test]
fn a_reply_that_cannot_be_ended_ends_the_session() {
    let mut crowd = Crowd::new(64 * MIB, 20);
    for peer in 0..20 {
        crowd.peers[peer].1.room = Some(50_000);
        crowd.say(peer, &request(READ, 0, 7, 0, 4 << 20));
    }
    crowd.settle();
    let before = crowd.target.log.len();
    crowd.target.errors = vec![Error::Io("a bad block".into())];
    crowd.peers[3].1.room = None;
    crowd.settle();
    assert!(crowd.target.log.len() > before, "it is read again");
    assert!(crowd.is_closed(3));
    let sent = &crowd.peers[3].1.from_session;
    assert!(sent.starts_with(&reply(0, 7)) && sent.len() < 16 + (4 << 20));
    assert!((0..20).all(|peer| peer == 3 || !crowd.is_closed(peer)));
}

/// The first error is found before anything is said, also where nothing is kept.
#[test]
fn a_long_read_that_fails_says_so_also_under_pressure() {
    let mut crowd = Crowd::new(64 * MIB, 20);
    for peer in 0..20 {
        crowd.peers[peer].1.room = Some(50_000);
        crowd.say(peer, &request(READ, 0, 7, 0, 4 << 20));
    }
    crowd.settle();
    let late = crowd.join(&[]);
    let chunks = crowd.join(&[option(8, b"")]);
    crowd.target.errors = vec![Error::Io("a bad block".into())];
    crowd.say(late, &request(READ, 0, 8, 0, 4 << 20));
    assert_eq!(crowd.takes(late), reply(5, 8));
    crowd.say(chunks, &request(READ, 0, 9, 0, 5));
    assert_eq!(
        crowd.takes(chunks),
        chunk(true, 2, 9, &at(0, &5u32.to_be_bytes()))
    );
}

#[test]
fn memory_is_given_back_whatever_ends_a_session() {
    let mut crowd = Crowd::new(64 * MIB, 30);
    for peer in 0..30 {
        crowd.peers[peer].1.room = Some(1000);
        let message = match peer % 3 {
            0 => write(0, 7, 0, &pattern(1, 2 << 20))[..900_000].to_vec(),
            1 => request(READ, 0, 7, 0, 8 << 20),
            _ => [
                request(READ, 0, 7, 0, 1 << 20),
                write(0, 8, 0, &pattern(1, 1 << 20)),
            ]
            .concat(),
        };
        crowd.say(peer, &message);
    }
    crowd.settle();
    assert!(crowd.peak <= BUDGET);
    for (number, (id, _)) in crowd.peers.iter().enumerate() {
        if number % 2 == 0 {
            crowd.sessions.abandon(*id, &mut crowd.target);
        }
    }
    crowd.settle();
    crowd.sessions.stop(&mut crowd.target);
    crowd.sweep(SECOND);
    crowd.sweep(12 * SECOND);
    for peer in 0..30 {
        assert!(crowd.is_closed(peer), "peer {peer}");
        crowd.sessions.detach(crowd.peers[peer].0);
    }
    assert_eq!(crowd.sessions.memory().used(), 0);
    assert_eq!(crowd.sessions.memory().waiting(), 0);
    assert_eq!(crowd.target.open, 0);
}

/// Requests of all sizes, at all paces: every session is served, and no data is lost.
#[test]
fn a_crowd_of_all_kinds_is_served_within_the_budget() {
    for seed in 0..30 {
        let mut dice = Dice::new(seed);
        let mut crowd = Crowd::new(64 * MIB, 0);
        let mut expected = Vec::new();
        for _ in 0..24 {
            let options = if dice.once_in(2) {
                vec![option(8, b"")]
            } else {
                vec![]
            };
            let peer = crowd.join(&options);
            let mut replies = 0;
            for cookie in 0..1 + dice.below(6) {
                let most = [4096, 128 << 10, MIB, 6 * MIB][usize::try_from(dice.below(4)).unwrap()];
                let length = 1 + dice.below(most);
                let offset = dice.below(64 * MIB - length);
                let length32 = u32::try_from(length).unwrap();
                let message = match dice.below(5) {
                    0 => request(FLUSH, 0, cookie, 0, 0),
                    1 | 2 => write(0, cookie, offset, &pattern(cookie, length32 as usize)),
                    _ => request(READ, 0, cookie, offset, length32),
                };
                crowd.say(peer, &message);
                replies += 1;
            }
            crowd.peers[peer].1.room = Some(usize::try_from(dice.below(2 * MIB)).unwrap());
            expected.push((peer, replies, !options.is_empty()));
            if dice.once_in(3) {
                crowd.settle();
            }
        }
        crowd.settle();
        for _ in 0..200 {
            let (peer, ..) = expected[usize::try_from(dice.below(24)).unwrap()];
            let room = crowd.peers[peer].1.room.unwrap();
            crowd.peers[peer].1.room = Some(room + usize::try_from(dice.below(MIB)).unwrap());
            crowd.settle();
        }
        for (peer, ..) in &expected {
            crowd.peers[*peer].1.room = None;
        }
        crowd.settle();
        for (peer, replies, has_chunks) in expected {
            assert!(crowd.peers[peer].1.to_session.is_empty());
            let taken = crowd.takes(peer);
            if has_chunks {
                assert_eq!(ends_of_replies(&taken), replies, "seed {seed}, peer {peer}");
            }
        }
        assert!(crowd.peak <= BUDGET, "seed {seed}: {} bytes", crowd.peak);
        assert_eq!(crowd.sessions.memory().used(), 0, "seed {seed}");
    }
}

fn ends_of_replies(chunks: &[u8]) -> usize {
    let (mut rest, mut ends) = (chunks, 0);
    while !rest.is_empty() {
        ends += usize::from(rest[5] & 1);
        let length = u32::from_be_bytes(rest[16..20].try_into().unwrap());
        rest = &rest[20 + length as usize..];
    }
    ends
}
