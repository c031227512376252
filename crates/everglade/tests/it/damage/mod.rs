//! Data directories that are not as we left them (issue 2, "Bad input"): refused with one line, or
//! served with errors where the damage is, and never written to by a start that is refused.
//!
//! Damage is done to segment files while no server runs. Blocks are found by what is in them, so
//! that these tests need no knowledge of where the engine puts things.

mod blocks;
mod devices;
mod labels;
mod medium;
mod notes;
mod random;
mod readonly;
mod repaired;
mod rolledback;
mod segments;
mod stale;
mod superblocks;
mod untouched;

use std::path::Path;
use std::process::Command;

use crate::clients::LUN;
use crate::running::{Server, TestDir};
use crate::wire::Client;
use medium::Medium;
use untouched::assert_refused_untouched;

const SERVE: [&str; 4] = ["--lun-size", "64MiB", "--aggregate-size", "2GiB"];
const BLOCK_U32: u32 = 4096;
const BLOCK: usize = BLOCK_U32 as usize;

fn serve(dir: &TestDir) -> Server {
    dir.serve(&SERVE)
}

fn open(server: &Server) -> Client {
    Client::open(&server.tcp, LUN)
        .expect("a connection to the LUN")
        .0
}

/// A block like no other: noise from a seed.
fn noise(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut block = vec![0; BLOCK];
    for word in block.chunks_exact_mut(8) {
        // xorshift64, by Marsaglia; any stream without repetition would do.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        word.copy_from_slice(&state.to_le_bytes());
    }
    block
}

/// A new data directory with noise in some blocks, and no server.
fn with_blocks(numbers: &[u64]) -> TestDir {
    let dir = TestDir::new();
    write_blocks(&dir, numbers);
    dir
}

/// Copies as `cp` does it, holes included, because segments are long and nearly empty.
fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp")
        .args(["--archive", "--sparse=always"])
        .args([from, to])
        .status();
    assert!(status.expect("cp runs").success());
}

/// Serves, writes and flushes noise into some blocks, and stops. The orderly end is a consistency
/// point.
fn write_blocks(dir: &TestDir, numbers: &[u64]) {
    let server = serve(dir);
    let mut client = open(&server);
    for number in numbers {
        let at = number * BLOCK as u64;
        client.write(at, &noise(*number)).expect("written");
    }
    client.flush().expect("flushed");
    drop(client);
    server.stop();
}

/// A server on this directory serves what [`with_blocks`] wrote.
#[track_caller]
fn assert_serves(dir: &TestDir, numbers: &[u64]) {
    let server = serve(dir);
    let mut client = open(&server);
    for number in numbers {
        let at = number * BLOCK as u64;
        let found = client.read(at, BLOCK_U32);
        assert!(found == Ok(noise(*number)), "block {number}");
    }
    drop(client);
    server.stop();
}
