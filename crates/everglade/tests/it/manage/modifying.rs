//! Volumes are changed in place, while clients use them.

use super::{ask, ask_json, refused, serve};
use crate::running::{Server, TestDir};
use crate::wire::Client;

#[test]
fn a_volume_is_changed_while_a_client_has_a_lun_open() {
    let dir = TestDir::new();
    let server = serve(&dir);
    let open = |server: &Server| Client::open(&server.tcp, "vol0/lun0").expect("open").0;
    let mut client = open(&server);
    client.write(0, &[1; 4096]).expect("written");
    let before = ask_json(&dir, &["volume", "show", "vol0"]);
    assert_eq!(before["sync"], "standard");
    ask(&dir, &["volume", "modify", "vol0", "--sync", "always"]);
    // A write that nobody flushes is there after the daemon was killed.
    client.write(0, &[2; 4096]).expect("written");
    server.kill();
    let server = serve(&dir);
    assert_eq!(open(&server).read(0, 4096).expect("read"), [2; 4096]);
    let after = ask_json(&dir, &["volume", "show", "vol0"]);
    assert_eq!(after["sync"], "always");
    ask(&dir, &["policy", "create", "p", "--hourly", "1"]);
    let both = [
        "volume",
        "modify",
        "vol0",
        "--sync",
        "standard",
        "--snapshot-policy",
        "p",
    ];
    ask(&dir, &both);
    let after = ask_json(&dir, &["volume", "show", "vol0"]);
    assert_eq!(
        (&after["sync"], &after["snapshot_policy"]),
        (&"standard".into(), &"p".into())
    );
    let history = ask_json(&dir, &["history", "--where", "what=volume modify"]);
    assert_eq!(
        history["changes"][1]["detail"], "sync standard, snapshot policy p",
        "{history}"
    );

    // A comment outlives restarts and renames, and an empty one removes it.
    let comment = "invoices, ask Eve";
    ask(&dir, &["volume", "modify", "vol0", "--comment", comment]);
    ask(&dir, &["volume", "rename", "vol0", "vol1"]);
    server.stop();
    let server = serve(&dir);
    let after = ask_json(&dir, &["volume", "show", "vol1"]);
    assert_eq!(after["comment"], comment, "{after}");
    let listed = ask(&dir, &["volume", "show", "--columns", "name,comment"]);
    assert!(listed.contains(comment), "{listed}");
    ask(&dir, &["volume", "modify", "vol1", "--comment", ""]);
    let after = ask_json(&dir, &["volume", "show", "vol1"]);
    assert_eq!(after.get("comment"), None, "{after}");
    ask(&dir, &["volume", "rename", "vol1", "vol0"]);
    let long = "x".repeat(201);
    let long = ["volume", "modify", "vol0", "--comment", &long];
    refused(&dir, &long, 2, &["at most 200 characters"]);

    refused(
        &dir,
        &["volume", "modify", "nix", "--sync", "always"],
        4,
        &["volume nix"],
    );
    refused(
        &dir,
        &["volume", "modify", "vol0", "--snapshot-policy", "nix"],
        4,
        &["nix"],
    );
    refused(&dir, &["volume", "modify", "vol0"], 2, &["--sync"]);
    server.stop();
}
