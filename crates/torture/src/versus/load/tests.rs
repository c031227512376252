//! Tests of [`super`]: what is measured, on made-up figures and servers.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::thread::JoinHandle;

use super::*;

/// A flush of the server below takes so long.
const FLUSH: Duration = Duration::from_millis(10);

/// A server that answers a write at once and a flush after [`FLUSH`]; returns how many flushes it
/// got.
fn slow_to_flush(stream: &mut UnixStream) -> io::Result<u64> {
    stream.write_all(b"NBDMAGICIHAVEOPT\0\x03")?;
    let mut hello = [0; 20];
    stream.read_exact(&mut hello)?;
    let length = u32::from_be_bytes([hello[16], hello[17], hello[18], hello[19]]);
    stream.read_exact(&mut vec![0; length as usize])?;
    stream.write_all(&(1u64 << 30).to_be_bytes())?;
    stream.write_all(&[0, 1])?;
    let mut flushes = 0;
    loop {
        let mut header = [0; 28];
        stream.read_exact(&mut header)?;
        match header[7] {
            1 => {
                let length = u32::from_be_bytes([header[24], header[25], header[26], header[27]]);
                stream.read_exact(&mut vec![0; length as usize])?;
            }
            3 => {
                flushes += 1;
                std::thread::sleep(FLUSH);
            }
            _ => return Ok(flushes),
        }
        let mut reply = 0x6744_6698u32.to_be_bytes().to_vec();
        reply.extend([0; 4]);
        reply.extend(&header[8..16]);
        stream.write_all(&reply)?;
    }
}

fn server() -> (tempfile::TempDir, PathBuf, JoinHandle<io::Result<u64>>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("it.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let thread = std::thread::spawn(move || slow_to_flush(&mut listener.accept()?.0));
    (folder, path, thread)
}

fn run(kind: Kind, depth: u32) -> (Sample, u64) {
    let (_folder, path, thread) = server();
    let load = Load {
        kind,
        order: Order::Random,
        block: 4096,
        depth,
        jobs: 1,
        bytes: 1 << 20,
        pace: None,
    };
    let sample = load.run_count(&path, "it", 64, 1).unwrap();
    (sample, thread.join().unwrap().unwrap())
}

#[test]
fn latency_of_writers_that_flush_includes_their_flush() {
    let (sample, flushes) = run(Kind::WriteThenFlush, 4);
    assert_eq!((sample.operations, flushes), (64, 64));
    let points = sample.latencies.points();
    assert!(points.p50 >= FLUSH, "{points:?}");
}

#[test]
fn latency_of_a_group_ends_with_the_flush_that_covers_it() {
    let (sample, flushes) = run(Kind::WriteFlush(8), 4);
    assert_eq!(sample.operations, 64);
    assert_eq!(sample.latencies.count(), 64, "each write becomes durable");
    assert!((8..=9).contains(&flushes), "{flushes}");
    let points = sample.latencies.points();
    assert!(points.p50 >= FLUSH, "{points:?}");
}

#[test]
fn latency_of_writes_without_flushes_ends_with_the_answer() {
    let (sample, flushes) = run(Kind::Write, 4);
    assert_eq!((sample.operations, flushes), (64, 1));
    let points = sample.latencies.points();
    assert!(points.p50 < FLUSH, "{points:?}");
}
