//! Clients other people wrote, against our sessions over loopback.

use std::process::{Command, Output};

use everglade_target::model::Model;

use crate::host::Host;
use crate::peer::pattern;

const MIB: u64 = 1 << 20;
/// A client that takes longer is stuck.
const SECONDS_MAX: &str = "120";

/// Runs a client; `None`, with the reason printed, if it is not installed.
fn run(program: &str, arguments: &[&str]) -> Option<Output> {
    if Command::new(program).arg("--version").output().is_err() {
        println!("skipped: {program} is not installed");
        return None;
    }
    Some(
        Command::new("timeout")
            .arg(SECONDS_MAX)
            .arg(program)
            .args(arguments)
            .output()
            .unwrap(),
    )
}

/// Runs a client that must succeed and returns its output; `None` if it is not installed.
fn succeed(program: &str, arguments: &[&str]) -> Option<String> {
    let output = run(program, arguments)?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {}\n{text}\n{errors}",
        output.status
    );
    Some(text)
}

#[test]
fn nbdinfo_shows_what_is_advertised() {
    let mut model = Model::with_lun("vol0/lun0", 64 * MIB);
    model.add_lun("vol0/other", MIB);
    let host = Host::start(model);
    let Some(text) = succeed("nbdinfo", &[&host.uri("vol0/lun0")]) else {
        return;
    };
    for line in [
        "export-size: 67108864 (64M)",
        "can_multi_conn: true",
        "can_flush: true",
        "can_fua: true",
        "can_trim: true",
        "can_zero: true",
        "can_cache: true",
        "can_df: true",
        "can_fast_zero: true",
        "base:allocation",
        "is_read_only: false",
        "block_size_minimum: 1",
        "block_size_preferred: 4096",
        "block_size_maximum: 33554432",
    ] {
        assert!(text.contains(line), "{line:?} is missing in\n{text}");
    }
    let list = succeed("nbdinfo", &["--list", &host.uri("")]).unwrap();
    assert!(list.contains("export=\"vol0/lun0\"") && list.contains("export=\"vol0/other\""));
    host.stop();
}

#[test]
fn qemu_shows_why_an_export_is_refused() {
    let mut model = Model::with_lun("vol0/lun0", MIB);
    model.add_lun("vol0/other", MIB);
    let host = Host::start(model);
    if let Some(refused) = run("qemu-io", &["-f", "raw", &host.uri(""), "-c", "length"]) {
        let text = String::from_utf8_lossy(&refused.stderr);
        assert!(
            text.contains("more than one: vol0/lun0, vol0/other"),
            "{text}"
        );
    }
    host.stop();
}

#[test]
fn nbdcopy_copies_there_and_back() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let mut bytes = pattern(1, 40 << 20);
    bytes[5 << 20..17 << 20].fill(0);
    std::fs::write(path("source"), &bytes).unwrap();
    let host = Host::start(Model::with_lun("vol0/lun0", 40 * MIB));
    let uri = host.uri("");
    if succeed("nbdcopy", &["--connections=4", &path("source"), &uri]).is_none() {
        return;
    }
    succeed("nbdcopy", &["--connections=4", &uri, &path("copy")]);
    assert!(std::fs::read(path("copy")).unwrap() == bytes);
    let model = host.stop();
    assert!(model.bytes("vol0/lun0", 0, 40 << 20) == bytes);
}

#[test]
fn qemu_img_converts_and_compares() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let mut bytes = pattern(2, 24 << 20);
    bytes[1 << 20..9 << 20].fill(0);
    std::fs::write(path("source"), &bytes).unwrap();
    let host = Host::start(Model::with_lun("vol0/lun0", 24 * MIB));
    let uri = host.uri("vol0/lun0");
    let to = [
        "convert",
        "-n",
        "-f",
        "raw",
        "-O",
        "raw",
        &path("source"),
        &uri,
    ];
    if succeed("qemu-img", &to).is_none() {
        return;
    }
    succeed(
        "qemu-img",
        &["compare", "-f", "raw", "-F", "raw", &path("source"), &uri],
    );
    succeed(
        "qemu-img",
        &["convert", "-f", "raw", "-O", "raw", &uri, &path("copy")],
    );
    assert!(std::fs::read(path("copy")).unwrap() == bytes);
    host.stop();
}

#[test]
fn nbdinfo_and_qemu_img_show_what_takes_space() {
    let directory = tempfile::tempdir().unwrap();
    let host = Host::start(Model::with_lun("vol0/lun0", 16 << 30));
    let uri = host.uri("vol0/lun0");
    let commands = ["-c", "write -P 7 1M 64k", "-c", "write -P 7 9G 4k"];
    let arguments = [&["-f", "raw", &uri[..]], &commands[..]].concat();
    if succeed("qemu-io", &arguments).is_none() {
        return;
    }
    if let Some(map) = succeed("nbdinfo", &["--map", &uri]) {
        let runs: Vec<Vec<&str>> = map
            .lines()
            .map(|line| line.split_whitespace().take(3).collect())
            .collect();
        let expected = [
            ["0", "1048576", "3"],
            ["1048576", "65536", "0"],
            ["1114112", "9662562304", "3"],
            ["9663676416", "4096", "0"],
            ["9663680512", "7516188672", "3"],
        ];
        assert_eq!(runs, expected, "{map}");
        let totals = succeed("nbdinfo", &["--map", "--totals", &uri]).unwrap();
        assert!(totals.contains("69632"), "{totals}");
    }
    let map = succeed("qemu-img", &["map", "--output=json", "-f", "raw", &uri]).unwrap();
    let data = map.lines().filter(|line| line.contains("\"data\": true"));
    assert_eq!(data.count(), 2, "{map}");
    // Copies only allocated data: 16 GiB of zeroes would take longer than the client may.
    let copy = directory.path().join("copy");
    let copy = copy.to_str().unwrap();
    if succeed("nbdcopy", &["--sparse=4096", &uri, copy]).is_some() {
        let bytes = std::fs::metadata(copy).unwrap();
        assert_eq!(bytes.len(), 16 << 30);
        assert!(std::os::unix::fs::MetadataExt::blocks(&bytes) * 512 < MIB);
    }
    host.stop();
}

#[test]
fn nbdinfo_shows_what_changed_since_an_image() {
    let mut model = Model::with_lun("vol0/lun0", MIB);
    model.write("vol0/lun0", 0, &pattern(1, 8192));
    model.keep_image("vol0/lun0", "monday");
    model.write("vol0/lun0", 4096, &pattern(2, 8192));
    let host = Host::start(model);
    let uri = host.uri("vol0/lun0");
    let Some(text) = succeed("nbdinfo", &[&uri]) else {
        return;
    };
    assert!(text.contains("everglade:changed:monday"), "{text}");
    let map = succeed("nbdinfo", &["--map=everglade:changed:monday", &uri]).unwrap();
    let runs: Vec<Vec<&str>> = map
        .lines()
        .map(|line| line.split_whitespace().take(3).collect())
        .collect();
    let expected = [
        ["0", "4096", "0"],
        ["4096", "8192", "1"],
        ["12288", "1036288", "0"],
    ];
    assert_eq!(runs, expected, "{map}");
    host.stop();
}

#[test]
fn qemu_io_patterns_hold() {
    let host = Host::start(Model::with_lun("vol0/lun0", 16 * MIB));
    let commands = [
        "write -P 0x11 0 1M",
        "write -P 0x22 4095 2",
        "read -P 0x22 4095 2",
        "read -P 0x11 4097 4096",
        "write -z 8192 12288",
        "read -P 0 8192 12288",
        "write -z -u 20480 4096",
        "read -P 0 20480 4096",
        "discard 64k 64k",
        "read -P 0x11 128k 4k",
        "write -f -P 0x33 15M 1M",
        "read -P 0x33 15M 1M",
        "flush",
        "aio_write -P 0x44 2M 512k",
        "aio_write -P 0x55 3M 512k",
        "aio_flush",
        "read -P 0x44 2M 512k",
        "read -P 0x55 3M 512k",
    ];
    let uri = host.uri("vol0/lun0");
    let mut arguments = vec!["-f", "raw", &uri[..]];
    commands
        .iter()
        .for_each(|command| arguments.extend(["-c", *command]));
    if let Some(text) = succeed("qemu-io", &arguments) {
        assert!(!text.contains("verification failed"), "{text}");
    }
    host.stop();
}

#[test]
fn fio_verifies_what_it_wrote() {
    let host = Host::start(Model::with_lun("vol0/lun0", 32 * MIB));
    let directory = tempfile::tempdir().unwrap();
    let arguments = [
        "--name=verify",
        "--ioengine=nbd",
        &format!("--uri={}", host.uri("vol0/lun0")),
        "--rw=randrw",
        "--bsrange=512-128k",
        "--blockalign=512",
        "--size=32M",
        "--io_size=48M",
        "--iodepth=32",
        "--verify=crc32c",
        "--verify_fatal=1",
        "--fsync=64",
        &format!("--aux-path={}", directory.path().display()),
    ];
    if let Some(output) = run("fio", &arguments) {
        let text = String::from_utf8_lossy(&output.stderr).into_owned()
            + &String::from_utf8_lossy(&output.stdout);
        if text.contains("engine nbd not loadable") {
            println!("skipped: this fio has no nbd engine");
        } else {
            assert!(output.status.success(), "{text}");
        }
    }
    host.stop();
}
