//! Spare drives take the place of drives of mirrors that fail (decision 0048).

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::Ordering;

use super::devices::sparse;
use super::mirrors::{
    PATIENCE, Unwritable, assert_holds, both, files, fill, make, mirror, serve, states, while_used,
};
use super::{GIB, TestDir, ask, ask_json, assert_clean, refused, text};
use crate::waiting::{event, within};

fn spares(dir: &TestDir) -> Vec<String> {
    let told = ask_json(dir, &["aggregate", "spare", "show"]);
    let spares = told["spares"].as_array().expect("a list");
    let paths = spares.iter().map(|spare| spare["device"].as_str());
    paths.map(|path| path.expect("a path").to_owned()).collect()
}

/// Writes to the start of a file.
fn overwrite(path: &Path, bytes: &[u8]) {
    let file = File::options().write(true).open(path).expect("open");
    file.write_all_at(bytes, 0).expect("written");
}

#[test]
fn a_spare_takes_the_place_of_a_drive_that_fails() {
    let dir = TestDir::new();
    if !Unwritable::is_possible(&dir) {
        return;
    }
    let server = serve(&dir, &[]);
    let drives = files(&dir, 2);
    make(&dir, &drives, &[]);
    fill(&server, 0..8, 1);
    let (taken, spare) = (sparse(&dir, "taken", GIB), sparse(&dir, "spare", GIB));
    for path in [&taken, &spare] {
        ask(&dir, &["aggregate", "spare", "add", text(path)]);
    }
    // Somebody has used the first one in another way since. It is left alone.
    let theirs = vec![7; 1 << 20];
    overwrite(&taken, &theirs);
    let broken = Unwritable::new(&drives[1]);
    while_used(&server, |rounds| {
        within(PATIENCE, "the client works", || {
            rounds.load(Ordering::Acquire) > 5
        });
        within(PATIENCE, "the spare is in use", || {
            let devices = mirror(&dir);
            devices["devices"][1]["path"] == text(&spare)
                && states(&dir) == both("online", "online")
        });
    });
    event(
        &dir,
        &format!("spare drive {} takes the place of", text(&spare)),
    );
    assert_eq!(spares(&dir), [text(&taken)]);
    fill(&server, 0..16, 1000);
    assert_holds(&server, 0..16, 1000);
    server.kill();
    let server = serve(&dir, &[]);
    assert_eq!(states(&dir), both("online", "online"));
    assert_holds(&server, 0..16, 1000);
    // What cannot be used is told, and stays a spare.
    let broken_too = Unwritable::new(&spare);
    fill(&server, 16..24, 1000);
    within(PATIENCE, "the drive failed", || {
        states(&dir) == both("online", "failed")
    });
    event(&dir, "no spare drive can take the place of");
    assert_eq!(spares(&dir), [text(&taken)]);
    assert_holds(&server, 0..24, 1000);
    drop((broken, broken_too));
    server.stop();
    let left = &fs::read(&taken).expect("read")[..theirs.len()];
    assert!(left == theirs, "nothing was written to it");
    assert_clean(&dir, 2);
}

#[test]
fn spares_are_listed_kept_and_given_up() {
    let dir = TestDir::new();
    let server = serve(&dir, &[]);
    let drives = files(&dir, 2);
    make(&dir, &drives, &[]);
    let (file, folder) = (sparse(&dir, "spare", GIB), dir.file("folder"));
    fs::create_dir(&folder).expect("a folder");
    let add = |path| ["aggregate", "spare", "add", path];
    let said = ask(&dir, &add(text(&file)));
    assert!(said.contains("1.0 GiB") && said.contains("file"), "{said}");
    ask(&dir, &add(text(&folder)));
    assert_eq!(spares(&dir), [text(&file), text(&folder)]);
    // A spare is no other thing at the same time.
    refused(&dir, &add(text(&file)), 5, &["is a spare drive"]);
    refused(&dir, &add(text(&drives[0])), 5, &["aggregate m"]);
    let create = [
        "aggregate",
        "create",
        "x",
        "--devices",
        text(&file),
        "--yes",
    ];
    refused(&dir, &create, 5, &["is a spare drive", "spare remove"]);
    let replace = [
        "aggregate",
        "replace",
        "m",
        text(&drives[0]),
        "--with",
        text(&file),
    ];
    refused(&dir, &replace, 5, &["is a spare drive"]);
    let filled = sparse(&dir, "filled", GIB);
    overwrite(&filled, &[7; 4096]);
    refused(&dir, &add(text(&filled)), 6, &["holds data"]);
    server.kill();
    // One that is not there is listed, and others are known after a restart.
    fs::remove_dir(&folder).expect("removed");
    let server = serve(&dir, &[]);
    let listed = ask(&dir, &["aggregate", "spare", "show"]);
    assert!(listed.contains("missing"), "{listed}");
    ask(&dir, &["aggregate", "spare", "remove", text(&folder)]);
    assert_eq!(spares(&dir), [text(&file)]);
    refused(
        &dir,
        &["aggregate", "spare", "remove", text(&folder)],
        4,
        &["there is no spare drive"],
    );
    ask(&dir, &["aggregate", "spare", "remove", text(&file)]);
    assert_eq!(spares(&dir), [""; 0]);
    server.stop();
}
