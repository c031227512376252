//! Sessions that ask where their export is to be opened, and go there.

use std::sync::Arc;

use everglade_nbd::metrics::{Metrics as _, Snapshot};
use everglade_nbd::{AllowList, Caller, SessionId, Sessions, Settings, TlsMode};
use everglade_target::model::Model;

use crate::held::Held;
use crate::peer::{
    BLOCK_STATUS, Peer, READ, context_data, info_data, option, option_reply, pattern, reply,
    request, write,
};
use crate::table::Pipe;

const MIB: u64 = 1 << 20;
const EXPORT_NAME: u32 = 1;
const ABORT: u32 = 2;
const INFO: u32 = 6;
const STARTTLS: u32 = 5;
const GO: u32 = 7;
const STRUCTURED: u32 = 8;
const SET_META_CONTEXT: u32 = 10;

fn asking() -> Settings {
    Settings {
        asks_for_home: true,
        ..Settings::default()
    }
}

fn hello() -> [u8; 4] {
    3u32.to_be_bytes()
}

/// Receives and sends until no bytes move, and returns the bytes sent.
fn exchange(
    sessions: &mut Sessions,
    id: SessionId,
    pipe: &mut Pipe,
    target: &mut Held,
    bytes: &[u8],
) -> Vec<u8> {
    pipe.to_session.extend(bytes);
    loop {
        let before = (pipe.to_session.len(), pipe.from_session.len());
        sessions.receive(id, pipe, target);
        sessions.poll(target);
        sessions.transmit(id, pipe, target);
        if before == (pipe.to_session.len(), pipe.from_session.len()) {
            return std::mem::take(&mut pipe.from_session);
        }
    }
}

#[test]
fn it_asks_before_anything_is_opened_and_goes_on_where_it_is() {
    for (opens, reply_bytes) in [
        (option(EXPORT_NAME, b"vol0/lun0"), 10 + 124),
        (option(EXPORT_NAME, b""), 10 + 124),
        (option(GO, &info_data("vol0/lun0", &[])), 20 + 12 + 20),
        (option(GO, &info_data("", &[])), 20 + 12 + 20),
    ] {
        let mut peer = Peer::new(Held::with_lun(MIB), asking());
        peer.exchange(&1u32.to_be_bytes());
        peer.exchange(&option(INFO, &info_data("vol0/lun0", &[])));
        assert_eq!(peer.session.home_question(), None, "looking is not opening");
        peer.send(&opens);
        assert_eq!(peer.session.home_question(), Some("vol0/lun0"));
        assert!(!peer.session.wants_read() && !peer.session.wants_write());
        assert_eq!(peer.target.open, 0);
        peer.session.stay(&mut peer.target);
        assert_eq!(peer.take().len(), reply_bytes);
        assert!(!peer.session.is_in_handshake());
        assert_eq!(peer.session.home_question(), None);
        assert_eq!(peer.exchange(&request(READ, 0, 1, 0, 1)).len(), 17);
    }
}

#[test]
fn it_does_not_ask_for_what_it_refuses() {
    let mut peer = Peer::new(Held::with_lun(MIB), asking());
    peer.exchange(&3u32.to_be_bytes());
    for bad in [&[][..], &[0; 3], &[0xff; 40]] {
        let answer = peer.exchange(&option(GO, bad));
        let text = b"malformed option data";
        assert_eq!(answer, option_reply(GO, (1 << 31) + 3, text));
    }
    peer.send(&option(GO, &info_data("nope", &[])));
    assert_eq!(peer.session.home_question(), None);
    assert!(peer.take().starts_with(&option_reply(GO, 0, b"")[..12]));
    peer.send(&option(GO, &info_data("vol0/lun0", &[])));
    assert_eq!(
        peer.session.home_question(),
        Some("vol0/lun0"),
        "the one it gets"
    );

    // An export for others does not exist for this client, so the session does not ask for its
    // place; nor does it ask before encryption.
    let mut peer = Peer::new(two_luns(), asking());
    peer.session = peer.session.with_caller(Caller {
        tls: TlsMode::Required,
        allow_list: Some(Arc::new(FirstOnly)),
        ..Caller::default()
    });
    peer.exchange(&3u32.to_be_bytes());
    peer.send(&option(GO, &info_data("vol0/lun0", &[])));
    assert_eq!(peer.session.home_question(), None);
    assert!(!peer.take().is_empty());
    peer.exchange(&option(STARTTLS, b""));
    peer.session.tls_begun();
    peer.send(&option(GO, &info_data("vol0/secret", &[])));
    assert_eq!(peer.session.home_question(), None);
    assert!(!peer.take().is_empty());
    peer.send(&option(GO, &info_data("", &[])));
    assert_eq!(peer.session.home_question(), Some("vol0/lun0"));
}

struct FirstOnly;

impl AllowList for FirstOnly {
    fn allows(&self, export: &str, _: &[u8; 16], _: &Caller) -> bool {
        export == "vol0/lun0"
    }
}

fn two_luns() -> Held {
    let mut model = Model::with_lun("vol0/lun0", MIB);
    model.add_lun("vol0/secret", MIB);
    Held::new(model)
}

#[test]
fn what_was_negotiated_and_sent_ahead_moves_along() {
    let (mut here, mut there) = (Held::with_lun(MIB), Held::with_lun(MIB));
    let payload = pattern(1, 5000);
    let mut from = Sessions::new(asking(), 64 << 20);
    let mut to = Sessions::new(asking(), 64 << 20);
    // So that its place is another one over there.
    let others: Vec<SessionId> = (0..3).filter_map(|_| to.attach(0)).collect();
    let id = from.attach(0).expect("a place");
    let mut pipe = Pipe::default();
    exchange(&mut from, id, &mut pipe, &mut here, &3u32.to_be_bytes());
    exchange(
        &mut from,
        id,
        &mut pipe,
        &mut here,
        &option(STRUCTURED, b""),
    );
    let contexts = context_data("vol0/lun0", &["base:allocation"]);
    let choose = option(SET_META_CONTEXT, &contexts);
    exchange(&mut from, id, &mut pipe, &mut here, &choose);
    let ahead = [
        option(GO, &info_data("vol0/lun0", &[])),
        write(0, 5, 4096, &payload),
    ];
    let answer = exchange(&mut from, id, &mut pipe, &mut here, &ahead.concat());
    assert!(answer.is_empty(), "nothing before it has its place");
    assert!(from.interest(id).home && !from.interest(id).read);
    assert_eq!(from.session(id).home_question(), Some("vol0/lun0"));
    let moving = from.release(id);
    assert!(from.is_empty());
    assert_eq!(from.next_ready(), None, "it is nobody's business here");
    let id = to.adopt(0, moving, &mut there).expect("a place");
    assert!(!others.contains(&id));
    assert!(std::iter::from_fn(|| to.next_ready()).any(|ready| ready == id));
    let answer = exchange(&mut to, id, &mut pipe, &mut there, b"");
    let done = [
        &b"\x66\x8e\x33\xef\0\x01\0\0"[..],
        &5u64.to_be_bytes(),
        &[0; 4],
    ]
    .concat();
    assert!(answer.ends_with(&done), "the write that came too early");
    assert_eq!(there.model.bytes("vol0/lun0", 4096, 5000), payload);
    assert_eq!((here.open, there.open), (0, 1));
    let status = request(BLOCK_STATUS, 0, 6, 0, 4096);
    let answer = exchange(&mut to, id, &mut pipe, &mut there, &status);
    assert!(answer.len() > 20, "the context is still chosen");
    let counted = (from.metrics().snapshot(), to.metrics().snapshot());
    assert_eq!((counted.0.sessions_open, counted.0.sessions_total), (0, 1));
    assert_eq!((counted.1.sessions_open, counted.1.sessions_total), (4, 3));
    assert_eq!(counted.0.handshakes_failed, 0);
    let writes = |counted: &Snapshot| counted.operations[1].requests;
    assert_eq!((writes(&counted.0), writes(&counted.1)), (0, 1));
    to.abandon(id, &mut there);
    to.detach(id);
    assert_eq!(there.open, 0);
    assert_eq!(to.metrics().snapshot().sessions_open, 3);
}

#[test]
fn one_that_waits_for_its_place_can_be_stopped_and_is_late_like_others() {
    let mut target = Held::with_lun(MIB);
    let go = option(GO, &info_data("vol0/lun0", &[]));
    let mut sessions = Sessions::new(asking(), 64 << 20);
    for is_late in [false, true] {
        let id = sessions.attach(0).expect("a place");
        let mut pipe = Pipe::default();
        exchange(&mut sessions, id, &mut pipe, &mut target, &hello());
        exchange(&mut sessions, id, &mut pipe, &mut target, &go);
        assert!(sessions.interest(id).home);
        if is_late {
            sessions.sweep(11_000_000_000, &mut target);
        } else {
            sessions.stop(&mut target);
        }
        let interest = sessions.interest(id);
        assert!(interest.closed && !interest.home);
        sessions.detach(id);
    }
    // The session was moved and refused there, so it is still in its handshake, whose time limit
    // continues.
    let id = sessions.attach(0).expect("a place");
    let mut pipe = Pipe::default();
    exchange(&mut sessions, id, &mut pipe, &mut target, &hello());
    exchange(&mut sessions, id, &mut pipe, &mut target, &go);
    let moving = sessions.release(id);
    target.model.remove_lun("vol0/lun0");
    let id = sessions
        .adopt(9_000_000_000, moving, &mut target)
        .expect("a place");
    assert!(sessions.session(id).is_in_handshake());
    sessions.sweep(10_000_000_000, &mut target);
    assert!(!sessions.interest(id).closed);
    sessions.sweep(10_000_000_001, &mut target);
    assert!(sessions.interest(id).closed);
    assert_eq!(target.open, 0);
}

#[test]
fn who_does_not_want_to_be_asked_is_not() {
    let mut peer = Peer::new(Held::with_lun(MIB), Settings::default());
    peer.exchange(&3u32.to_be_bytes());
    peer.send(&option(GO, &info_data("vol0/lun0", &[])));
    assert_eq!(peer.session.home_question(), None);
    assert!(!peer.session.is_in_handshake());
    peer.take();
    let answer = peer.exchange(&write(0, 1, 0, b"x"));
    assert_eq!(answer, reply(0, 1));
    let mut leaving = Peer::new(Held::with_lun(MIB), asking());
    leaving.exchange(&3u32.to_be_bytes());
    leaving.exchange(&option(ABORT, b""));
    assert!(leaving.session.is_closed());
}
