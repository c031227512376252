//! iSCSI initiators against the real daemon: libiscsi's test suite, QEMU's programs, CHAP.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use super::{LUN, assert_clean, assert_same, disk_image, ready_for, text};
use crate::running::{Server, TestDir, stderr, stdout};
use crate::tools::{must, run};

const SERVE: [&str; 6] = [
    "--lun-size",
    "64MiB",
    "--aggregate-size",
    "2GiB",
    "--iscsi-tcp",
    ":0",
];
const TARGET: &str = "iqn.2026-11.dev.everglade:vol0.lun0";

/// Tests of libiscsi 1.19 that fail here, because they ask for what the standard forbids. Each is a
/// suite and a test.
const WRONG: [(&str, &str); 2] = [
    // It asks for the status of block i + 1, and wants to be told about block i + 8. SBC-3 §5.12.2:
    // the first descriptor begins with the block that was asked for.
    ("GetLBAStatus", "UnmapSingle"),
    // It writes blocks of ones with UNMAP set, and wants to read zeroes. SBC-3 §5.46: data that an
    // unmapped block does not read as is written. (The same test of WRITE SAME (16) sends zeroes.)
    ("WriteSame10", "UnmapUntilEnd"),
];

/// Why tests of the suite skip themselves, as they say it, and why that is right.
const SKIPPED: [(&str, &str); 11] = [
    (
        "EXTENDEDCOPY is not implemented",
        "copies are made by hosts, for now",
    ),
    ("RECEIVECOPYRESULT is not implemented", "as EXTENDED COPY"),
    (
        "RECEIVE_COPY_RESULTS is not implemented",
        "as EXTENDED COPY",
    ),
    (
        "--allow-sanitize flag is not set",
        "the pool is shared with other LUNs",
    ),
    ("WRITEATOMIC16 is not implemented", "a command of SBC-4"),
    (
        "READDEFECTDATA10 is not implemented",
        "there are no defects to tell about",
    ),
    (
        "READDEFECTDATA12 is not implemented",
        "there are no defects to tell about",
    ),
    (
        "RESERVE6 is not implemented",
        "persistent reservations have replaced it",
    ),
    ("Logical unit is not removable", "the medium of a LUN stays"),
    ("Media is not removable", "the medium of a LUN stays"),
    (
        "Logical unit is not write-protected",
        "the LUN of this test is written",
    ),
];

/// Whether QEMU's programs are there and speak iSCSI, which is a module of its own.
fn qemu_is_ready(programs: &[&str]) -> bool {
    if !ready_for(programs) {
        return false;
    }
    // Nobody listens there, so this fails in any case.
    let output = run("qemu-img", &["info", "iscsi://127.0.0.1:1/iqn.nobody/0"]);
    let is_known = !stderr(&output).contains("Unknown protocol");
    if !is_known {
        crate::tools::skip("not installed: QEMU's module for iSCSI, of qemu-block-extra");
    }
    is_known
}

fn url(server: &Server) -> String {
    format!("iscsi://{}/{TARGET}/0", server.address("iscsi"))
}

/// What the suite printed: failed tests, and reasons of skips that nobody expects.
fn judge(said: &str) -> (Vec<(&str, &str)>, Vec<&str>) {
    let failed = said.lines().filter_map(|line| {
        let names = line.strip_suffix(" had failures:")?;
        let (suite, test) = names.split_once(", Test ")?;
        Some((suite.trim_start_matches("Suite "), test))
    });
    let skipped = said.lines().filter_map(|line| {
        let (_, reason) = line.split_once("[SKIPPED]")?;
        let is_known = SKIPPED.iter().any(|(known, _)| reason.contains(known));
        (!is_known).then_some(reason.trim())
    });
    (failed.collect(), skipped.collect())
}

/// Without `stdbuf` a crash of the suite would lose what it said.
#[test]
fn the_suite_of_libiscsi_finds_only_what_it_is_wrong_about() {
    if !ready_for(&["iscsi-test-cu"]) {
        return;
    }
    let dir = TestDir::new();
    let server = dir.serve(&SERVE);
    let url = url(&server);
    let mut suite = Command::new("timeout");
    suite.args(["--kill-after=5", "300", "iscsi-test-cu"]);
    // Two paths, by two sessions; two initiators in the tests of reservations.
    suite.args(["--dataloss", "--normal", "--test", "ALL", &url, &url]);
    let output = suite.output().expect("timeout is part of every Debian");
    let said = stdout(&output);
    // It ends with 1 if a test has failed.
    let code = output.status.code();
    assert_eq!(code, Some(1), "{said}{}", stderr(&output));
    let (failed, skipped) = judge(&said);
    assert_eq!(failed, WRONG, "{said}");
    assert_eq!(
        skipped,
        Vec::<&str>::new(),
        "skipped without a reason that is known"
    );
    // The summary: tests, in total, ran, passed, failed.
    let numbers = said.lines().find_map(|line| {
        let numbers = line.trim().strip_prefix("tests ")?;
        let numbers = numbers.split_whitespace().map(str::parse);
        Some(numbers.collect::<Result<Vec<usize>, _>>().expect("numbers"))
    });
    let numbers = numbers.expect("a summary");
    assert!(numbers[0] >= 220, "the whole suite: {numbers:?}");
    assert_eq!(numbers[0], numbers[1], "all of them ran");
    server.stop();
    assert_clean(&dir);
}

#[test]
fn qemu_img_converts_in_compares_and_converts_out_over_iscsi() {
    if !qemu_is_ready(&["qemu-img"]) {
        return;
    }
    let dir = TestDir::new();
    let server = dir.serve(&SERVE);
    let url = url(&server);
    let image = disk_image(&dir, 14);
    let raw = ["-f", "raw", "-O", "raw"];
    let convert = |from: &str, to: &str, more: &[&str]| {
        let args = [&["convert"], more, &raw, &[from, to]].concat();
        must("qemu-img", &args)
    };
    convert(text(&image), &url, &["-n"]);
    must(
        "qemu-img",
        &["compare", "-f", "raw", "-F", "raw", text(&image), &url],
    );
    // The same LUN over NBD: what one host wrote, another reads.
    let nbd = server.uri(LUN);
    must(
        "qemu-img",
        &["compare", "-f", "raw", "-F", "raw", text(&image), &nbd],
    );
    let back = dir.file("back.img");
    convert(&url, text(&back), &[]);
    assert_same(&image, &back);
    server.stop();
    assert_clean(&dir);
}

#[test]
fn patterns_read_back_over_iscsi_and_after_a_restart() {
    if !qemu_is_ready(&["qemu-img", "qemu-io"]) {
        return;
    }
    let dir = TestDir::new();
    let server = dir.serve(&SERVE);
    let qemu_io = |url: &str, commands: &[&str]| {
        let mut args = vec!["-f", "raw", "-d", "unmap"];
        commands
            .iter()
            .for_each(|command| args.extend(["-c", command]));
        args.push(url);
        let said = must("qemu-io", &args).to_lowercase();
        let is_well = ["failed", "error", "invalid"]
            .iter()
            .all(|it| !said.contains(it));
        assert!(is_well, "{commands:?}: {said}");
    };
    qemu_io(
        &url(&server),
        &[
            "read -P 0 0 1M",
            "write -P 0xa5 512 8192",
            "read -P 0xa5 512 8192",
            "read -P 0 0 512",
            "write -P 0x33 1M 3M",
            "read -P 0x33 1M 3M",
            "aio_write -P 1 8M 1M",
            "aio_write -P 2 10M 1M",
            "aio_write -P 3 12M 1M",
            "aio_flush",
            "read -P 2 10M 1M",
            "discard 8M 1M",
            "read -P 0 8M 1M",
            "write -z 12M 512k",
            "read -P 0 12M 512k",
            "read -P 3 12800k 512k",
            "write -f -P 0x44 67104768 4096",
            "flush",
        ],
    );
    server.kill();
    let server = dir.serve(&SERVE);
    qemu_io(
        &url(&server),
        &[
            "read -P 0xa5 512 8192",
            "read -P 0x33 1M 3M",
            "read -P 0 8M 1M",
            "read -P 0x44 67104768 4096",
        ],
    );
    server.stop();
    assert_clean(&dir);
}

#[test]
fn the_banner_s_lines_work_as_printed() {
    if !qemu_is_ready(&["iscsi-ls", "qemu-img"]) {
        return;
    }
    let dir = TestDir::new();
    let mut server = dir.serve(&SERVE);
    let banner = server.banner();
    let (_, lines) = banner.split_once("over iSCSI is").expect("its part");
    let image = disk_image(&dir, 15);
    let image = text(&image);
    must(
        "qemu-img",
        &[
            "convert",
            "-O",
            "qcow2",
            image,
            text(&dir.file("disk.qcow2")),
        ],
    );
    let mut tried = 0;
    for line in lines.lines().map(str::trim) {
        if line.starts_with("iscsi-ls ") || line.starts_with("qemu-img ") {
            let output = dir.shell(line).output().expect("a shell");
            assert!(output.status.success(), "{line}: {}", stderr(&output));
            tried += 1;
        }
    }
    assert_eq!(tried, 4, "{lines}");
    assert!(lines.contains(&format!("iscsiadm -m node -T {TARGET}")));
    must("qemu-img", &["compare", image, text(&dir.file("copy.img"))]);
    server.stop();
}

#[test]
fn who_does_not_know_the_secret_does_not_get_in() {
    if !ready_for(&["iscsi-inq", "iscsi-ls"]) {
        return;
    }
    let dir = TestDir::new();
    let secrets = dir.file("secrets");
    fs::write(&secrets, "initiator alice a-long-secret-1\n").expect("written");
    let args = [&SERVE[..], &["--iscsi-secrets", text(&secrets)]].concat();
    fs::set_permissions(&secrets, fs::Permissions::from_mode(0o644)).expect("changed");
    let refused = dir.serve_in_vain(&args);
    assert!(
        stderr(&refused).contains("chmod 600"),
        "{}",
        stderr(&refused)
    );
    fs::set_permissions(&secrets, fs::Permissions::from_mode(0o600)).expect("changed");
    let server = dir.serve(&args);
    let portal = server.address("iscsi");
    let with = |user: &str| format!("iscsi://{user}{portal}/{TARGET}/0");
    let said = must("iscsi-inq", &[&with("alice%a-long-secret-1@")]);
    assert!(said.contains("EVERGLAD"), "{said}");
    for user in ["", "alice%another-secret@", "bob%a-long-secret-1@"] {
        let output = run("iscsi-inq", &[&with(user)]);
        assert!(!output.status.success(), "{user} got in");
    }
    let log = server.log();
    assert!(
        log.contains("CHAP with a wrong name or secret: \"bob\""),
        "{log}"
    );
    assert!(!log.contains("a-long-secret"), "{log}");
    server.stop();
}

#[test]
fn exports_of_others_do_not_exist() {
    if !ready_for(&["iscsi-ls", "iscsi-inq"]) {
        return;
    }
    let dir = TestDir::new();
    let config = dir.file("everglade.toml");
    fs::write(&config, "[iscsi.allow]\n\"vol0/lun0\" = \"10.1.2.3\"\n").expect("written");
    let mut command = vec!["--config", text(&config)];
    command.extend(SERVE);
    let server = dir.serve(&command);
    let portal = server.address("iscsi");
    let said = must("iscsi-ls", &[&format!("iscsi://{portal}")]);
    assert_eq!(said, "");
    let output = run("iscsi-inq", &[&url(&server)]);
    assert!(!output.status.success());
    server.stop();
}
