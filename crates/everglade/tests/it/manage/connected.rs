//! Who is connected is shown, and LUNs in use are not deleted by accident.

use super::{TestDir, ask, ask_json, assert_clean, everything, refused};
use crate::running::Server;
use crate::wire::Client;
use crate::wire_iscsi::Initiator;

const ME: &str = "iqn.2026-11.test:me";

fn start(dir: &TestDir) -> Server {
    let sizes = ["--lun-size", "16MiB", "--aggregate-size", "1GiB"];
    dir.serve(&[&sizes[..], &["--iscsi-tcp", ":0"]].concat())
}

#[test]
fn sessions_are_shown_with_who_they_are() {
    let dir = TestDir::new();
    let server = start(&dir);
    let none = ask_json(&dir, &["session", "show"]);
    assert_eq!(none["sessions"], serde_json::json!([]));
    ask(&dir, &["snapshot", "create", "vol0@s"]);
    let (mut client, _) = Client::open(&server.tcp, "vol0/lun0").expect("opened");
    let (_image, _) = Client::open(&server.tcp, "vol0/lun0@s").expect("opened");
    let target = "iqn.2026-11.dev.everglade:vol0.lun0";
    let _initiator = Initiator::log_in(&server.address("iscsi"), ME, target);
    client.read(0, 4096).expect("read");
    let sessions = ask_json(&dir, &["session", "show", "--sort", "lun,protocol"]);
    let sessions = sessions["sessions"].as_array().expect("a list");
    let shown = sessions.iter().map(|it| {
        let text = |field: &str| it[field].as_str().unwrap_or("-").to_owned();
        [text("lun"), text("protocol"), text("client"), text("host")]
    });
    let expected = [
        ["vol0/lun0", "NBD", "127.0.0.1", "-"],
        ["vol0/lun0", "iSCSI", "127.0.0.1", ME],
        ["vol0/lun0@s", "NBD", "127.0.0.1", "-"],
    ];
    assert_eq!(shown.collect::<Vec<_>>(), expected);
    assert!(sessions[0]["sent_bytes"].as_u64().expect("a number") > 4096);
    // A LUN goes by the name that it has now.
    ask(&dir, &["lun", "rename", "vol0/lun0", "data"]);
    let rows = |object: &str| {
        let words = ["session", "show", object, "--no-header", "--columns", "lun"];
        ask(&dir, &words)
    };
    assert_eq!(rows("vol0/data"), "vol0/data\nvol0/data\n");
    assert_eq!(rows("vol0/lun0@s"), "vol0/lun0@s\n");
    assert_eq!(rows("vol0").lines().count(), 3);
    assert_eq!(rows("vol"), "");
    server.stop();
}

#[test]
fn what_clients_use_is_deleted_only_when_that_is_meant() {
    let dir = TestDir::new();
    let server = start(&dir);
    ask(&dir, &["volume", "create", "v"]);
    ask(&dir, &["lun", "create", "v/a", "--size", "4MiB"]);
    ask(&dir, &["lun", "create", "v/b", "--size", "4MiB"]);
    let (mut client, _) = Client::open(&server.tcp, "v/a").expect("opened");
    let before = everything(&dir);
    let said = [
        "1 connection in use: v/a by 127.0.0.1 over NBD",
        "add --disconnect",
    ];
    refused(&dir, &["lun", "delete", "v/a", "--yes"], 5, &said);
    refused(&dir, &["volume", "delete", "v", "--yes"], 5, &said);
    assert_eq!(everything(&dir), before);
    assert!(client.read(0, 4096).is_ok());
    ask(&dir, &["lun", "delete", "v/b", "--yes"]);
    ask(&dir, &["lun", "delete", "v/a", "--yes", "--disconnect"]);
    assert!(client.is_closed_by_server());
    ask(&dir, &["volume", "delete", "v", "--yes"]);
    server.stop();
    assert_clean(&dir, 1);
}
