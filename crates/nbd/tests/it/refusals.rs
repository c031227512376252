//! Requests that are refused, and what happens to the stream afterwards.

use everglade_nbd::Settings;

use crate::held::Held;
use crate::peer::{
    BLOCK_STATUS, CACHE, DISC, FAST_ZERO, FLUSH, FUA, NO_HOLE, Peer, READ, TRIM, WRITE,
    WRITE_ZEROES, reply, request, write,
};

const MIB: u64 = 1 << 20;
const EPERM: u32 = 1;
const ENOTSUP: u32 = 95;
const EINVAL: u32 = 22;
const ENOSPC: u32 = 28;

fn peer() -> Peer {
    Peer::in_transmission(Held::with_lun(MIB), Settings::default())
}

/// Checks that each request is refused with its error, and that the session continues.
fn assert_refused(peer: &mut Peer, cases: &[(Vec<u8>, u32)]) {
    for (message, error) in cases {
        let cookie = u64::from_be_bytes(*message[8..].first_chunk().unwrap());
        assert_eq!(
            peer.exchange(message),
            reply(*error, cookie),
            "{message:02x?}"
        );
    }
    assert!(peer.target.log.is_empty(), "nothing reached the target");
    assert_eq!(
        peer.exchange(&request(READ, 0, 99, 0, 512))[..16],
        reply(0, 99)
    );
}

#[test]
fn ranges_beyond_the_end() {
    let cases = [
        (request(READ, 0, 1, MIB, 1), EINVAL),
        (request(READ, 0, 2, MIB - 1, 2), EINVAL),
        (request(READ, 0, 3, u64::MAX, 1), EINVAL),
        (request(READ, 0, 3, MIB + 1, 0), EINVAL),
        (request(TRIM, 0, 4, 0, (1 << 20) + 1), EINVAL),
        (request(TRIM, 0, 5, u64::MAX, u32::MAX), EINVAL),
        (write(0, 6, MIB - 2, b"abc"), ENOSPC),
        (write(FUA, 7, u64::MAX - 1, b"abc"), ENOSPC),
        (request(WRITE_ZEROES, 0, 8, 1, 1 << 20), ENOSPC),
        (request(WRITE_ZEROES, NO_HOLE, 9, MIB, 1), ENOSPC),
    ];
    assert_refused(&mut peer(), &cases);
}

#[test]
fn unknown_flags_and_commands() {
    let cases = [
        (request(READ, 1 << 2, 1, 0, 1), EINVAL),
        (request(READ, NO_HOLE, 2, 0, 1), EINVAL),
        (write(1 << 15, 3, 0, b"abc"), EINVAL),
        (write(NO_HOLE, 3, 0, b"abc"), EINVAL),
        (request(FLUSH, NO_HOLE, 4, 0, 0), EINVAL),
        (request(TRIM, NO_HOLE, 5, 0, 1), EINVAL),
        (request(WRITE_ZEROES, 1 << 5, 6, 0, 1), EINVAL),
        (request(WRITE_ZEROES, FAST_ZERO | NO_HOLE, 6, 0, 1), ENOTSUP),
        (request(CACHE, NO_HOLE, 7, 0, 1), EINVAL),
        (request(BLOCK_STATUS, 0, 8, 0, 1), EINVAL),
        (request(8, 0, 8, 0, 1), EINVAL),
        (request(0xffff, 0, 9, 0, 1), EINVAL),
        (request(FLUSH, 0, 10, 1, 0), EINVAL),
        (request(FLUSH, 0, 11, 0, 1), EINVAL),
    ];
    assert_refused(&mut peer(), &cases);
}

#[test]
fn changes_to_a_read_only_export() {
    let mut target = Held::with_lun(MIB);
    target.model.set_read_only("vol0/lun0", true);
    let mut peer = Peer::in_transmission(target, Settings::default());
    let cases = [
        (write(0, 1, 0, b"abc"), EPERM),
        (request(TRIM, 0, 2, 0, 1), EPERM),
        (request(WRITE_ZEROES, 0, 3, 0, 1), EPERM),
    ];
    assert_refused(&mut peer, &cases);
    assert_eq!(peer.exchange(&request(FLUSH, 0, 4, 0, 0)), reply(0, 4));
}

#[test]
fn payloads_of_refused_requests_are_skipped() {
    let mut peer = Peer::in_transmission(Held::with_lun(128 * MIB), Settings::default());
    let cases = [
        (request(READ, 0, 1, 0, (64 << 20) + 1), EINVAL),
        (request(READ, 0, 2, 0, u32::MAX), EINVAL),
        (write(0, 3, 65 * MIB, &vec![7; 64 << 20]), ENOSPC),
    ];
    assert_refused(&mut peer, &cases);
}

#[test]
fn payloads_far_above_the_limit_end_the_session() {
    let mut peer = Peer::in_transmission(Held::with_lun(128 * MIB), Settings::default());
    assert_eq!(
        peer.exchange(&request(WRITE, 0, 1, 0, (64 << 20) + 1)),
        reply(EINVAL, 1)
    );
    assert!(peer.session.is_closed());
}

#[test]
fn error_of_a_refused_write_comes_after_its_payload() {
    let mut peer = peer();
    let message = write(0, 1, MIB, &[0; 10_000]);
    assert_eq!(peer.exchange(&message[..9_000]), b"");
    assert_eq!(peer.exchange(&message[9_000..]), reply(ENOSPC, 1));
}

#[test]
fn wrong_magic_ends_the_session_after_what_is_in_flight() {
    let mut peer = peer();
    peer.target.flowing = false;
    peer.send(
        &[
            write(0, 1, 0, b"abc"),
            vec![0x25; 28],
            write(0, 2, 0, b"abc"),
        ]
        .concat(),
    );
    assert!(!peer.session.wants_read());
    assert!(!peer.session.is_closed());
    peer.target.release_all();
    assert_eq!(peer.exchange(b""), reply(0, 1));
    assert!(peer.session.is_closed());
    assert_eq!(peer.target.log, ["write 0+3"]);
}

#[test]
fn disconnect_with_odd_fields_is_a_disconnect() {
    let mut peer = peer();
    assert_eq!(peer.exchange(&request(DISC, 0xffff, 1, 5, 5)), b"");
    assert!(peer.session.is_closed());
}

#[test]
fn smallest_block_is_enforced_if_it_is_above_one() {
    let mut settings = Settings::default();
    settings.limits.block_min = 512;
    let mut peer = Peer::in_transmission(Held::with_lun(MIB), settings);
    let cases = [
        (request(READ, 0, 1, 1, 512), EINVAL),
        (request(READ, 0, 2, 0, 511), EINVAL),
        (write(0, 3, 256, &[0; 512]), EINVAL),
    ];
    assert_refused(&mut peer, &cases);
}
