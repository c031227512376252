//! Clients that misbehave: an error or a closed connection for them, nothing for the others.

use std::io::Write;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use super::{LUN, LUN_BYTES, ready_for, serve};
use crate::running::{Server, TestDir};
use crate::tools::must_fail;
use crate::wire::{
    CMD_READ, CMD_WRITE, Client, EINVAL, ENOSPC, client_flags, option, option_claiming,
};

/// The server runs and serves a well-behaved client.
#[track_caller]
fn assert_unaffected(server: &mut Server) {
    assert!(server.is_running());
    let (mut client, size) = Client::open(&server.tcp, LUN).expect("a good client");
    assert_eq!(size, LUN_BYTES);
    assert_eq!(client.request(CMD_READ, 0, 4096, &[]).expect("a reply"), 0);
}

#[test]
fn garbage_on_the_socket_closes_only_that_connection() {
    let dir = TestDir::new();
    let mut server = serve(&dir);
    for garbage in [
        &b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"[..],
        &[0xFF; 4096],
        &[0x00; 4096],
        &[client_flags().as_slice(), &[0xAA; 64]].concat(),
        &[
            client_flags().as_slice(),
            &option_claiming(7, u32::MAX, b"x"),
        ]
        .concat(),
    ] {
        let mut client = Client::greet(&server.tcp).expect("a greeting");
        // The server may have closed before all was sent.
        let _ = client.send(garbage);
        assert!(client.is_closed_by_server(), "{:?}", &garbage[..8]);
        assert_unaffected(&mut server);
    }
    server.stop();
}

#[test]
fn unknown_options_are_refused_and_the_handshake_goes_on() {
    let dir = TestDir::new();
    let mut server = serve(&dir);
    let mut client = Client::greet(&server.tcp).expect("a greeting");
    let bytes = [
        client_flags().as_slice(),
        &option(0x7777, b"what"),
        &option(2, b""),
    ]
    .concat();
    client.send(&bytes).expect("sent");
    assert!(client.is_closed_by_server(), "after NBD_OPT_ABORT");
    assert_unaffected(&mut server);
    server.stop();
}

#[test]
fn clients_that_vanish_at_any_step_leave_the_server_alone() {
    let dir = TestDir::new();
    let mut server = serve(&dir);
    for _ in 0..50 {
        drop(TcpStream::connect(&server.tcp).expect("connect"));
        drop(Client::greet(&server.tcp).expect("a greeting"));
        drop(Client::open(&server.tcp, LUN).expect("opened"));
        drop(UnixStream::connect(&server.unix).expect("connect"));
    }
    let (mut client, _) = Client::open(&server.tcp, LUN).expect("opened");
    let mut half_a_write = 0x2560_9513u32.to_be_bytes().to_vec();
    half_a_write.extend([0, 0, 0, 1]);
    half_a_write.extend([0; 16]);
    half_a_write.extend(65_536u32.to_be_bytes());
    half_a_write.extend([0x55; 1000]);
    client.send(&half_a_write).expect("sent");
    drop(client);
    assert_unaffected(&mut server);
    server.stop();
}

#[test]
fn an_unknown_export_is_refused() {
    if !ready_for(&["nbdinfo"]) {
        return;
    }
    let dir = TestDir::new();
    let mut server = serve(&dir);
    for export in ["nope", "vol0", "vol0/lun1", "vol0/lun0/", "../vol0/lun0"] {
        must_fail("nbdinfo", &[&server.uri(export)]);
    }
    // The older way to name an export has no reply for an error: the connection closes.
    assert!(Client::open(&server.tcp, "nope").is_err());
    assert!(Client::open(&server.tcp, &"x".repeat(5000)).is_err());
    assert_unaffected(&mut server);
    server.stop();
}

#[test]
fn ranges_beyond_the_end_are_errors_and_the_session_goes_on() {
    let dir = TestDir::new();
    let mut server = serve(&dir);
    let (mut client, _) = Client::open(&server.tcp, LUN).expect("opened");
    for (offset, length) in [
        (LUN_BYTES, 1),
        (LUN_BYTES - 1, 2),
        (LUN_BYTES - 4096, 8192),
        (u64::MAX, 1),
        (u64::MAX - 4095, 4096),
        (1 << 63, 4096),
    ] {
        assert_eq!(
            client
                .request(CMD_READ, offset, length, &[])
                .expect("a reply"),
            EINVAL
        );
        let payload = vec![0x55; length as usize];
        let error = client
            .request(CMD_WRITE, offset, length, &payload)
            .expect("a reply");
        // The protocol asks for ENOSPC, and permits EINVAL.
        assert!(
            [EINVAL, ENOSPC].contains(&error),
            "{error} for a write at {offset}"
        );
    }
    assert_eq!(
        client
            .request(CMD_READ, LUN_BYTES - 1, 1, &[])
            .expect("a reply"),
        0
    );
    let error = client
        .request(0x7F, 0, 0, &[])
        .expect("a reply to an unknown command");
    assert_eq!(error, EINVAL);
    assert_unaffected(&mut server);
    server.stop();
}

#[test]
fn a_request_without_its_magic_closes_the_connection() {
    let dir = TestDir::new();
    let mut server = serve(&dir);
    let (mut client, _) = Client::open(&server.tcp, LUN).expect("opened");
    let _ = client.send(&[0xEE; 28]);
    assert!(client.is_closed_by_server());
    let mut unix = UnixStream::connect(&server.unix).expect("connect");
    let _ = unix.write_all(&[0xEE; 1 << 16]);
    assert_unaffected(&mut server);
    server.stop();
}

#[test]
fn two_hundred_bad_connections_at_once_leave_room_for_a_good_client() {
    let dir = TestDir::new();
    let mut server = serve(&dir);
    let mut bad = Vec::new();
    for number in 0..200 {
        let mut client = Client::greet(&server.tcp).expect("a greeting");
        // Some say nothing, some stop half-way, some are let in and then send half a request, some
        // send what is no protocol at all.
        match number % 4 {
            0 => {}
            1 => client.send(&client_flags()[..3]).expect("sent"),
            2 => {
                let (mut inside, _) = Client::open(&server.tcp, LUN).expect("opened");
                inside.send(&[0x25, 0x60, 0x95, 0x13, 0]).expect("sent");
                bad.push(inside);
            }
            // It may be closed before all is sent.
            _ => drop(client.send(&[0xEE; 70_000])),
        }
        bad.push(client);
    }
    for _ in 0..10 {
        assert_unaffected(&mut server);
    }
    // Those that are half-way through the handshake are not kept for ever.
    assert!(bad[1].is_closed_by_server());
    drop(bad);
    assert_unaffected(&mut server);
    server.stop();
}
