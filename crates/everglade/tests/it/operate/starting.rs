//! A first start on given devices, and one that makes no aggregate.

use std::fs;

use crate::manage::devices::sparse;
use crate::manage::{GIB, ask, ask_json, refused};
use crate::running::{TestDir, code, stderr};
use crate::wire::Client;

#[test]
fn a_first_start_makes_a_mirror_of_the_drives_that_it_is_given() {
    let dir = TestDir::new();
    let drives = ["one", "two"].map(|name| sparse(&dir, name, GIB).display().to_string());
    let devices = drives.join(",");
    let args = ["--devices", &devices, "--raid", "mirror"];
    let server = dir.serve(&[&args[..], &["--lun-size", "64MiB"]].concat());
    let (mut client, _) = Client::open(&server.tcp, "vol0/lun0").expect("opened");
    client.write(0, &[7; 4096]).expect("written");
    let shown = ask_json(&dir, &["aggregate", "show", "aggr0"]);
    assert_eq!(shown["raid"], "mirror", "{shown}");
    assert_eq!(shown["devices"][1]["path"], drives[1].as_str(), "{shown}");
    drop(client);
    server.stop();
    // Later the options have no effect.
    for args in [&args[..], &[]] {
        let server = dir.serve(args);
        let (mut client, _) = Client::open(&server.tcp, "vol0/lun0").expect("opened");
        assert_eq!(client.read(0, 4096).expect("read"), [7; 4096]);
        drop(client);
        server.stop();
    }
}

#[test]
fn a_first_start_that_cannot_use_its_devices_changes_nothing() {
    let dir = TestDir::new();
    let one = sparse(&dir, "one", GIB).display().to_string();
    let full = dir.file("full");
    fs::write(&full, vec![9; 1 << 20]).expect("written");
    fs::File::options()
        .write(true)
        .open(&full)
        .and_then(|file| file.set_len(GIB))
        .expect("sparse");
    let full_ = full.display().to_string();
    let both = format!("{one},{full_}");
    for (args, parts) in [
        (
            vec!["--devices", &full_],
            vec!["full holds data", "wipefs", "nothing was changed"],
        ),
        (
            vec!["--devices", &both, "--raid", "mirror"],
            vec!["full holds data"],
        ),
        (
            vec!["--devices", &one, "--raid", "mirror"],
            vec!["--devices: ", "nothing was changed"],
        ),
        (
            vec!["--devices", "/nix"],
            vec!["--devices: ", "/nix", "nothing was changed"],
        ),
        (vec!["--raid", "mirror"], vec!["raid", "devices"]),
        (
            vec!["--devices", "none", "--group-size", "2"],
            vec!["group-size", "devices"],
        ),
    ] {
        let output = dir.serve_in_vain(&args);
        assert_ne!(code(&output), 0, "{args:?}");
        for part in parts {
            let said = stderr(&output);
            assert!(said.contains(part), "{args:?}: {part:?} is not in {said}");
        }
    }
    let start = fs::read(&full).expect("read");
    assert!(start[..1 << 20].iter().all(|byte| *byte == 9));
    // What was refused leaves nothing behind.
    let server = dir.serve(&["--devices", &one, "--lun-size", "64MiB"]);
    server.stop();
}

#[test]
fn a_daemon_without_an_aggregate_waits_for_one() {
    let (dir, there) = (TestDir::new(), TestDir::new());
    let server = dir.serve(&["--devices", "none"]);
    let status = ask_json(&dir, &["status"]);
    assert_eq!(status["health"], "healthy", "{status}");
    assert_eq!(status["aggregate_count"], 0, "{status}");
    let shown = ask_json(&dir, &["aggregate", "show"]);
    assert_eq!(shown["aggregates"], serde_json::json!([]));
    let create = ["volume", "create", "v"];
    refused(&dir, &create, 4, &["no aggregate", "aggregate import"]);
    server.stop();
    // An aggregate of another daemon comes.
    let disk = sparse(&there, "disk", GIB).display().to_string();
    let other = there.serve(&["--devices", &disk, "--lun-size", "64MiB"]);
    let (mut client, _) = Client::open(&other.tcp, "vol0/lun0").expect("opened");
    client.write(0, &[7; 4096]).expect("written");
    drop(client);
    other.stop();
    let server = dir.serve(&["--devices", "none"]);
    ask(&dir, &["aggregate", "import", &disk]);
    let (mut client, _) = Client::open(&server.tcp, "vol0/lun0").expect("opened");
    assert_eq!(client.read(0, 4096).expect("read"), [7; 4096]);
    drop(client);
    server.stop();
    // From now on the option has no effect.
    let server = dir.serve(&[]);
    let (mut client, _) = Client::open(&server.tcp, "vol0/lun0").expect("opened");
    assert_eq!(client.read(0, 4096).expect("read"), [7; 4096]);
    drop(client);
    server.stop();
}
