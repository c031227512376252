//! A start with one aggregate that cannot be opened, and journals where they are wanted.

use std::fs;

use crate::manage::{ask, ask_json, refused, serve};
use crate::running::{TestDir, code};

fn device(dir: &TestDir, name: &str, bytes: u64) -> String {
    let path = dir.file(name);
    let file = fs::File::create(&path).expect("create");
    file.set_len(bytes).expect("sparse");
    path.to_str().expect("UTF-8").to_owned()
}

#[test]
fn an_aggregate_that_cannot_be_opened_is_shown_and_the_others_serve() {
    let dir = TestDir::new();
    let server = serve(&dir);
    let path = device(&dir, "device", 2 << 30);
    ask(&dir, &["aggregate", "create", "b", "--devices", &path]);
    ask(&dir, &["volume", "create", "v", "--aggregate", "b"]);
    server.stop();
    let away = dir.file("away");
    fs::rename(&path, &away).expect("rename");

    let server = serve(&dir);
    crate::wire::Client::open(&server.tcp, "vol0/lun0").expect("the other one serves");
    let status = dir.run(&["status", "--json"]);
    assert_eq!(code(&status), 8);
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).expect("JSON");
    let condition = &status["conditions"][0];
    assert_eq!(
        (&condition["code"], &condition["object"]),
        (&"EVG-4004".into(), &"aggregate b".into())
    );
    assert_eq!(condition["page"], "docs/reference/codes/EVG-4004.md");
    assert!(
        condition["what"]
            .as_str()
            .is_some_and(|what| what.contains(&path)),
        "{condition}"
    );
    let shown = ask_json(&dir, &["aggregate", "show", "b"]);
    assert_eq!(shown["state"], "unavailable", "{shown}");
    assert_eq!(shown["devices"][0]["path"], path.as_str());
    refused(
        &dir,
        &["volume", "create", "w", "--aggregate", "b"],
        1,
        &["EVG-3002", "device 0"],
    );
    refused(&dir, &["volume", "create", "w"], 2, &["--aggregate"]);
    refused(&dir, &["aggregate", "create", "b"], 5, &["b exists"]);
    ask(&dir, &["volume", "create", "w", "--aggregate", "aggr0"]);
    let events = ask(
        &dir,
        &[
            "event",
            "show",
            "--where",
            "code=EVG-4004",
            "--columns",
            "kind",
            "--no-header",
        ],
    );
    assert_eq!(events, "alert\n");
    server.stop();

    fs::rename(&away, &path).expect("rename");
    let server = serve(&dir);
    assert_eq!(code(&dir.run(&["status"])), 0);
    let volumes = ask(
        &dir,
        &["volume", "show", "--columns", "name", "--no-header"],
    );
    assert_eq!(volumes, "v\nvol0\nw\n");
    server.stop();
    crate::manage::assert_clean(&dir, 2);
}

#[test]
fn a_journal_is_as_large_and_where_it_is_wanted() {
    let dir = TestDir::new();
    let journal = device(&dir, "journal", 256 << 20);
    let server = dir.serve(&[
        "--aggregate-size",
        "2GiB",
        "--lun-size",
        "64MiB",
        "--journal-device",
        &journal,
        "--journal-half-size",
        "32MiB",
    ]);
    let shown = ask_json(&dir, &["aggregate", "show", "aggr0"]);
    assert_eq!(shown["journal"]["half_bytes"], 32 << 20, "{shown}");
    assert_eq!(shown["devices"][1]["path"], journal.as_str());
    let (data, other) = (
        device(&dir, "large", 2 << 30),
        device(&dir, "other", 256 << 20),
    );
    let create = [
        "aggregate",
        "create",
        "b",
        "--devices",
        &data,
        "--journal-device",
    ];
    refused(
        &dir,
        &[&create[..], &[&data]].concat(),
        2,
        &["--journal-device", "other devices"],
    );
    refused(
        &dir,
        &[&create[..], &[&journal]].concat(),
        5,
        &["--journal-device", "aggr0"],
    );
    refused(
        &dir,
        &[&create[..], &["/nix"]].concat(),
        1,
        &["--journal-device", "No such file"],
    );
    for (half, part) in [
        ("1M", "16.0 MiB to"),
        ("16777217", "multiple of 4096"),
        ("5G", "4.0 GiB"),
    ] {
        refused(
            &dir,
            &[&create[..], &[&other, "--journal-half", half]].concat(),
            2,
            &["--journal-half", part],
        );
    }
    let small = device(&dir, "small", 1 << 20);
    refused(
        &dir,
        &[&create[..], &[&small]].concat(),
        1,
        &["is too small"],
    );
    ask(
        &dir,
        &[&create[..], &[&other, "--journal-half", "64M"]].concat(),
    );
    let shown = ask_json(&dir, &["aggregate", "show", "b"]);
    assert_eq!(shown["journal"]["half_bytes"], 64 << 20, "{shown}");
    server.stop();
    let server = dir.serve(&[]);
    assert_eq!(code(&dir.run(&["status"])), 0);
    server.stop();
    crate::manage::assert_clean(&dir, 2);
}

#[test]
fn a_journal_device_that_cannot_be_used_refuses_the_first_start() {
    let dir = TestDir::new();
    let refused = dir.serve_in_vain(&["--journal-device", "/nonexistent/pmem0"]);
    assert_eq!(code(&refused), 1);
    let said = crate::running::stderr(&refused);
    assert!(
        said.contains("journal.device: /nonexistent/pmem0"),
        "{said}"
    );
    serve(&dir).stop();
}
