//! Many sessions over one target: routing, reuse of places, time limits.

use std::io::{ErrorKind, IoSliceMut, Read, Write};

use everglade_nbd::{Received, SessionId, Sessions, Settings};
use everglade_target::Target;

use crate::held::Held;
use crate::peer::{DISC, READ, option, pattern, reply, request, write};

const MIB: u64 = 1 << 20;
const SECOND: u64 = 1_000_000_000;

/// A stream in memory.
#[derive(Default)]
pub(crate) struct Pipe {
    pub(crate) to_session: Vec<u8>,
    pub(crate) from_session: Vec<u8>,
    /// The other end will send nothing more.
    ended: bool,
    broken: bool,
    /// Bytes the other end takes in all.
    pub(crate) room: Option<usize>,
}

impl Read for Pipe {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.broken {
            return Err(ErrorKind::ConnectionReset.into());
        }
        if self.to_session.is_empty() && !self.ended {
            return Err(ErrorKind::WouldBlock.into());
        }
        let count = buffer.len().min(self.to_session.len());
        buffer[..count].copy_from_slice(&self.to_session[..count]);
        self.to_session.drain(..count);
        Ok(count)
    }

    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> std::io::Result<usize> {
        let mut total = 0;
        for buffer in buffers {
            match self.read(buffer) {
                Ok(count) => total += count,
                Err(_) if total > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(total)
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let room = self.room.unwrap_or(usize::MAX) - self.from_session.len();
        if room == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        let count = room.min(bytes.len());
        self.from_session.extend(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn hello() -> Vec<u8> {
    [3u32.to_be_bytes().to_vec(), option(1, b"vol0/lun0")].concat()
}

/// Connects a session in transmission, with all replies of the handshake taken.
pub(crate) fn connect(sessions: &mut Sessions, target: &mut Held) -> (SessionId, Pipe) {
    let id = sessions.attach(0).unwrap();
    let mut pipe = Pipe {
        to_session: hello(),
        ..Pipe::default()
    };
    sessions.receive(id, &mut pipe, target);
    sessions.transmit(id, &mut pipe, target);
    assert_eq!(sessions.receive(id, &mut pipe, target), Received::Blocked);
    sessions.transmit(id, &mut pipe, target);
    assert!(!sessions.session(id).is_in_handshake());
    pipe.from_session.clear();
    (id, pipe)
}

pub(crate) fn ready(sessions: &mut Sessions) -> Vec<SessionId> {
    std::iter::from_fn(|| sessions.next_ready()).collect()
}

#[test]
fn completions_find_their_session() {
    let mut target = Held::with_lun(MIB);
    let mut sessions = Sessions::new(Settings::default(), 64 << 20);
    let mut peers: Vec<_> = (0..5)
        .map(|_| connect(&mut sessions, &mut target))
        .collect();
    ready(&mut sessions);
    target.flowing = false;
    for (number, (id, pipe)) in peers.iter_mut().enumerate() {
        pipe.to_session.extend(write(0, number as u64, 0, b"abc"));
        sessions.receive(*id, pipe, &mut target);
    }
    for index in [4, 1, 0, 1, 0] {
        target.release(index);
        assert_eq!(sessions.poll(&mut target), 1);
        let [id] = ready(&mut sessions)[..] else {
            panic!("one session is ready")
        };
        let number = peers.iter().position(|(other, _)| *other == id).unwrap();
        let pipe = &mut peers[number].1;
        sessions.transmit(id, pipe, &mut target);
        assert_eq!(pipe.from_session, reply(0, number as u64));
    }
}

#[test]
fn place_is_reused_under_another_name() {
    let mut target = Held::with_lun(MIB);
    let mut sessions = Sessions::new(Settings::default(), 64 << 20);
    let mut names = Vec::new();
    for _ in 0..10_000 {
        let id = sessions.attach(0).unwrap();
        assert!(!names[names.len().saturating_sub(4000)..].contains(&id));
        names.push(id);
        sessions.abandon(id, &mut target);
        assert!(sessions.interest(id).closed);
        sessions.detach(id);
    }
    assert!(sessions.is_empty());
    assert_eq!(ready(&mut sessions), []);
}

#[test]
fn broken_stream_keeps_its_place_until_operations_are_done() {
    let mut target = Held::with_lun(MIB);
    let mut sessions = Sessions::new(Settings::default(), 64 << 20);
    let (id, mut pipe) = connect(&mut sessions, &mut target);
    target.flowing = false;
    pipe.to_session.extend(request(READ, 0, 1, 0, 4096));
    sessions.receive(id, &mut pipe, &mut target);
    pipe.broken = true;
    assert_eq!(
        sessions.receive(id, &mut pipe, &mut target),
        Received::Stopped
    );
    assert!(!sessions.interest(id).closed);
    assert_eq!(target.open, 1);
    target.flowing = true;
    sessions.poll(&mut target);
    assert_eq!(ready(&mut sessions), [id]);
    assert!(sessions.interest(id).closed);
    assert_eq!(target.open, 0);
    sessions.detach(id);
}

#[test]
fn slow_handshakes_are_ended() {
    let mut target = Held::with_lun(MIB);
    let mut sessions = Sessions::new(Settings::default(), 64 << 20);
    let (done, _pipe) = connect(&mut sessions, &mut target);
    let slow = sessions.attach(SECOND).unwrap();
    sessions.sweep(11 * SECOND, &mut target);
    assert!(!sessions.interest(slow).closed, "ten seconds are allowed");
    sessions.sweep(11 * SECOND + 1, &mut target);
    assert!(sessions.interest(slow).closed);
    assert!(
        !sessions.interest(done).closed,
        "transmission may idle for ever"
    );
}

#[test]
fn peer_that_does_not_take_its_last_replies_is_given_up() {
    let mut target = Held::with_lun(MIB);
    let mut sessions = Sessions::new(Settings::default(), 64 << 20);
    let (id, mut pipe) = connect(&mut sessions, &mut target);
    pipe.room = Some(100);
    pipe.to_session.extend(request(READ, 0, 1, 0, 1 << 20));
    pipe.to_session.extend(request(DISC, 0, 2, 0, 0));
    sessions.receive(id, &mut pipe, &mut target);
    sessions.poll(&mut target);
    sessions.transmit(id, &mut pipe, &mut target);
    assert_eq!(pipe.from_session.len(), 100);
    for (second, closed) in [(100, false), (110, false), (111, true)] {
        sessions.sweep(second * SECOND, &mut target);
        assert_eq!(sessions.interest(id).closed, closed);
    }
    assert_eq!(target.open, 0);
}

#[test]
fn sessions_of_a_deleted_lun_are_ended_even_if_idle() {
    let mut target = Held::with_lun(MIB);
    let mut sessions = Sessions::new(Settings::default(), 64 << 20);
    let (id, _pipe) = connect(&mut sessions, &mut target);
    ready(&mut sessions);
    target.model.remove_lun("vol0/lun0");
    sessions.sweep(0, &mut target);
    assert_eq!(ready(&mut sessions), [id]);
    assert!(sessions.interest(id).closed);
}

#[test]
fn stopping_answers_what_is_in_flight_and_closes_all() {
    let mut target = Held::with_lun(MIB);
    let mut sessions = Sessions::new(Settings::default(), 64 << 20);
    let (busy, mut pipe) = connect(&mut sessions, &mut target);
    let haggling = sessions.attach(0).unwrap();
    let mut fresh = Pipe::default();
    sessions.transmit(haggling, &mut fresh, &mut target);
    target.flowing = false;
    pipe.to_session.extend(write(0, 1, 0, b"abc"));
    sessions.receive(busy, &mut pipe, &mut target);
    sessions.stop(&mut target);
    assert!(sessions.interest(haggling).closed);
    assert!(!sessions.interest(busy).closed);
    target.flowing = true;
    sessions.poll(&mut target);
    sessions.transmit(busy, &mut pipe, &mut target);
    assert_eq!(pipe.from_session, reply(0, 1));
    assert!(sessions.interest(busy).closed);
}

#[test]
fn payload_is_shared_among_sessions() {
    let mut target = Held::with_lun(64 * MIB);
    let mut settings = Settings::default();
    settings.limits.payload_max = 1 << 20;
    let mut sessions = Sessions::new(settings, 16 << 20);
    let mut peers: Vec<_> = (0..8)
        .map(|_| connect(&mut sessions, &mut target))
        .collect();
    target.flowing = false;
    for (id, pipe) in &mut peers {
        for cookie in 0..10 {
            pipe.to_session.extend(request(READ, 0, cookie, 0, 1 << 20));
        }
        sessions.receive(*id, pipe, &mut target);
        // A second one would be more than an eighth of the whole.
        let held = sessions.session(*id).payload_in_flight();
        assert_eq!(held, (1 << 20) + 1024);
    }
    assert_eq!(target.held.len(), 8);
}

#[test]
fn one_session_does_not_keep_the_others_waiting() {
    let mut target = Held::with_lun(64 * MIB);
    let mut sessions = Sessions::new(Settings::default(), 64 << 20);
    let (id, mut pipe) = connect(&mut sessions, &mut target);
    pipe.to_session = write(0, 1, 0, &pattern(1, 16 << 20));
    let mut turns = 1;
    while sessions.receive(id, &mut pipe, &mut target) == Received::More {
        turns += 1;
    }
    assert!(turns >= 12, "{turns} turns");
    sessions.poll(&mut target);
    sessions.transmit(id, &mut pipe, &mut target);
    assert_eq!(pipe.from_session, reply(0, 1));
}

#[test]
fn end_of_stream_closes_an_idle_session() {
    let mut target = Held::with_lun(MIB);
    let mut sessions = Sessions::new(Settings::default(), 64 << 20);
    let (id, mut pipe) = connect(&mut sessions, &mut target);
    pipe.ended = true;
    assert_eq!(
        sessions.receive(id, &mut pipe, &mut target),
        Received::Stopped
    );
    assert!(sessions.interest(id).closed);
    assert_eq!(target.exports().len(), 1);
}

#[test]
fn an_idle_session_is_ended_if_that_is_wanted() {
    let settings = Settings {
        idle_max: Some(60 * SECOND),
        ..Settings::default()
    };
    for (settings, is_ended) in [(settings, true), (Settings::default(), false)] {
        let mut target = Held::with_lun(MIB);
        let mut sessions = Sessions::new(settings, 64 << 20);
        let mut pipe = Pipe::default();
        let id = sessions.attach(0).unwrap();
        let tell = |bytes: &[u8],
                    now: u64,
                    sessions: &mut Sessions,
                    pipe: &mut Pipe,
                    target: &mut Held| {
            sessions.tick(now);
            pipe.to_session.extend(bytes);
            sessions.receive(id, pipe, target);
            sessions.poll(target);
            sessions.transmit(id, pipe, target);
            sessions.sweep(now, target);
        };
        let hello = [&3u32.to_be_bytes()[..], &option(1, b"vol0/lun0")].concat();
        tell(&hello, SECOND, &mut sessions, &mut pipe, &mut target);
        let read = request(READ, 0, 1, 0, 512);
        tell(&read, 50 * SECOND, &mut sessions, &mut pipe, &mut target);
        sessions.sweep(100 * SECOND, &mut target);
        assert!(!sessions.interest(id).closed, "heard fifty seconds ago");
        // Something is under way, and takes long.
        target.flowing = false;
        tell(&read, 110 * SECOND, &mut sessions, &mut pipe, &mut target);
        sessions.sweep(200 * SECOND, &mut target);
        assert!(!sessions.interest(id).closed);
        target.flowing = true;
        sessions.poll(&mut target);
        sessions.transmit(id, &mut pipe, &mut target);
        sessions.sweep(201 * SECOND, &mut target);
        assert_eq!(sessions.interest(id).closed, is_ended);
    }
}

/// A client that takes everything at once is sent a bounded amount in a turn, and is ready again
/// behind the others.
#[test]
fn who_takes_much_waits_for_the_others_now_and_then() {
    let mut target = Held::with_lun(32 * MIB);
    let mut sessions = Sessions::new(Settings::default(), 64 << 20);
    let mut pipes = [Pipe::default(), Pipe::default()];
    let hello = [&3u32.to_be_bytes()[..], &option(1, b"vol0/lun0")].concat();
    let ids = [sessions.attach(0).unwrap(), sessions.attach(0).unwrap()];
    for (id, pipe) in ids.iter().zip(&mut pipes) {
        pipe.to_session.extend(&hello);
        sessions.receive(*id, pipe, &mut target);
        sessions.transmit(*id, pipe, &mut target);
    }
    while sessions.next_ready().is_some() {}
    let [greedy, modest] = &mut pipes;
    for cookie in 0..16 {
        greedy
            .to_session
            .extend(request(READ, 0, cookie, 0, 1 << 20));
    }
    sessions.receive(ids[0], greedy, &mut target);
    sessions.poll(&mut target);
    modest.to_session.extend(request(READ, 0, 7, 0, 512));
    sessions.receive(ids[1], modest, &mut target);
    sessions.poll(&mut target);
    let before = greedy.from_session.len();
    assert_eq!(sessions.next_ready(), Some(ids[0]));
    sessions.transmit(ids[0], greedy, &mut target);
    let sent = greedy.from_session.len() - before;
    assert!(sent <= 160 << 10, "{sent} bytes in one turn");
    assert_eq!(sessions.next_ready(), Some(ids[1]));
    sessions.transmit(ids[1], modest, &mut target);
    assert!(modest.from_session.len() > 512);
    while let Some(id) = sessions.next_ready() {
        assert_eq!(id, ids[0]);
        sessions.transmit(id, greedy, &mut target);
    }
    assert_eq!(greedy.from_session.len() - before, 16 * ((1 << 20) + 16));
}
