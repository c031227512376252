//! Aggregates beside the first: on a directory, on a regular file, on a block device; and those
//! that were never finished.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{
    GIB, MIB, Server, TestDir, ask, ask_json, assert_clean, assert_holds, assert_size, copy_in,
    noise, refused, serve, text,
};
use crate::tools::{have, must, skip};

/// A regular file as a device: sparse, so that only what is used is taken.
pub(crate) fn sparse(dir: &TestDir, name: &str, bytes: u64) -> PathBuf {
    let path = dir.file(name);
    let file = File::create(&path).expect("create");
    file.set_len(bytes).expect("a sparse file");
    path
}

/// A loop device over a file, which goes with this.
pub(super) struct Loop {
    pub(super) path: String,
}

impl Loop {
    /// `None` where this is not allowed, after counting the skip.
    pub(super) fn over(image: &Path) -> Option<Loop> {
        if !have(&["losetup"]) {
            return None;
        }
        let output = Command::new("losetup")
            .args(["--find", "--show"])
            .arg(image)
            .output();
        let output = output.expect("losetup runs");
        let path = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if !output.status.success() || path.is_empty() {
            skip("making a loop device is not allowed here");
            return None;
        }
        Some(Loop { path })
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let detached = Command::new("losetup")
            .args(["--detach", &self.path])
            .status();
        if !detached.is_ok_and(|status| status.success()) {
            eprintln!("{} stays attached", self.path);
        }
    }
}

/// A volume and a LUN of this aggregate, filled with noise.
fn fill(dir: &TestDir, server: &Server, aggregate: &str) -> (String, PathBuf) {
    let volume = format!("v-{aggregate}");
    let lun = format!("{volume}/disk");
    ask(
        dir,
        &["volume", "create", &volume, "--aggregate", aggregate],
    );
    ask(dir, &["lun", "create", &lun, "--size", "16MiB"]);
    let image = noise(dir, &format!("noise-{aggregate}"), 16 * MIB);
    copy_in(server, &image, &lun);
    (lun, image)
}

/// Both aggregates serve, and go on after a stop and after a kill.
fn serves_and_survives(dir: &TestDir, kind: &str, device: &str, more: &[&str]) {
    let server = serve(dir);
    let create = ["aggregate", "create", "b", "--devices", device];
    ask(dir, &[&create, more].concat());
    let made = ask_json(dir, &["aggregate", "show", "b"]);
    assert_eq!(made["state"], "online");
    assert_eq!(made["devices"][0]["kind"], kind);
    assert_eq!(made["devices"][0]["path"], device);
    refused(
        dir,
        &["volume", "create", "homeless"],
        2,
        &["--aggregate", "aggr0, b"],
    );
    let filled = [fill(dir, &server, "aggr0"), fill(dir, &server, "b")];
    refused(
        dir,
        &["aggregate", "create", "c", "--devices", device, "--yes"],
        5,
        &["is a device of aggregate b"],
    );
    server.stop();
    assert_clean(dir, 2);
    for _ in 0..2 {
        let server = serve(dir);
        for (lun, image) in &filled {
            assert_size(&server, lun, 16 * MIB);
            assert_holds(dir, &server, lun, image);
        }
        server.kill();
        assert_clean(dir, 2);
    }
}

#[test]
fn a_second_aggregate_on_a_regular_file_serves_and_survives() {
    if !have(&["nbdcopy", "nbdinfo"]) {
        return;
    }
    let dir = TestDir::new();
    let file = sparse(&dir, "device", GIB);
    serves_and_survives(&dir, "file", text(&file), &[]);
}

#[test]
fn a_second_aggregate_on_a_directory_serves_and_survives() {
    if !have(&["nbdcopy", "nbdinfo"]) {
        return;
    }
    let dir = TestDir::new();
    let folder = dir.file("device");
    fs::create_dir(&folder).expect("create");
    serves_and_survives(&dir, "directory", text(&folder), &["--size", "1GiB"]);
}

#[test]
fn a_second_aggregate_on_a_block_device_serves_and_survives() {
    if !have(&["nbdcopy", "nbdinfo"]) {
        return;
    }
    let dir = TestDir::new();
    let image = sparse(&dir, "image", GIB);
    let Some(device) = Loop::over(&image) else {
        return;
    };
    serves_and_survives(&dir, "block", &device.path, &[]);
}

#[test]
fn many_aggregates_and_devices_survive_together() {
    let dir = TestDir::new();
    let server = serve(&dir);
    for number in 0..6 {
        let name = format!("a{number}");
        ask(&dir, &["aggregate", "create", &name, "--size", "1GiB"]);
        let volume = format!("v{number}");
        ask(&dir, &["volume", "create", &volume, "--aggregate", &name]);
    }
    let files: Vec<_> = (0..3)
        .map(|number| sparse(&dir, &format!("f{number}"), GIB))
        .collect();
    let devices = files.iter().map(|file| text(file)).collect::<Vec<_>>();
    let devices = devices.join(",");
    ask(
        &dir,
        &["aggregate", "create", "wide", "--devices", &devices],
    );
    let wide = ask_json(&dir, &["aggregate", "show", "wide"]);
    assert_eq!(wide["devices"].as_array().map(Vec::len), Some(3));
    server.stop();
    assert_clean(&dir, 8);
    let server = serve(&dir);
    let status = ask_json(&dir, &["status"]);
    assert_eq!(
        (&status["online_count"], &status["volume_count"]),
        (&8.into(), &7.into())
    );
    server.stop();
}

#[test]
fn what_a_device_holds_is_overwritten_only_when_that_is_meant() {
    let dir = TestDir::new();
    let server = serve(&dir);
    let file = sparse(&dir, "device", GIB);
    if have(&["mkfs.ext4"]) {
        must("mkfs.ext4", &["-q", text(&file)]);
    } else {
        fs::write(&file, "years of work").expect("write");
        let grown = File::options().write(true).open(&file).expect("open");
        grown.set_len(GIB).expect("a sparse file");
    }
    let before = fs::read(&file).expect("read");
    let create = ["aggregate", "create", "b", "--devices", text(&file)];
    refused(&dir, &create, 6, &["holds data", "--yes"]);
    assert!(fs::read(&file).expect("read") == before, "it was changed");
    ask(&dir, &[&create[..], &["--yes"]].concat());
    server.stop();
    assert_clean(&dir, 2);

    // The label of an aggregate is not overwritten at all.
    let other = TestDir::new();
    let server = serve(&other);
    for yes in [&[][..], &["--yes"]] {
        refused(
            &other,
            &[&create[..], yes].concat(),
            5,
            &["carries the label"],
        );
    }
    server.stop();
    assert_clean(&dir, 2);
}

/// Makes an aggregate `b` on a file, and leaves its record as if power had failed before it was
/// ready.
fn unfinished(dir: &TestDir, file: &Path) -> String {
    let server = serve(dir);
    ask(dir, &["aggregate", "create", "b", "--devices", text(file)]);
    server.stop();
    let path = dir.data_dir().join("state.toml");
    let state = fs::read_to_string(&path).expect("read");
    let (first, second) = state.split_once("name = \"b\"").expect("recorded");
    let second = second.replacen("phase = \"ready\"", "phase = \"creating\"", 1);
    let state = format!("{first}name = \"b\"{second}");
    fs::write(path, &state).expect("write");
    state
}

#[test]
fn an_aggregate_that_was_never_finished_is_taken_back() {
    let dir = TestDir::new();
    let file = sparse(&dir, "device", GIB);
    unfinished(&dir, &file);
    let server = serve(&dir);
    refused(&dir, &["aggregate", "show", "b"], 4, &["no aggregate b"]);
    let blank = fs::read(&file).expect("read");
    let ends = [&blank[..1 << 20], &blank[blank.len() - (1 << 20)..]];
    assert!(
        ends.concat().iter().all(|byte| *byte == 0),
        "the label is gone"
    );
    ask(
        &dir,
        &["aggregate", "create", "b", "--devices", text(&file)],
    );
    server.stop();
    assert_clean(&dir, 2);
}

#[test]
fn a_device_that_became_somebody_elses_is_not_cleared() {
    let dir = TestDir::new();
    let file = sparse(&dir, "device", GIB);
    let state = unfinished(&dir, &file);
    // As if another daemon had made its own aggregate there meanwhile: the label has another UUID.
    let uuid = state.rsplit_once("uuid = \"").expect("a uuid").1.get(..32);
    let state = state.replace(uuid.expect("32 digits"), &"5".repeat(32));
    fs::write(dir.data_dir().join("state.toml"), state).expect("write");
    let before = fs::read(&file).expect("read");
    let server = serve(&dir);
    refused(&dir, &["aggregate", "show", "b"], 4, &[]);
    assert!(fs::read(&file).expect("read") == before, "it was changed");
    refused(
        &dir,
        &["aggregate", "create", "b", "--devices", text(&file)],
        5,
        &["carries the label"],
    );
    server.stop();
}
