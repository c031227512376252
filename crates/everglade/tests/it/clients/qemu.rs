//! QEMU's programs: qemu-img convert and compare, qemu-io patterns down to the byte.

use std::fs;

use super::{LUN, assert_same, disk_image, ready_for, serve, text};
use crate::running::TestDir;
use crate::tools::must;

/// Runs commands in one qemu-io; each must succeed, patterns included.
#[track_caller]
fn qemu_io(uri: &str, commands: &[&str]) {
    let mut args = vec!["-f", "raw", "-d", "unmap"];
    for command in commands {
        args.extend(["-c", command]);
    }
    args.push(uri);
    let said = must("qemu-io", &args);
    for trouble in ["failed", "error", "invalid"] {
        assert!(
            !said.to_lowercase().contains(trouble),
            "{commands:?}: {said}"
        );
    }
}

#[test]
fn qemu_img_converts_in_compares_and_converts_out() {
    if !ready_for(&["qemu-img"]) {
        return;
    }
    let dir = TestDir::new();
    let server = serve(&dir);
    let uri = server.uri(LUN);
    let image = disk_image(&dir, 4);
    must(
        "qemu-img",
        &[
            "convert",
            "-n",
            "-f",
            "raw",
            "-O",
            "raw",
            text(&image),
            &uri,
        ],
    );
    must(
        "qemu-img",
        &["compare", "-f", "raw", "-F", "raw", text(&image), &uri],
    );

    let (qcow2, back) = (dir.file("disk.qcow2"), dir.file("back.img"));
    must(
        "qemu-img",
        &["convert", "-f", "raw", "-O", "qcow2", &uri, text(&qcow2)],
    );
    must(
        "qemu-img",
        &[
            "convert",
            "-f",
            "qcow2",
            "-O",
            "raw",
            text(&qcow2),
            text(&back),
        ],
    );
    assert_same(&image, &back);
    server.stop();
}

#[test]
fn qemu_img_compare_sees_a_difference_of_one_byte() {
    if !ready_for(&["qemu-img", "qemu-io"]) {
        return;
    }
    let dir = TestDir::new();
    let server = serve(&dir);
    let uri = server.uri(LUN);
    let image = disk_image(&dir, 5);
    must(
        "qemu-img",
        &[
            "convert",
            "-n",
            "-f",
            "raw",
            "-O",
            "raw",
            text(&image),
            &uri,
        ],
    );
    let mut bytes = fs::read(&image).expect("read");
    bytes[12_345_678] ^= 1;
    fs::write(&image, bytes).expect("write");
    let args = ["compare", "-f", "raw", "-F", "raw", text(&image), &uri];
    let output = crate::tools::run("qemu-img", &args);
    assert_eq!(output.status.code(), Some(1), "1 means different");
    server.stop();
}

#[test]
fn patterns_of_any_alignment_read_back() {
    if !ready_for(&["qemu-io"]) {
        return;
    }
    let dir = TestDir::new();
    let server = serve(&dir);
    qemu_io(
        &server.uri(LUN),
        &[
            "read -P 0 0 1M",
            "write -P 0xa5 4096 8192",
            "read -P 0xa5 4096 8192",
            "read -P 0 0 4096",
            "write -P 0x11 1 511",
            "read -P 0 0 1",
            "read -P 0x11 1 511",
            "write -P 0x22 4000 200",
            "read -P 0x22 4000 200",
            "read -P 0xa5 4200 8088",
            "write -P 0x33 1M 3M",
            "read -P 0x33 1M 3M",
            "write -f -P 0x44 67104768 4096",
            "flush",
            "read -P 0x44 67104768 4096",
        ],
    );
    server.stop();
}

#[test]
fn overlapping_writes_in_flight_leave_the_last_one() {
    if !ready_for(&["qemu-io"]) {
        return;
    }
    let dir = TestDir::new();
    let server = serve(&dir);
    qemu_io(
        &server.uri(LUN),
        &[
            "aio_write -P 1 0 1M",
            "aio_write -P 2 2M 1M",
            "aio_write -P 3 4M 1M",
            "aio_flush",
            "aio_write -P 4 512k 2M",
            "aio_flush",
            "read -P 1 0 512k",
            "read -P 4 512k 2M",
            "read -P 2 2560k 512k",
            "read -P 3 4M 1M",
        ],
    );
    server.stop();
}

#[test]
fn discarded_and_zeroed_ranges_read_as_zeroes() {
    if !ready_for(&["qemu-io"]) {
        return;
    }
    let dir = TestDir::new();
    let server = serve(&dir);
    qemu_io(
        &server.uri(LUN),
        &[
            "write -P 0x77 0 8M",
            "discard 1M 1M",
            "read -P 0x77 0 1M",
            "read -P 0 1M 1M",
            "write -z 3000000 100000",
            "read -P 0 3000000 100000",
            "read -P 0x77 2999000 1000",
            "read -P 0x77 3100000 1000",
            "write -z -u 4M 1M",
            "flush",
            "read -P 0 4M 1M",
            "read -P 0x77 5M 3M",
        ],
    );
    server.stop();
}
