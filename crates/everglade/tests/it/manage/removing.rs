//! Devices leave an aggregate while clients use it (decision 0057).

use std::fs;
use std::path::Path;

use everglade_format::label::LABEL_BYTES;

use super::mirrors::{PATIENCE, assert_holds, files, fill, list, make, mirror, serve, while_used};
use super::parity;
use super::{TestDir, ask, ask_json, assert_clean, refused, text};
use crate::waiting::within;

fn size(dir: &TestDir) -> u64 {
    mirror(dir)["size_bytes"].as_u64().expect("a size")
}

/// Paths of the devices of the aggregate.
fn devices(dir: &TestDir) -> Vec<String> {
    let aggregate = mirror(dir);
    let devices = aggregate["devices"].as_array().expect("devices");
    let path = |it: &serde_json::Value| it["path"].as_str().expect("a path").to_owned();
    devices.iter().map(path).collect()
}

/// True if a file has a label at its front.
fn has_label(path: &Path) -> bool {
    let bytes = fs::read(path).expect("readable");
    let front = usize::try_from(LABEL_BYTES).expect("a MiB");
    bytes[..front].iter().any(|byte| *byte != 0)
}

fn remove<'a>(device: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["aggregate", "remove", "m", device], more].concat()
}

#[test]
fn a_group_leaves_while_clients_write_and_its_drives_are_free_then() {
    let dir = TestDir::new();
    let server = serve(&dir, &[]);
    let drives = files(&dir, 4);
    make(&dir, &drives, &[]);
    let before = size(&dir);
    fill(&server, 0..64, 1);
    ask(&dir, &["snapshot", "create", "v@s"]);
    fill(&server, 0..20, 2);

    let parts = ["cannot be removed", "journal"];
    refused(&dir, &remove(text(&drives[0]), &[]), 2, &parts);
    refused(&dir, &remove("/nowhere", &[]), 2, &["is no device"]);
    refused(
        &dir,
        &["aggregate", "remove", "m", "--stop"],
        4,
        &["no device"],
    );
    let planned = ask_json(&dir, &remove(text(&drives[3]), &["--dry-run"]));
    assert_eq!(planned["state"], "planned", "{planned}");
    assert_eq!(
        planned["devices"].as_array().map(Vec::len),
        Some(2),
        "{planned}"
    );
    assert_eq!(size(&dir), before, "nothing was changed");
    assert!(ask(&dir, &["aggregate", "remove", "m"]).contains("nothing is being removed"));

    while_used(&server, |_| {
        let said = ask(&dir, &remove(text(&drives[3]), &["--wait"]));
        assert!(said.contains("any more"), "{said}");
    });
    assert_eq!(planned["size_bytes"], size(&dir));
    assert_eq!(devices(&dir), [text(&drives[0]), text(&drives[1])]);
    assert_eq!(mirror(&dir)["state"], "online");
    within(PATIENCE, "the drives are cleared", || {
        !has_label(&drives[2]) && !has_label(&drives[3])
    });
    let events = ask(&dir, &["event", "list"]);
    assert!(events.contains("was removed, and is free"), "{events}");
    // Others were written meanwhile.
    assert_holds(&server, 48..64, 1);

    // They may come back, as any others.
    fill(&server, 0..48, 3);
    let both = list(&drives[2..]);
    ask(&dir, &["aggregate", "add", "m", "--devices", &both]);
    assert_eq!(size(&dir), before);
    fill(&server, 0..48, 4);
    server.stop();
    assert_clean(&dir, 2);
    let server = serve(&dir, &[]);
    assert_holds(&server, 0..48, 4);
    assert_eq!(devices(&dir).len(), 4);
    server.stop();
}

#[test]
fn a_parity_group_that_is_told_to_stay_stays() {
    let dir = TestDir::new();
    let server = serve(&dir, &[]);
    let drives = files(&dir, 6);
    parity::make(&dir, "single", &drives, &["--group-size", "3"]);
    let before = size(&dir);
    fill(&server, 0..48, 1);
    ask(&dir, &remove(text(&drives[4]), &[]));
    let shown = mirror(&dir);
    // It may be over before anybody can look.
    if shown["removal"].is_object() {
        assert!(size(&dir) < before, "{shown}");
        let stopped = ask(&dir, &["aggregate", "remove", "m", "--stop"]);
        assert!(stopped.contains("stay"), "{stopped}");
        assert_eq!(size(&dir), before);
        assert_eq!(devices(&dir).len(), 6);
    }
    fill(&server, 0..48, 2);
    server.stop();
    assert_clean(&dir, 2);
    let server = serve(&dir, &[]);
    assert_holds(&server, 0..48, 2);
    server.stop();
}
