//! fio with verification: many random requests in flight, every block read back and checked.

use super::{LUN, serve};
use crate::running::TestDir;
use crate::tools::{have, must, run, skip};

/// Whether this fio was built with its NBD engine.
fn fio_speaks_nbd() -> bool {
    if !have(&["fio"]) {
        return false;
    }
    let speaks = run("fio", &["--enghelp=nbd"]).status.success();
    if !speaks {
        skip("this fio has no NBD engine");
    }
    speaks
}

fn fio(uri: &str, options: &[&str]) {
    let uri = format!("--uri={uri}");
    let mut args = vec![
        "--name=verify",
        "--ioengine=nbd",
        &uri,
        "--verify=crc32c",
        "--verify_fatal=1",
    ];
    // Without the last one fio leaves a file in the current directory.
    args.extend([
        "--size=48M",
        "--randseed=2",
        "--group_reporting",
        "--verify_state_save=0",
    ]);
    args.extend(options);
    let said = must("fio", &args);
    assert!(said.contains("err= 0"), "{said}");
}

#[test]
fn fio_verifies_random_writes() {
    if !fio_speaks_nbd() {
        return;
    }
    let dir = TestDir::new();
    let server = serve(&dir);
    fio(
        &server.uri(LUN),
        &["--rw=randwrite", "--bs=4k", "--iodepth=32"],
    );
    server.stop();
}

#[test]
fn fio_verifies_mixed_sizes_over_the_unix_socket() {
    if !fio_speaks_nbd() {
        return;
    }
    let dir = TestDir::new();
    let server = serve(&dir);
    let mixed = [
        "--rw=randrw",
        "--bsrange=512-128k",
        "--blockalign=512",
        "--iodepth=16",
    ];
    fio(&server.unix_uri(LUN), &mixed);
    server.stop();
}

#[test]
fn fio_verifies_rewrites_across_a_restart() {
    if !fio_speaks_nbd() {
        return;
    }
    let dir = TestDir::new();
    let load = [
        "--rw=randwrite",
        "--bs=8k",
        "--iodepth=16",
        "--verify_state_save=0",
    ];
    let server = serve(&dir);
    fio(&server.uri(LUN), &[&load[..], &["--do_verify=0"]].concat());
    server.stop();
    let server = serve(&dir);
    fio(&server.uri(LUN), &[&load[..], &["--verify_only"]].concat());
    server.stop();
}
