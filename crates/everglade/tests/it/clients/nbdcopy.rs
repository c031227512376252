//! libnbd's programs: nbdinfo and nbdcopy, over TCP and over the Unix socket.

use super::{LUN, LUN_BYTES, assert_same, disk_image, ready_for, serve, text};
use crate::running::TestDir;
use crate::tools::must;

#[test]
fn nbdinfo_shows_the_export_and_its_size() {
    if !ready_for(&["nbdinfo"]) {
        return;
    }
    let dir = TestDir::new();
    let server = serve(&dir);
    for uri in [server.uri(LUN), server.unix_uri(LUN)] {
        assert_eq!(
            must("nbdinfo", &["--size", &uri]).trim(),
            LUN_BYTES.to_string()
        );
        must("nbdinfo", &["--can", "flush", &uri]);
        must("nbdinfo", &["--can", "fua", &uri]);
        must("nbdinfo", &["--can", "trim", &uri]);
        must("nbdinfo", &["--can", "zero", &uri]);
    }
    let all = must("nbdinfo", &["--list", "--json", &server.uri("")]);
    let all: serde_json::Value = serde_json::from_str(&all).expect("JSON");
    let names: Vec<_> = all["exports"].as_array().expect("a list").iter().collect();
    assert_eq!(names.len(), 1, "{all}");
    assert_eq!(names[0]["export-name"], LUN);
    assert_eq!(names[0]["block_size_preferred"], 4096);
    server.stop();
}

#[test]
fn the_empty_export_name_is_the_only_lun() {
    if !ready_for(&["nbdinfo"]) {
        return;
    }
    let dir = TestDir::new();
    let server = serve(&dir);
    let size = must("nbdinfo", &["--size", &server.uri("")]);
    assert_eq!(size.trim(), LUN_BYTES.to_string());
    server.stop();
}

#[test]
fn nbdcopy_in_and_out_is_identical() {
    if !ready_for(&["nbdcopy"]) {
        return;
    }
    let dir = TestDir::new();
    let server = serve(&dir);
    for (seed, uri) in [(1, server.uri(LUN)), (2, server.unix_uri(LUN))] {
        let image = disk_image(&dir, seed);
        let copy = dir.file("copy.img");
        must("nbdcopy", &["--flush", text(&image), &uri]);
        must("nbdcopy", &[&uri, text(&copy)]);
        assert_same(&image, &copy);
    }
    server.stop();
}

#[test]
fn many_connections_and_requests_at_once_are_identical_too() {
    if !ready_for(&["nbdcopy"]) {
        return;
    }
    let dir = TestDir::new();
    let server = serve(&dir);
    let image = disk_image(&dir, 3);
    let copy = dir.file("copy.img");
    let uri = server.uri(LUN);
    let wide = ["--connections=4", "--requests=64", "--threads=2"];
    must("nbdcopy", &[wide[0], wide[1], wide[2], text(&image), &uri]);
    must("nbdcopy", &[wide[0], wide[1], wide[2], &uri, text(&copy)]);
    assert_same(&image, &copy);
    server.stop();
}
