//! Listening, accepting and gathered transfers, as a protocol server does them.

use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use everglade_env::net::{ListenError, Listener, Moved, Peer, Stream};
use everglade_env::{Interest, Real, World};

use crate::rig::one_reactor;

fn reactor() -> Real {
    World::new(&one_reactor()).unwrap().reactor(0).unwrap()
}

/// Waits for the listener and accepts.
fn accept(real: &mut Real, listener: &Listener) -> (Stream, Peer) {
    real.register(listener, Interest::READ, 1).unwrap();
    let accepted = loop {
        real.wait(Some(Duration::from_secs(10)), &mut Vec::new());
        if let Some(accepted) = listener.accept().unwrap() {
            break accepted;
        }
    };
    assert!(listener.accept().unwrap().is_none());
    real.deregister(listener).unwrap();
    accepted
}

/// Receives and sends in pieces against a peer that uses the standard library.
fn converse(stream: &Stream, mut peer: impl Read + Write, real: &mut Real) {
    let mut bytes = [0; 6];
    let (first, second) = bytes.split_at_mut(2);
    let mut pieces = [IoSliceMut::new(first), IoSliceMut::new(second)];
    assert_eq!(stream.receive(&mut pieces).unwrap(), Moved::Later);
    peer.write_all(b"abcdef").unwrap();
    real.register(stream, Interest::READ, 7).unwrap();
    let mut ready = Vec::new();
    while ready.is_empty() {
        real.wait(Some(Duration::from_secs(10)), &mut ready);
    }
    assert_eq!(stream.receive(&mut pieces).unwrap(), Moved::Bytes(6));
    assert_eq!(&bytes, b"abcdef");
    let pieces = [IoSlice::new(b"gh"), IoSlice::new(b""), IoSlice::new(b"ijk")];
    assert_eq!(stream.send(&pieces).unwrap(), Moved::Bytes(5));
    let mut answer = [0; 5];
    peer.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"ghijk");
    // A peer that does not read: the socket fills up and nothing blocks.
    let megabyte = vec![0; 1 << 20];
    let mut sent = 0;
    while let Moved::Bytes(bytes) = stream.send(&[IoSlice::new(&megabyte)]).unwrap() {
        sent += bytes;
        assert!(sent < 1 << 30, "the socket never fills up");
    }
    drop(peer);
    // Its going shows as an error or an end, and never as a signal.
    let give_up = std::time::Instant::now() + Duration::from_secs(10);
    loop {
        assert!(std::time::Instant::now() < give_up);
        ready.clear();
        real.wait(Some(Duration::from_secs(10)), &mut ready);
        if ready.iter().any(|ready| ready.hangup) {
            break;
        }
    }
    assert!(stream.send(&[IoSlice::new(&megabyte)]).is_err());
}

#[test]
fn a_tcp_client_is_served() {
    let mut real = reactor();
    let listener = Listener::tcp("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.tcp_address().unwrap();
    let client = TcpStream::connect(address).unwrap();
    let (stream, peer) = accept(&mut real, &listener);
    assert_eq!(peer, Peer::Tcp(client.local_addr().unwrap()));
    assert!(rustix::net::sockopt::tcp_nodelay(&stream).unwrap());
    converse(&stream, client, &mut real);
    assert!(matches!(
        Listener::tcp(address),
        Err(ListenError::InUse { .. })
    ));
    drop(listener);
    Listener::tcp(address).unwrap();
}

#[test]
fn a_unix_client_is_served_and_others_are_kept_out() {
    let mut real = reactor();
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("nbd.sock");
    let listener = Listener::unix(&path).unwrap();
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let client = UnixStream::connect(&path).unwrap();
    let (stream, peer) = accept(&mut real, &listener);
    assert_eq!(peer, Peer::Local);
    converse(&stream, client, &mut real);
    drop(listener);
    assert!(!path.exists());
}

#[test]
fn a_stale_socket_is_replaced_and_a_file_is_not() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("nbd.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    drop(Listener::unix(&path).unwrap());
    std::fs::write(&path, "precious").unwrap();
    assert!(matches!(
        Listener::unix(&path),
        Err(ListenError::NotASocket { .. })
    ));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    let long = scratch.path().join("x".repeat(108));
    let error = Listener::unix(&long).unwrap_err();
    assert!(matches!(error, ListenError::PathTooLong { .. }));
    assert!(error.to_string().contains("107"), "{error}");
    let nowhere = scratch.path().join("missing/nbd.sock");
    assert!(matches!(
        Listener::unix(&nowhere),
        Err(ListenError::Host { .. })
    ));
}

#[test]
fn an_end_is_told_apart_from_nothing_yet() {
    let mut real = reactor();
    let listener = Listener::tcp("127.0.0.1:0".parse().unwrap()).unwrap();
    let client = TcpStream::connect(listener.tcp_address().unwrap()).unwrap();
    let (stream, _) = accept(&mut real, &listener);
    client.shutdown(std::net::Shutdown::Write).unwrap();
    real.register(&stream, Interest::READ, 9).unwrap();
    let mut ready = Vec::new();
    while ready.is_empty() {
        real.wait(Some(Duration::from_secs(10)), &mut ready);
    }
    assert!(ready[0].hangup && ready[0].readable);
    let mut bytes = [0; 4];
    assert_eq!(
        stream.receive(&mut [IoSliceMut::new(&mut bytes)]).unwrap(),
        Moved::End
    );
    assert_eq!(
        stream.send(&[IoSlice::new(b"bye")]).unwrap(),
        Moved::Bytes(3)
    );
    stream.finish_sending();
    let mut rest = String::new();
    (&client).read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "bye");
    stream.shut_down();
}
