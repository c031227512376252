//! Aggregates that move from one daemon to another. What is refused changes nothing.

use std::fs;
use std::path::Path;

use super::devices::sparse;
use super::{GIB, TestDir, ask, ask_json, everything, refused, serve};
use crate::running::Server;
use crate::wire::Client;

/// Two daemons; the first one has an aggregate on a file, with a LUN that has data.
struct Pair {
    here: TestDir,
    there: TestDir,
    file: String,
    from: Server,
    to: Server,
}

fn pair() -> Pair {
    let (here, there) = (TestDir::new(), TestDir::new());
    let (from, to) = (serve(&here), serve(&there));
    let file = sparse(&here, "disk", GIB);
    let file = file.to_str().expect("UTF-8").to_owned();
    ask(&here, &["aggregate", "create", "box", "--devices", &file]);
    ask(&here, &["volume", "create", "v", "--aggregate", "box"]);
    ask(&here, &["lun", "create", "v/l", "--size", "16MiB"]);
    ask(&here, &["snapshot", "create", "v@before"]);
    ask(&here, &["policy", "create", "often", "--hourly", "7"]);
    ask(&here, &["policy", "set", "v", "often"]);
    let (mut client, _) = Client::open(&from.tcp, "v/l").expect("opened");
    client.write(8192, &[7; 4096]).expect("written");
    Pair {
        here,
        there,
        file,
        from,
        to,
    }
}

fn assert_data(server: &Server, export: &str) {
    let (mut client, _) = Client::open(&server.tcp, export).expect("opened");
    assert_eq!(client.read(8192, 4096).expect("read"), [7; 4096]);
}

#[test]
fn an_aggregate_moves_with_all_that_it_has() {
    let Pair {
        here,
        there,
        file,
        from,
        to,
    } = pair();
    // A client that is connected does not keep it here.
    let _connected = Client::open(&from.tcp, "v/l").expect("opened");
    let said = ask(&here, &["aggregate", "export", "box"]);
    assert!(
        said.contains("aggregate import") && said.contains(&file),
        "{said}"
    );
    refused(
        &here,
        &["aggregate", "show", "box"],
        4,
        &["no aggregate box"],
    );
    assert!(Client::open(&from.tcp, "v/l").is_err());
    assert_eq!(
        ask_json(&here, &["aggregate", "show"])["aggregates"]
            .as_array()
            .map(Vec::len),
        Some(1)
    );

    let import = ["aggregate", "import", &file];
    let before = everything(&there);
    let plan = ask_json(&there, &[&import[..], &["--dry-run"]].concat());
    assert_eq!(
        (plan["name"].as_str(), plan["missing_count"].as_u64()),
        (Some("box"), Some(0))
    );
    assert_eq!(everything(&there), before);
    ask(&there, &import);
    assert_data(&to, "v/l");
    let snapshots = ask(&there, &["snapshot", "show", "v"]);
    assert!(snapshots.contains("before"), "{snapshots}");
    assert_eq!(
        ask_json(&there, &["policy", "status", "v"])["policy"],
        "often"
    );
    let history = ask(&there, &["history"]);
    assert!(
        history.contains("aggregate import") && history.contains(&file),
        "{history}"
    );
    refused(
        &there,
        &import,
        5,
        &["is a device of aggregate box", "EVG-2003"],
    );

    // The next starts of both know it.
    from.stop();
    to.stop();
    let (from, to) = (serve(&here), serve(&there));
    assert!(Client::open(&from.tcp, "v/l").is_err());
    assert_data(&to, "v/l");
}

#[test]
fn two_pools_with_the_same_names_are_told_apart() {
    let Pair {
        here,
        there,
        from,
        to,
        ..
    } = pair();
    // Each daemon has made its own aggr0 with vol0.
    let directory = here.data_dir().join("aggregates/aggr0/dev0");
    let directory = directory.to_str().expect("UTF-8").to_owned();
    ask(&here, &["aggregate", "export", "aggr0"]);
    let import = ["aggregate", "import", &directory];
    refused(
        &there,
        &import,
        5,
        &["aggregate aggr0 exists already", "--as"],
    );
    let renamed = [&import[..], &["--as", "old"]].concat();
    let before = everything(&there);
    refused(
        &there,
        &renamed,
        5,
        &["volume vol0", "rename the one that is here"],
    );
    assert_eq!(everything(&there), before);
    ask(&there, &["volume", "rename", "vol0", "mine"]);
    ask(&there, &renamed);
    let names = ask(&there, &["aggregate", "show", "--columns", "name"]);
    assert!(names.contains("aggr0") && names.contains("old"), "{names}");
    to.stop();
    let to = serve(&there);
    let old = ask_json(&there, &["aggregate", "show", "old"]);
    assert_eq!(old["state"], "online");
    assert!(Client::open(&to.tcp, "vol0/lun0").is_ok());
    assert!(Client::open(&to.tcp, "mine/lun0").is_ok());
    drop(from);
}

#[test]
fn what_cannot_move_stays_as_it_is() {
    let Pair {
        here,
        there,
        file,
        from,
        to,
    } = pair();
    let empty = sparse(&there, "empty", GIB);
    let empty = empty.to_str().expect("UTF-8");
    let before = everything(&there);
    for (devices, exit, parts) in [
        (vec![file.as_str()], 1, vec!["PATH: ", "in use"]),
        (vec![empty], 1, vec![empty, "EVG-2005"]),
        (vec!["/nowhere"], 1, vec!["/nowhere"]),
        (
            vec!["/dev/null"],
            1,
            vec!["/dev/null", "expected a directory"],
        ),
        (vec![empty, empty], 2, vec!["there twice"]),
    ] {
        let import = [&["aggregate", "import"], &devices[..]].concat();
        refused(&there, &import, exit, &parts);
    }
    refused(&there, &["aggregate", "import"], 2, &["PATH"]);
    assert_eq!(everything(&there), before);
    refused(
        &there,
        &["aggregate", "export", "aggr0"],
        5,
        &["only aggregate", "EVG-2009"],
    );
    refused(
        &there,
        &["aggregate", "export", "nix"],
        4,
        &["no aggregate nix"],
    );

    // A copy cannot be served beside the original, and a device less is a device too few.
    let copy = here.file("copy");
    fs::copy(&file, &copy).expect("copied");
    let copy = copy.to_str().expect("UTF-8");
    refused(
        &here,
        &["aggregate", "import", copy],
        5,
        &["aggregate box, which is open"],
    );
    let more = sparse(&here, "more", GIB);
    let more = more.to_str().expect("UTF-8");
    ask(&here, &["aggregate", "add", "box", "--devices", more]);
    ask(&here, &["aggregate", "export", "box"]);
    refused(&there, &["aggregate", "import", more], 1, &["1 of 2"]);
    ask(&there, &["aggregate", "import", more, &file]);
    assert_data(&to, "v/l");
    drop(from);
}

/// Without an import, an operator would have to edit state.toml.
#[test]
fn an_aggregate_is_found_again_at_another_path() {
    let Pair {
        here, file, from, ..
    } = pair();
    from.stop();
    let moved = here.file("moved");
    fs::rename(&file, &moved).expect("moved");
    let from = serve(&here);
    let state = ask_json(&here, &["aggregate", "show", "box"]);
    assert_eq!(state["state"], "unavailable");
    let moved = moved.to_str().expect("UTF-8");
    ask(&here, &["aggregate", "import", moved]);
    assert_data(&from, "v/l");
    from.stop();
    assert!(!Path::new(&file).exists());
    let from = serve(&here);
    assert_data(&from, "v/l");
}

#[test]
fn aggregates_are_found_by_their_devices_alone() {
    let Pair {
        here,
        there,
        file,
        from,
        to,
    } = pair();
    let folder = |name: &str| {
        let path = here.file(name);
        fs::create_dir_all(&path).expect("made");
        path.to_str().expect("UTF-8").to_owned()
    };
    let (one, two) = (folder("lab/a/one"), folder("lab/b/two"));
    let both = format!("{one},{two}");
    let create = [
        "aggregate",
        "create",
        "duo",
        "--devices",
        &both,
        "--size",
        "2GiB",
    ];
    ask(&here, &create);
    // Nothing of ours.
    fs::write(here.file("lab/notes.txt"), "x".repeat(1 << 20)).expect("written");
    let root = here.file("");
    let root = root.to_str().expect("UTF-8");
    let scan = ["aggregate", "import", "--scan", root];
    // What is in use stays out.
    let used = ask_json(&there, &scan);
    assert_eq!(used["aggregates"], serde_json::json!([]), "{used}");
    assert!(used["unreadable_count"].as_u64() >= Some(3), "{used}");
    ask(&here, &["aggregate", "export", "box"]);
    ask(&here, &["aggregate", "export", "duo"]);
    let found = ask_json(&there, &scan);
    let all = found["aggregates"].as_array().expect("a list");
    assert_eq!(all.len(), 2, "{found}");
    assert_eq!(
        (&all[0]["name"], &all[0]["devices"][0]),
        (&"box".into(), &file.as_str().into())
    );
    assert_eq!(all[1]["devices"], serde_json::json!([one, two]));
    assert_eq!(
        (&all[1]["device_count"], &all[1]["missing_count"]),
        (&2.into(), &0.into())
    );
    let said = ask(&there, &scan);
    let line = format!("everglade aggregate import {one} {two}");
    assert!(said.contains(&line), "{said}");
    ask(&there, &["aggregate", "import", &one, &two]);
    // One that is open here is not listed, and one that is not whole says why.
    fs::rename(here.file("lab"), here.file("moved")).expect("renamed");
    let lab = here.file("moved/a");
    let scan = [
        "aggregate",
        "import",
        "--scan",
        lab.to_str().expect("UTF-8"),
    ];
    let found = ask_json(&there, &scan);
    assert_eq!(found["aggregates"], serde_json::json!([]), "{found}");
    ask(&there, &["aggregate", "export", "duo"]);
    let found = ask_json(&there, &scan);
    let duo = &found["aggregates"][0];
    assert_eq!(duo["name"], "duo", "{found}");
    assert!(duo["problem"].is_string(), "{found}");
    let said = ask(&there, &scan);
    assert!(said.contains("not now: "), "{said}");
    refused(
        &there,
        &["aggregate", "import", "--scan", "/nix/nothing"],
        1,
        &["--scan: /nix/nothing", "EVG-2005"],
    );
    refused(&there, &["aggregate", "import"], 2, &["PATH"]);
    from.stop();
    to.stop();
}

#[test]
fn a_copy_can_be_read_and_stays_as_it_is() {
    let Pair {
        here,
        there,
        file,
        from,
        to,
    } = pair();
    // The journal has the newest writes, because the daemon is killed.
    let (mut client, _) = Client::open(&from.tcp, "v/l").expect("opened");
    client.write(16_384, &[8; 4096]).expect("written");
    client.flush().expect("flushed");
    from.kill();
    let copy = there.file("copy.img");
    fs::copy(&file, &copy).expect("copied");
    let original = fs::read(&copy).expect("read");
    let is_unchanged = || fs::read(&copy).expect("read") == original;
    let copy = copy.to_str().expect("UTF-8").to_owned();
    ask(
        &there,
        &["aggregate", "import", &copy, "--read-only", "--as", "copy"],
    );
    let assert_readable = |server: &Server| {
        assert_data(server, "v/l");
        let (mut client, _) = Client::open(&server.tcp, "v/l").expect("opened");
        assert_eq!(client.read(16_384, 4096).expect("read"), [8; 4096]);
        assert!(client.write(0, &[9; 4096]).is_err(), "it is read-only");
    };
    assert_readable(&to);
    let shown = ask_json(&there, &["aggregate", "show", "copy"]);
    assert_eq!(shown["state"], "read-only", "{shown}");
    assert_eq!(shown["imported_read_only"], true, "{shown}");
    assert_eq!(ask_json(&there, &["status"])["health"], "healthy");
    let read_only = ["imported with --read-only", "import it without"];
    let change = ["lun", "create", "v/m", "--size", "1MiB"];
    refused(&there, &change, 1, &read_only);
    let delete = ["aggregate", "delete", "copy", "--discard-volumes", "--yes"];
    refused(&there, &delete, 1, &["export it to close it"]);
    // Another start finds it as it is, and the original is served meanwhile.
    to.stop();
    assert!(is_unchanged());
    let (from, to) = (serve(&here), serve(&there));
    assert_data(&from, "v/l");
    assert_readable(&to);
    let found = ask_json(&there, &["event", "show", "--where", "severity!=info"]);
    assert_eq!(found["events"], serde_json::json!([]), "{found}");
    ask(&there, &["aggregate", "export", "copy"]);
    assert!(is_unchanged());
    // Now for writing.
    ask(&there, &["aggregate", "import", &copy, "--as", "mine"]);
    let (mut client, _) = Client::open(&to.tcp, "v/l").expect("opened");
    client.write(0, &[9; 4096]).expect("written");
    assert_eq!(client.read(16_384, 4096).expect("read"), [8; 4096]);
    from.stop();
    to.stop();
}
