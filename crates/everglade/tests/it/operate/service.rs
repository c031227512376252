//! What a service manager hears: ready, alive, stopping (systemd's `Type=notify` with a watchdog).

use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::running::{TestDir, everglade};

/// Waits until this is among what is said.
#[track_caller]
fn hear(socket: &UnixDatagram, wanted: &str) {
    let begun = Instant::now();
    let mut message = [0; 4096];
    loop {
        let heard = socket.recv(&mut message);
        // The whole machine may be paused and go on.
        if matches!(&heard, Err(error) if error.kind() == ErrorKind::Interrupted) {
            continue;
        }
        let length = heard.unwrap_or_else(|error| {
            panic!(
                "{wanted} was not said within {:?}: {error}",
                begun.elapsed()
            )
        });
        let said = String::from_utf8_lossy(&message[..length]).into_owned();
        if said.lines().any(|line| line == wanted) {
            return;
        }
    }
}

#[test]
fn a_service_manager_hears_ready_alive_and_stopping() {
    let dir = TestDir::new();
    let path = dir.file("notify.sock");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    let patience = Some(Duration::from_secs(60));
    socket.set_read_timeout(patience).expect("a timeout");
    let mut daemon = everglade(&dir.data_dir())
        .args(["serve", "--nbd-tcp", ":0", "--aggregate-size", "2GiB"])
        .env("NOTIFY_SOCKET", &path)
        .env("WATCHDOG_USEC", "3000000")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary starts");
    hear(&socket, "READY=1");
    // Every thread gave a sign of life, more than once.
    hear(&socket, "WATCHDOG=1");
    hear(&socket, "WATCHDOG=1");
    let id = i32::try_from(daemon.id()).ok().and_then(Pid::from_raw);
    kill_process(id.expect("a pid"), Signal::TERM).expect("our own child");
    hear(&socket, "STOPPING=1");
    assert_eq!(daemon.wait().expect("an end").code(), Some(0));
}
