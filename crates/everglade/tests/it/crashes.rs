//! SIGKILL under load, again and again: what was flushed is there, and the aggregate is sound.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::clients::{LUN, assert_clean};
use crate::running::{Server, TestDir};
use crate::tools::have;
use crate::wire::Client;

const ROUNDS: u64 = 5;
const BLOCK_U32: u32 = 4096;
const BLOCK: usize = BLOCK_U32 as usize;
/// Blocks that the careful writer rewrites in each pass, at the start of the LUN. fio has the rest.
const BLOCKS: u64 = 64;
const ARGS: [&str; 6] = [
    "--lun-size",
    "256MiB",
    "--aggregate-size",
    "4GiB",
    "--cp-interval",
    "500ms",
];

/// Random writes until the server is gone; killed when dropped.
struct Load {
    fio: Child,
}

impl Load {
    fn start(server: &Server) -> Load {
        let uri = format!("--uri={}", server.uri(LUN));
        let fio = Command::new("timeout")
            .args([
                "--kill-after=5",
                "60",
                "fio",
                "--name=load",
                "--ioengine=nbd",
            ])
            .arg(uri)
            .args(["--rw=randwrite", "--bsrange=4k-64k", "--iodepth=16"])
            .args(["--offset=16M", "--size=200M", "--fsync=64"])
            .args(["--time_based", "--runtime=60", "--randseed=5"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Load {
            fio: fio.expect("timeout runs"),
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // `timeout` passes SIGTERM on, and fio ends without the server anyway.
        let pid = i32::try_from(self.fio.id())
            .ok()
            .and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let _ = self.fio.wait();
    }
}

/// A block that says its number and the pass that wrote it, in every word.
fn content(number: u64, pass: u64) -> Vec<u8> {
    let word = pass << 16 | number;
    word.to_le_bytes().repeat(BLOCK / 8)
}

/// Writes whole passes and flushes each, for a while. Returns the last pass that was flushed; the
/// one after it has been begun.
fn write_passes(client: &mut Client, mut pass: u64, time: Duration) -> u64 {
    let since = Instant::now();
    while since.elapsed() < time {
        for number in 0..BLOCKS {
            client
                .write(number * BLOCK as u64, &content(number, pass + 1))
                .expect("written");
        }
        client.flush().expect("flushed");
        pass += 1;
    }
    for number in 0..BLOCKS / 2 {
        client
            .write(number * BLOCK as u64, &content(number, pass + 1))
            .expect("written");
    }
    pass
}

/// Each block is of the flushed pass, or of the one that was begun after it.
fn assert_holds(client: &mut Client, flushed: u64) {
    for number in 0..BLOCKS {
        let found = client
            .read(number * BLOCK as u64, BLOCK_U32)
            .expect("readable");
        let pass = u64::from_le_bytes(found[..8].try_into().expect("eight")) >> 16;
        assert!(found == content(number, pass), "block {number} is torn");
        let is_begun = number < BLOCKS / 2 && pass == flushed + 1;
        assert!(
            pass == flushed || is_begun,
            "block {number} is of pass {pass}, flushed was {flushed}"
        );
    }
}

#[test]
fn kills_under_load_lose_nothing_that_was_flushed() {
    if !have(&["fio"]) {
        return;
    }
    let dir = TestDir::new();
    let mut flushed = 0;
    for round in 0..ROUNDS {
        let server = dir.serve(&ARGS);
        let (mut client, _) = Client::open(&server.tcp, LUN).expect("opened");
        if round > 0 {
            assert_holds(&mut client, flushed);
        }
        let load = Load::start(&server);
        // Each round ends at another moment of a consistency point.
        let time = Duration::from_millis(900 + round * 170);
        flushed = write_passes(&mut client, flushed + 1, time);
        server.kill();
        drop(load);
        assert_clean(&dir);
    }
    let server = dir.serve(&ARGS);
    let (mut client, _) = Client::open(&server.tcp, LUN).expect("opened");
    assert_holds(&mut client, flushed);
    drop(client);
    server.stop();
    assert_clean(&dir);
}
