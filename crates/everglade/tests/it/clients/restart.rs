//! What survives: an orderly stop keeps everything, a kill keeps what was flushed.

use super::{LUN, SERVE, assert_clean, assert_same, disk_image, ready_for, serve, text};
use crate::running::{Server, TestDir, code, stderr};
use crate::tools::must;

pub(super) fn nbdcopy_in(server: &Server, image: &std::path::Path, flush: bool) {
    let uri = server.uri(LUN);
    let mut args = vec![text(image), &uri];
    if flush {
        args.insert(0, "--flush");
    }
    must("nbdcopy", &args);
}

#[track_caller]
pub(super) fn assert_holds(dir: &TestDir, server: &Server, image: &std::path::Path) {
    let copy = dir.file("copy.img");
    must("nbdcopy", &[&server.uri(LUN), text(&copy)]);
    assert_same(image, &copy);
}

/// The first milestone, with each way of doing I/O.
fn survives_an_orderly_stop(io: &str) {
    let dir = TestDir::new();
    let args = [&SERVE[..], &["--io", io]].concat();
    let image = disk_image(&dir, 6);
    let server = dir.serve(&args);
    nbdcopy_in(&server, &image, false);
    server.stop();
    assert_clean(&dir);
    let server = dir.serve(&args);
    assert_holds(&dir, &server, &image);
    server.stop();
    assert_clean(&dir);
}

#[test]
fn a_stop_and_a_start_find_everything_again() {
    if ready_for(&["nbdcopy"]) {
        survives_an_orderly_stop("auto");
    }
}

#[test]
fn a_stop_and_a_start_find_everything_again_without_io_uring() {
    if ready_for(&["nbdcopy"]) {
        survives_an_orderly_stop("threads");
    }
}

#[test]
fn a_kill_keeps_what_was_flushed() {
    if !ready_for(&["nbdcopy"]) {
        return;
    }
    let dir = TestDir::new();
    let first = disk_image(&dir, 7);
    let server = serve(&dir);
    nbdcopy_in(&server, &first, true);
    server.kill();
    assert_clean(&dir);

    let server = serve(&dir);
    assert_holds(&dir, &server, &first);
    let second = disk_image(&dir, 8);
    nbdcopy_in(&server, &second, true);
    server.kill();
    let server = serve(&dir);
    assert_holds(&dir, &server, &second);
    server.stop();
    assert_clean(&dir);
}

#[test]
fn an_untouched_first_start_is_clean_and_starts_again() {
    let dir = TestDir::new();
    serve(&dir).stop();
    assert_clean(&dir);
    serve(&dir).stop();
}

#[test]
fn sockets_and_endpoints_go_with_an_orderly_stop() {
    let dir = TestDir::new();
    let server = serve(&dir);
    let run = dir.data_dir().join("run");
    let endpoints = std::fs::read_to_string(run.join("endpoints.json")).expect("endpoints");
    let endpoints: serde_json::Value = serde_json::from_str(&endpoints).expect("JSON");
    assert_eq!(endpoints["nbd_tcp"], server.tcp.as_str());
    assert_eq!(endpoints["pid"], server.pid());
    let hints = server.stop();
    assert!(hints.contains("nbdinfo nbd://127.0.0.1:"), "{hints}");
    assert!(!run.join("endpoints.json").exists() && !run.join("nbd.sock").exists());
}

#[test]
fn a_second_instance_is_refused_and_the_first_goes_on() {
    let dir = TestDir::new();
    let mut server = serve(&dir);
    let output = dir.run(&["serve", "--nbd-tcp", ":0"]);
    assert_eq!(code(&output), 1);
    let holder = format!("in use by process {} (everglade)", server.pid());
    assert!(stderr(&output).contains(&holder), "{}", stderr(&output));
    assert_eq!(
        code(&dir.run(&["check"])),
        2,
        "nor can it be checked meanwhile"
    );
    assert!(server.is_running());
    crate::wire::Client::open(&server.tcp, LUN).expect("the first still serves");
    server.stop();
}
