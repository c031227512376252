//! The memory of a session is bounded, whatever its peer does.

use everglade_nbd::Settings;

use crate::held::Held;
use crate::peer::{FLUSH, Peer, READ, pattern, reply, request, write};

const MIB: u64 = 1 << 20;

fn tight() -> Settings {
    let mut settings = Settings {
        payload_in_flight_max: 0,
        requests_in_flight_max: 8,
        staging_bytes: 0,
        ..Settings::default()
    };
    settings.limits.payload_max = 1 << 20;
    settings
}

#[test]
fn stops_reading_at_the_limit_of_requests_and_goes_on() {
    let mut peer = Peer::in_transmission(Held::with_lun(MIB), tight());
    peer.target.flowing = false;
    let messages: Vec<u8> = (0..100).flat_map(|c| write(0, c, 0, b"abc")).collect();
    peer.send(&messages);
    assert_eq!(peer.target.held.len(), 8);
    assert!(!peer.session.wants_read());
    peer.target.release(0);
    peer.work();
    assert!(!peer.session.wants_read(), "an unsent reply counts");
    assert_eq!(peer.take(), reply(0, 0));
    assert_eq!(
        peer.target.held.len(),
        8,
        "one more was admitted from what was staged"
    );
}

#[test]
fn replies_nobody_takes_do_not_pile_up() {
    let mut peer = Peer::in_transmission(Held::with_lun(MIB), tight());
    let refused: Vec<u8> = (0..1000)
        .flat_map(|c| request(READ, 0, c, MIB, 1))
        .collect();
    let sent = peer.send(&refused);
    assert!(!peer.session.wants_read());
    assert!(sent < 17 * 1024 + 8 * 28, "{sent} bytes were taken");
    let mut answers = peer.take();
    answers.extend(peer.exchange(&refused[sent..]));
    let expected: Vec<u8> = (0..1000).flat_map(|c| reply(22, c)).collect();
    assert_eq!(answers, expected);
}

#[test]
fn payload_of_reads_counts_until_it_is_sent() {
    let mut peer = Peer::in_transmission(Held::with_lun(4 * MIB), tight());
    let messages: Vec<u8> = (0..6)
        .flat_map(|c| request(READ, 0, c, 0, 400_000))
        .collect();
    peer.send(&messages);
    peer.work();
    // Each read takes its 98 pages, and memory for the request itself.
    assert_eq!(peer.target.log.len(), 3, "three reads fit into 1.5 MiB");
    assert_eq!(peer.session.payload_in_flight(), 3 * (98 * 4096 + 1024));
    assert!(!peer.session.wants_read());
    let answers = peer.exchange(b"");
    assert_eq!(answers.len(), 6 * 400_016);
    assert_eq!(peer.session.payload_in_flight(), 0);
    assert!(peer.session.wants_read());
}

#[test]
fn payload_of_writes_counts_until_they_are_done() {
    let mut peer = Peer::in_transmission(Held::with_lun(4 * MIB), tight());
    peer.target.flowing = false;
    let message = write(0, 1, 0, &pattern(1, 900_000));
    peer.send(&message);
    let sent = peer.send(&message);
    assert!(!peer.session.wants_read());
    assert!(sent < 17 * 1024);
    peer.target.flowing = true;
    assert_eq!(
        peer.exchange(&message[sent..]),
        [reply(0, 1), reply(0, 1)].concat()
    );
    assert_eq!(peer.session.payload_in_flight(), 0);
}

#[test]
fn one_request_of_the_longest_operation_always_fits() {
    let mut peer = Peer::in_transmission(Held::with_lun(4 * MIB), tight());
    assert_eq!(
        peer.exchange(&write(0, 1, 0, &pattern(1, 1 << 20))),
        reply(0, 1)
    );
    assert_eq!(
        peer.exchange(&request(READ, 0, 1, 0, 1 << 20)).len(),
        16 + (1 << 20)
    );
}

#[test]
fn promised_payload_takes_memory_only_as_it_arrives() {
    let mut peer = Peer::in_transmission(Held::with_lun(64 * MIB), Settings::default());
    peer.send(&write(0, 1, 0, &[0; 32 << 20])[..28]);
    let mut pieces: Vec<_> = (0..20_000)
        .map(|_| std::io::IoSliceMut::new(&mut []))
        .collect();
    let count = peer.session.receive_buffers(&mut pieces);
    let room: usize = pieces[..count].iter().map(|piece| piece.len()).sum();
    assert_eq!(room, 1 << 20, "one slice");
}

#[test]
fn disconnect_behind_a_full_pipeline_is_seen() {
    let mut peer = Peer::in_transmission(Held::with_lun(MIB), tight());
    let mut messages: Vec<u8> = (0..50).flat_map(|c| request(FLUSH, 0, c, 0, 0)).collect();
    messages.extend(request(2, 0, 0, 0, 0));
    assert_eq!(peer.exchange(&messages).len(), 50 * 16);
    assert!(peer.session.is_closed());
}
