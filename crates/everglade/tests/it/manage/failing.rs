//! Hosts that have no room: an aggregate that cannot be made leaves nothing behind, and one that
//! fails is reported and disturbs no other.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;

use super::devices::{Loop, sparse};
use super::{GIB, MIB, TestDir, ask, ask_json, assert_clean, everything, refused, serve, text};
use crate::operate::http;
use crate::running::{code, stdout};
use crate::tools::{have, skip};
use crate::waiting::event;
use crate::wire::{CMD_FLUSH, CMD_WRITE, Client, EIO, EPERM};

/// A file system in memory, which goes with this.
struct Tiny {
    keep: tempfile::TempDir,
}

impl Tiny {
    /// `None` where this is not allowed, after counting the skip.
    fn new(bytes: u64) -> Option<Tiny> {
        if !have(&["mount", "umount"]) {
            return None;
        }
        let keep = tempfile::tempdir().expect("a temporary directory");
        let size = format!("size={bytes}");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(keep.path())
            .output();
        if !mounted.expect("mount runs").status.success() {
            skip("mounting is not allowed here");
            return None;
        }
        Some(Tiny { keep })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.keep.path().join(name)
    }
}

impl Drop for Tiny {
    fn drop(&mut self) {
        let mut command = Command::new("umount");
        let ended = command.arg("--lazy").arg(self.keep.path()).status();
        if !ended.is_ok_and(|status| status.success()) {
            eprintln!("{} stays mounted", self.keep.path().display());
        }
    }
}

#[test]
fn an_addition_that_fails_half_way_leaves_devices_and_record_as_they_were() {
    let Some(tiny) = Tiny::new(2 * GIB) else {
        return;
    };
    let dir = TestDir::new();
    let server = serve(&dir);
    let folder = tiny.file("folder");
    fs::create_dir(&folder).expect("create");
    let device = sparse(&dir, "device", GIB);
    let remount = |how: &str| {
        let mut command = Command::new("mount");
        command.args(["-o", how]).arg(tiny.keep.path());
        assert!(command.status().expect("mount runs").success(), "{how}");
    };
    remount("remount,ro");
    let state = || fs::read_to_string(dir.data_dir().join("state.toml")).expect("a state");
    let before = (everything(&dir), state());
    let both = format!("{},{}", text(&device), text(&folder));
    let add = [
        "aggregate",
        "add",
        "aggr0",
        "--devices",
        &both,
        "--size",
        "1GiB",
    ];
    // The file is recorded and open when the folder turns out to be read-only.
    refused(&dir, &add, 1, &[text(&folder), "Read-only", "EVG-2005"]);
    assert_eq!(everything(&dir), before.0);
    assert_eq!(state().trim_end(), before.1.trim_end());
    let bytes = fs::read(&device).expect("read");
    assert!(bytes.iter().all(|byte| *byte == 0), "it has no label");
    remount("remount,rw");
    ask(&dir, &add);
    let devices = &ask_json(&dir, &["aggregate", "show", "aggr0"])["devices"];
    assert_eq!(devices.as_array().map(Vec::len), Some(3));
    server.stop();
    assert_clean(&dir, 1);
}

#[test]
fn an_aggregate_the_host_has_no_room_for_leaves_nothing_behind() {
    let Some(tiny) = Tiny::new(64 * MIB) else {
        return;
    };
    let dir = TestDir::new();
    let server = serve(&dir);
    let before = everything(&dir);
    let folder = tiny.file("device");
    fs::create_dir(&folder).expect("create");
    let file = tiny.file("file");
    let device = File::create(&file).expect("create");
    device.set_len(GIB).expect("a sparse file");
    let on_folder = [
        "aggregate",
        "create",
        "b",
        "--devices",
        text(&folder),
        "--size",
        "1GiB",
    ];
    let on_file = ["aggregate", "create", "b", "--devices", text(&file)];
    // Twice each: nothing of the first attempt is in the way of the second.
    for _ in 0..2 {
        let words = ["64.0 MiB free", "needs 367.0 MiB there", "EVG-3001"];
        refused(&dir, &on_folder, 7, &words);
        assert_eq!(fs::read_dir(&folder).expect("list").count(), 0);
        refused(&dir, &on_file, 7, &["needs 367.0 MiB there"]);
    }
    assert_eq!(everything(&dir), before);
    ask(&dir, &["aggregate", "create", "b", "--size", "1GiB"]);
    server.stop();
    assert_clean(&dir, 2);
}

#[test]
fn an_aggregate_whose_device_fails_is_reported_read_out_and_disturbs_no_other() {
    let Some(tiny) = Tiny::new(64 * MIB) else {
        return;
    };
    let image = tiny.file("image");
    let file = File::create(&image).expect("create");
    file.set_len(GIB).expect("a sparse file");
    let Some(device) = Loop::over(&image) else {
        return;
    };
    let dir = TestDir::new();
    let server = serve(&dir);
    ask(
        &dir,
        &["aggregate", "create", "b", "--devices", &device.path],
    );
    ask(&dir, &["volume", "create", "v", "--aggregate", "b"]);
    ask(&dir, &["lun", "create", "v/l", "--size", "512MiB"]);

    // The device has less room than it says, which it cannot say in time: its writes fail.
    let (mut idle, _) = Client::open(&server.tcp, "v/l").expect("a client");
    let (mut client, _) = Client::open(&server.tcp, "v/l").expect("a client");
    let block = vec![7; 1 << 20];
    let mut offset = 0;
    let length = u32::try_from(MIB).expect("a small constant");
    while offset < 200 * MIB && matches!(client.request(CMD_WRITE, offset, length, &block), Ok(0)) {
        offset += MIB;
    }
    // An error or the end of the connection, as it comes.
    let flushed = client.request(CMD_FLUSH, 0, 0, &[]);
    assert!(!matches!(flushed, Ok(0)), "it cannot be durable");
    // What was acknowledged may be lost; nobody is to find that under a connection that goes on.
    assert!(client.is_closed_by_server());
    assert!(idle.is_closed_by_server());
    let output = dir.run(&["status"]);
    let said = stdout(&output);
    assert_eq!(code(&output), 8, "{said}");
    for part in [
        "health: unhealthy",
        "aggregate b",
        "EVG-4008",
        "in memory only",
        "1 of 2 aggregates",
    ] {
        assert!(said.contains(part), "'{part}' is not in: {said}");
    }
    assert_eq!(
        ask_json(&dir, &["aggregate", "show", "b"])["state"],
        "read-only"
    );
    refused(
        &dir,
        &["lun", "create", "v/m", "--size", "1GiB"],
        1,
        &["EVG-4008"],
    );

    // Everything that was acknowledged can be read out, and a flush does not say that it is
    // durable.
    let (mut reader, _) = Client::open(&server.tcp, "v/l").expect("a client that reads");
    let mut at = 0;
    while at < offset {
        assert!(reader.read(at, length) == Ok(block.clone()), "at {at}");
        at += MIB;
    }
    assert_eq!(reader.flush(), Err(EIO));
    assert_eq!(reader.write(0, &block), Err(EPERM));
    assert!(reader.read(0, length) == Ok(block.clone()), "it goes on");
    let page = http::tcp(&server.metrics, "GET", "/metrics", "").body;
    for line in [
        "everglade_aggregate_read_only{aggregate=\"b\"} 1",
        "everglade_aggregate_read_only{aggregate=\"aggr0\"} 0",
        "everglade_aggregate_up{aggregate=\"b\"} 0",
    ] {
        assert!(page.contains(line), "{line}: {page}");
    }
    event(&dir, "EVG-4008");

    let (mut other, _) = Client::open(&server.tcp, "vol0/lun0").expect("a client");
    other.write(0, &block).expect("written");
    other.flush().expect("flushed");
    ask(&dir, &["lun", "create", "vol0/more", "--size", "1GiB"]);
    server.kill();
}
