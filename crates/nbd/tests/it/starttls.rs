//! `STARTTLS` in the session: when it is allowed, which agreements it drops, and the order of the
//! acknowledgement and the handshake.

use everglade_nbd::{Caller, TlsMode};

use crate::held::Held;
use crate::peer::{Peer, READ, context_data, info_data, option, option_reply, request};

const MIB: u64 = 1 << 20;
const STARTTLS: u32 = 5;
const UNSUP: u32 = (1 << 31) + 1;
const INVALID: u32 = (1 << 31) + 3;
const REQUIRED: u32 = (1 << 31) + 5;

fn peer(tls: TlsMode) -> Peer {
    let caller = Caller {
        tls,
        ..Caller::default()
    };
    Peer::called_by(Held::with_lun(MIB), caller)
}

fn begin(peer: &mut Peer) {
    let ack = option_reply(STARTTLS, 1, b"");
    assert_eq!(peer.exchange(&option(STARTTLS, b"")), ack);
    assert!(peer.session.wants_tls());
    assert!(!peer.session.wants_read(), "nothing in clear any more");
    peer.session.tls_begun();
    assert!(peer.session.wants_read());
}

#[test]
fn without_it_there_is_no_such_option() {
    let mut peer = peer(TlsMode::Off);
    let answer = peer.exchange(&option(STARTTLS, b""));
    let text = b"option not supported";
    assert_eq!(answer, option_reply(STARTTLS, UNSUP, text));
    peer.exchange(&option(7, &info_data("", &[])));
    assert!(!peer.session.is_in_handshake());
}

#[test]
fn offered_it_may_be_used_once() {
    let mut plain = peer(TlsMode::Offered);
    plain.exchange(&option(7, &info_data("", &[])));
    assert!(!plain.session.is_in_handshake());

    let mut peer = peer(TlsMode::Offered);
    let answer = peer.exchange(&option(STARTTLS, b"x"));
    let text = b"STARTTLS takes no data";
    assert_eq!(answer, option_reply(STARTTLS, INVALID, text));
    begin(&mut peer);
    let answer = peer.exchange(&option(STARTTLS, b""));
    let text = b"TLS was negotiated already";
    assert_eq!(answer, option_reply(STARTTLS, INVALID, text));
    peer.exchange(&option(7, &info_data("", &[])));
    assert!(!peer.session.is_in_handshake());
}

#[test]
fn required_nothing_else_is_done_before() {
    let mut peer = peer(TlsMode::Required);
    for number in [3, 6, 7, 8, 9, 10, 11, 77] {
        let answer = peer.exchange(&option(number, b""));
        let text = b"this server wants TLS first";
        assert_eq!(answer, option_reply(number, REQUIRED, text));
    }
    begin(&mut peer);
    peer.exchange(&option(7, &info_data("", &[])));
    assert!(!peer.session.is_in_handshake());
    assert_eq!(peer.exchange(&request(READ, 0, 1, 0, 1)).len(), 17);
}

#[test]
fn required_the_old_way_in_is_closed() {
    let mut required = peer(TlsMode::Required);
    assert!(required.exchange(&option(1, b"vol0/lun0")).is_empty());
    assert!(required.session.is_closed());
    let mut leaving = peer(TlsMode::Required);
    assert_eq!(leaving.exchange(&option(2, b"")), option_reply(2, 1, b""));
    assert!(leaving.session.is_closed());
}

#[test]
fn what_was_agreed_on_in_clear_is_forgotten() {
    let mut peer = peer(TlsMode::Offered);
    peer.exchange(&option(8, b""));
    peer.exchange(&option(10, &context_data("", &["base:allocation"])));
    begin(&mut peer);
    let answer = peer.exchange(&option(10, &context_data("", &["base:allocation"])));
    let text = b"structured replies must be negotiated first";
    assert_eq!(answer, option_reply(10, INVALID, text));
    peer.exchange(&option(7, &info_data("", &[])));
    // A simple reply.
    assert_eq!(
        peer.exchange(&request(READ, 0, 1, 0, 1))[..4],
        [0x67, 0x44, 0x66, 0x98]
    );
}

#[test]
fn what_was_sent_ahead_in_clear_ends_the_session() {
    let mut peer = peer(TlsMode::Offered);
    let injected = [option(STARTTLS, b""), option(7, &info_data("", &[]))].concat();
    assert!(peer.exchange(&injected).is_empty());
    assert!(peer.session.is_closed());
}
