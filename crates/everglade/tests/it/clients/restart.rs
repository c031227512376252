//! What survives: an orderly stop keeps everything, a kill keeps what was flushed.

use super::{LUN, SERVE, assert_clean, assert_same, disk_image, ready_for, serve, text};
use crate::running::{Place, Server, code, stderr};
use crate::tools::must;

fn nbdcopy_in(server: &Server, image: &std::path::Path, flush: bool) {
    let uri = server.uri(LUN);
    let mut args = vec![text(image), &uri];
    if flush {
        args.insert(0, "--flush");
    }
    must("nbdcopy", &args);
}

#[track_caller]
fn assert_holds(place: &Place, server: &Server, image: &std::path::Path) {
    let copy = place.file("copy.img");
    must("nbdcopy", &[&server.uri(LUN), text(&copy)]);
    assert_same(image, &copy);
}

/// The first milestone, with each way of doing I/O.
fn survives_an_orderly_stop(io: &str) {
    let place = Place::new();
    let args = [&SERVE[..], &["--io", io]].concat();
    let image = disk_image(&place, 6);
    let server = place.serve(&args);
    nbdcopy_in(&server, &image, false);
    server.stop();
    assert_clean(&place);
    let server = place.serve(&args);
    assert_holds(&place, &server, &image);
    server.stop();
    assert_clean(&place);
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
    let place = Place::new();
    let first = disk_image(&place, 7);
    let server = serve(&place);
    nbdcopy_in(&server, &first, true);
    server.kill();
    assert_clean(&place);

    let server = serve(&place);
    assert_holds(&place, &server, &first);
    let second = disk_image(&place, 8);
    nbdcopy_in(&server, &second, true);
    server.kill();
    let server = serve(&place);
    assert_holds(&place, &server, &second);
    server.stop();
    assert_clean(&place);
}

#[test]
fn an_untouched_first_start_is_clean_and_starts_again() {
    let place = Place::new();
    serve(&place).stop();
    assert_clean(&place);
    serve(&place).stop();
}

#[test]
fn sockets_and_endpoints_go_with_an_orderly_stop() {
    let place = Place::new();
    let server = serve(&place);
    let run = place.data_dir().join("run");
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
    let place = Place::new();
    let mut server = serve(&place);
    let output = place.run(&["serve", "--nbd-tcp", ":0"]);
    assert_eq!(code(&output), 1);
    let holder = format!("in use by process {} (everglade)", server.pid());
    assert!(stderr(&output).contains(&holder), "{}", stderr(&output));
    assert_eq!(
        code(&place.run(&["check"])),
        2,
        "nor can it be checked meanwhile"
    );
    assert!(server.is_running());
    crate::wire::Client::open(&server.tcp, LUN).expect("the first still serves");
    server.stop();
}
