//! Directories that are refused: the message says what was found, expected and to be done, and
//! nothing is written. `World::refusal` compares everything in the directory before and after.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use everglade_server::offline::Offline;

use crate::world::World;

#[track_caller]
fn assert_says(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "'{part}' is not in: {message}");
    }
}

#[test]
fn somebody_elses_directory_is_refused() {
    let world = World::empty();
    for name in ["photo1.jpg", "photo2.jpg", "photo3.jpg", "photo4.jpg"] {
        world.put(name, "smile");
    }
    assert_says(
        &world.refusal(),
        &[
            "does not belong to everglade",
            "4 entries (photo1.jpg, photo2.jpg, photo3.jpg, …)",
            "an empty directory",
            "--data-dir",
        ],
    );
}

#[test]
fn a_foreign_format_file_is_refused() {
    for contents in [
        &b""[..],
        b"ext4\n",
        b"everglade\n",
        b"\xff\x00\x01",
        &[b'x'; 100_000],
    ] {
        let world = World::empty();
        world.put("FORMAT", contents);
        assert_says(
            &world.refusal(),
            &["does not belong to everglade", "FORMAT"],
        );
    }
}

#[test]
fn a_newer_version_is_refused() {
    let world = World::served();
    world.put("FORMAT", "everglade data directory\nversion 1\n");
    assert_says(
        &world.refusal(),
        &["has format version 1", "understands version 0", "newer"],
    );
}

#[test]
fn a_format_file_without_a_version_is_damage() {
    for rest in [
        "",
        "version",
        "version x",
        "version -1",
        "version 99999999999999999999",
    ] {
        let world = World::served();
        world.put("FORMAT", format!("everglade data directory\n{rest}"));
        assert_says(&world.refusal(), &["is damaged", "no version", "backup"]);
    }
}

#[test]
fn a_lost_format_file_is_told_from_a_foreign_directory() {
    let world = World::served();
    fs::remove_file(world.path.join("FORMAT")).expect("remove");
    assert_says(
        &world.refusal(),
        &["no FORMAT file beside state.toml", "restore"],
    );
}

#[test]
fn a_torn_or_garbage_state_is_refused() {
    let world = World::served();
    let good = world.text("state.toml");
    let half = &good[..good.trim_end().len() / 2];
    for contents in [
        "",
        half,
        "hello",
        "# end of state",
        "x = 1\n# end of state\n",
    ] {
        world.put("state.toml", contents);
        assert_says(&world.refusal(), &["state.toml is damaged", "backup"]);
    }
    world.put("state.toml", [0xFF; 4096]);
    assert_says(&world.refusal(), &["not text"]);
}

#[test]
fn a_lost_state_is_not_a_first_start() {
    let world = World::served();
    fs::remove_file(world.path.join("state.toml")).expect("remove");
    assert_says(
        &world.refusal(),
        &["no such file beside existing aggregates", "backup"],
    );
}

#[test]
fn a_file_is_not_a_directory() {
    let world = World::missing();
    fs::write(&world.path, "a file").expect("write");
    assert_says(&world.refusal(), &["is not a directory", "--data-dir"]);
}

#[test]
fn a_dangling_link_is_refused_rather_than_followed() {
    let world = World::missing();
    std::os::unix::fs::symlink("/nonexistent/place", &world.path).expect("link");
    assert_says(
        &world.refusal(),
        &["cannot read the directory", "check the path"],
    );
}

#[test]
fn a_directory_that_cannot_be_written_is_refused() {
    let world = World::empty();
    fs::set_permissions(&world.path, fs::Permissions::from_mode(0o500)).expect("chmod");
    if fs::write(world.path.join("probe"), "").is_ok() {
        // Root writes everywhere; the kernel's own answer is seen through a path that never takes
        // files.
        let error = everglade_server::DataDir::open(std::path::Path::new("/proc/everglade"));
        assert_says(
            &error.expect_err("a refusal").to_string(),
            &["cannot create", "/proc"],
        );
        return;
    }
    assert_says(&world.refusal(), &["cannot open", "permissions"]);
}

#[test]
fn offline_tools_refuse_what_was_never_served() {
    let world = World::empty();
    let before = world.picture();
    let error = Offline::open(&world.path)
        .expect_err("a refusal")
        .to_string();
    assert_says(&error, &["holds no aggregates", "everglade serve"]);
    assert_eq!(world.picture(), before);
    // What was never made is told like what is empty: the remedy is the same.
    let missing = Offline::open(&world.path.join("missing"));
    let error = missing.expect_err("a refusal").to_string();
    assert_says(&error, &["holds no aggregates", "everglade serve"]);
    let link = world.path.join("link");
    std::os::unix::fs::symlink("/nonexistent/place", &link).expect("link");
    let dangling = Offline::open(&link).expect_err("a refusal").to_string();
    assert_says(&dangling, &["cannot read the directory", "check the path"]);
}
