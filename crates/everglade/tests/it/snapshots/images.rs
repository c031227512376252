//! What clients see: `volume/lun@snapshot`, read-only and as it was, whatever is written or
//! restored meanwhile.

use std::fs;

use super::names;
use crate::manage::{ask, copy_in, noise, refused, serve};
use crate::running::{Server, TestDir};
use crate::tools::{have, must, must_fail};
use crate::wire::Client;

const EPERM: u32 = 1;
const IMAGE_BYTES: u64 = 4 << 20;
/// Of the LUN that tests are served with.
const LUN_BYTES: u64 = 64 << 20;

/// Noise of the LUN's size: most of it a hole.
fn image(dir: &TestDir, name: &str) -> std::path::PathBuf {
    let path = noise(dir, name, IMAGE_BYTES);
    let file = fs::File::options().write(true).open(&path).expect("open");
    file.set_len(LUN_BYTES).expect("longer");
    path
}

#[track_caller]
fn assert_same(server: &Server, export: &str, image: &std::path::Path) {
    let path = image.to_str().expect("UTF-8");
    must(
        "qemu-img",
        &[
            "compare",
            "-f",
            "raw",
            "-F",
            "raw",
            path,
            &server.uri(export),
        ],
    );
}

#[test]
fn qemu_and_libnbd_read_from_a_snapshot_what_was_overwritten() {
    if !have(&["nbdcopy", "nbdinfo", "qemu-img"]) {
        return;
    }
    let dir = TestDir::new();
    let server = serve(&dir);
    let (old, new) = (image(&dir, "old"), image(&dir, "newer"));
    copy_in(&server, &old, "vol0/lun0");
    ask(&dir, &["snapshot", "create", "vol0@s"]);
    copy_in(&server, &new, "vol0/lun0");
    assert_same(&server, "vol0/lun0@s", &old);
    assert_same(&server, "vol0/lun0", &new);
    let copy = dir.file("copy");
    must(
        "nbdcopy",
        &[&server.uri("vol0/lun0@s"), copy.to_str().expect("UTF-8")],
    );
    assert!(fs::read(&copy).expect("read") == fs::read(&old).expect("read"));
    must(
        "nbdinfo",
        &["--is", "read-only", &server.uri("vol0/lun0@s")],
    );
    must_fail("nbdinfo", &["--is", "read-only", &server.uri("vol0/lun0")]);
    let said = must_fail("nbdinfo", &[&server.uri("vol0/lun0@nix")]);
    assert!(said.contains("lun0@nix"), "{said}");
    server.stop();
    // It is there after a restart.
    let server = serve(&dir);
    assert_same(&server, "vol0/lun0@s", &old);
    server.stop();
}

#[test]
fn a_snapshot_refuses_writes_and_whoever_reads_it_keeps_it() {
    let dir = TestDir::new();
    let server = serve(&dir);
    let open = |export: &str| Client::open(&server.tcp, export).expect("a client").0;
    let mut active = open("vol0/lun0");
    active.write(4096, &[1; 8192]).expect("written");
    ask(&dir, &["snapshot", "create", "vol0@s"]);
    active.write(4096, &[2; 8192]).expect("written");
    let mut kept = open("vol0/lun0@s");
    assert_eq!(kept.read(4096, 8192), Ok(vec![1; 8192]));
    assert_eq!(kept.write(4096, &[3; 4096]), Err(EPERM));
    assert_eq!(kept.trim(4096, 4096), Err(EPERM));
    assert_eq!(kept.read(4096, 8192), Ok(vec![1; 8192]));
    assert_eq!(active.read(4096, 8192), Ok(vec![2; 8192]));
    for verb in [
        &["snapshot", "delete", "vol0@s", "--yes"][..],
        &["snapshot", "rename", "vol0@s", "t"][..],
    ] {
        refused(
            &dir,
            verb,
            5,
            &["vol0@s", "exported", "disconnect", "EVG-2010"],
        );
    }
    let shown = crate::manage::ask_json(&dir, &["snapshot", "show", "vol0@s"]);
    assert_eq!(shown["is_exported"], true);
    assert_eq!(names(&dir, "vol0"), ["s"]);
    drop(kept);
    // The server hears of the end of the connection a moment later.
    let delete = ["snapshot", "delete", "vol0@s", "--yes"];
    let gone = (0..200).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        crate::running::code(&dir.run(&delete)) == 0
    });
    assert!(gone);
    assert!(Client::open(&server.tcp, "vol0/lun0@s").is_err());
    drop(active);
    server.stop();
}

#[test]
fn a_restore_that_would_discard_what_a_client_reads_is_refused_and_nothing_changes() {
    let dir = TestDir::new();
    let server = serve(&dir);
    let open = |export: &str| Client::open(&server.tcp, export).expect("a client").0;
    let mut active = open("vol0/lun0");
    for (fill, name) in [(1, "vol0@old"), (2, "vol0@read"), (3, "vol0@new")] {
        active.write(0, &[fill; 4096]).expect("written");
        ask(&dir, &["snapshot", "create", name]);
    }
    let mut reader = open("vol0/lun0@read");
    let discard = [
        "snapshot",
        "restore",
        "vol0@old",
        "--discard-newer",
        "--yes",
    ];
    refused(
        &dir,
        &discard,
        5,
        &["vol0@read", "exported", "disconnect", "EVG-2010"],
    );
    assert_eq!(names(&dir, "vol0"), ["old", "read", "new"]);
    assert_eq!(active.read(0, 4096), Ok(vec![3; 4096]));
    assert_eq!(reader.read(0, 4096), Ok(vec![2; 4096]));
    drop(reader);
    // The server hears of the end of the connection a moment later.
    let done = (0..200).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        crate::running::code(&dir.run(&discard)) == 0
    });
    assert!(done);
    assert_eq!(names(&dir, "vol0"), ["old"]);
    assert_eq!(active.read(0, 4096), Ok(vec![1; 4096]));
    drop(active);
    server.stop();
}

#[test]
fn a_restored_volume_shows_connected_clients_what_it_was() {
    let dir = TestDir::new();
    let server = serve(&dir);
    let mut client = Client::open(&server.tcp, "vol0/lun0").expect("a client").0;
    client.write(0, &[1; 65_536]).expect("written");
    ask(&dir, &["snapshot", "create", "vol0@s"]);
    client.write(0, &[2; 65_536]).expect("written");
    client.flush().expect("flushed");
    ask(
        &dir,
        &[
            "snapshot",
            "restore",
            "vol0@s",
            "--safety-snapshot",
            "before",
        ],
    );
    assert_eq!(
        client.read(0, 65_536),
        Ok(vec![1; 65_536]),
        "the same connection"
    );
    let mut before = Client::open(&server.tcp, "vol0/lun0@before")
        .expect("a client")
        .0;
    assert_eq!(before.read(0, 65_536), Ok(vec![2; 65_536]));
    client.write(0, &[3; 65_536]).expect("written");
    client.flush().expect("flushed");
    assert_eq!(before.read(0, 65_536), Ok(vec![2; 65_536]));
    drop((client, before));
    server.kill();
    let server = serve(&dir);
    let mut client = Client::open(&server.tcp, "vol0/lun0").expect("a client").0;
    assert_eq!(client.read(0, 65_536), Ok(vec![3; 65_536]));
    drop(client);
    server.stop();
}

#[test]
fn a_restored_volume_gives_open_connections_its_sizes_and_closes_those_to_what_it_did_not_have() {
    const MIB: u64 = 1 << 20;
    let dir = TestDir::new();
    let server = serve(&dir);
    let open = |export: &str| Client::open(&server.tcp, export).expect("a client").0;
    let mut one = open("vol0/lun0");
    one.write(40 * MIB, &[1; 8192]).expect("written");
    ask(&dir, &["snapshot", "create", "vol0@s"]);
    ask(&dir, &["lun", "create", "vol0/later", "--size", "8MiB"]);
    let mut later = open("vol0/later");
    later.write(0, &[2; 8192]).expect("written");
    let resize = |size| {
        let sized = ["lun", "resize", "vol0/lun0", "--size", size, "--yes"];
        ask(&dir, &sized);
    };
    resize("16MiB");
    one.write(0, &[2; 8192]).expect("written");
    assert!(one.read(40 * MIB, 4096).is_err(), "it is shorter now");

    let back = ["snapshot", "restore", "vol0@s", "--safety-snapshot"];
    ask(&dir, &[&back[..], &["short"]].concat());
    assert_eq!(one.read(40 * MIB, 8192), Ok(vec![1; 8192]));
    assert_eq!(one.read(0, 8192), Ok(vec![0; 8192]));
    one.write(60 * MIB, &[3; 4096]).expect("it is longer again");
    assert!(later.is_closed_by_server());
    assert!(Client::open(&server.tcp, "vol0/later").is_err());

    // Longer than the snapshot has it, then as short as that was.
    resize("128MiB");
    one.write(100 * MIB, &[4; 4096]).expect("written");
    let forth = ["snapshot", "restore", "vol0@short"];
    ask(&dir, &forth);
    assert!(one.read(40 * MIB, 4096).is_err(), "it is shorter");
    assert!(one.write(100 * MIB, &[5; 4096]).is_err());
    assert_eq!(one.read(0, 8192), Ok(vec![2; 8192]));
    assert_eq!(open("vol0/later").read(0, 8192), Ok(vec![2; 8192]));
    drop((one, later));
    server.stop();
}
