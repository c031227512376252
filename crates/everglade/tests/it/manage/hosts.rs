//! Hosts, groups and mappings: who may use which LUN (decision 0047).

use super::devices::sparse;
use super::{GIB, TestDir, ask, ask_json, assert_clean, refused, text};
use crate::running::Server;
use crate::wire::Client;
use crate::wire_iscsi::{Initiator, NOT_FOUND};

const ME: &str = "iqn.2026-11.test:me";
const OTHER: &str = "iqn.2026-11.test:other";
const TARGET: &str = "iqn.2026-11.dev.everglade:v.l";

/// A daemon with LUN `v/l`.
fn start(dir: &TestDir) -> Server {
    let server = serve(dir);
    ask(dir, &["volume", "create", "v"]);
    ask(dir, &["lun", "create", "v/l", "--size", "16MiB"]);
    server
}

fn serve(dir: &TestDir) -> Server {
    let sizes = ["--lun-size", "16MiB", "--aggregate-size", "1GiB"];
    dir.serve(&[&sizes[..], &["--iscsi-tcp", ":0"]].concat())
}

fn opens(server: &Server, export: &str) -> bool {
    Client::open(&server.tcp, export).is_ok()
}

fn log_in(server: &Server, name: &str) -> Result<Initiator, [u8; 2]> {
    Initiator::try_log_in(&server.address("iscsi"), name, TARGET)
}

#[test]
fn a_mapped_lun_is_for_its_hosts_and_connections_of_others_end() {
    let dir = TestDir::new();
    let server = start(&dir);
    let (mut here, _) = Client::open(&server.tcp, "v/l").expect("it is not mapped");
    let mut initiator = log_in(&server, ME).expect("it is not mapped");
    ask(&dir, &["snapshot", "create", "v@s"]);
    assert!(opens(&server, "v/l@s"));
    ask(&dir, &["host", "create", "far", "10.9.9.9"]);
    assert!(here.read(0, 4096).is_ok(), "a host alone changes nothing");
    let made = ask_json(&dir, &["mapping", "create", "v/l", "far"]);
    assert_eq!(
        (&made["lun"], &made["kind"]),
        (&"v/l".into(), &"host".into())
    );
    assert!(here.is_closed_by_server() && initiator.is_ended_by_server());
    for export in ["v/l", "v/l@s"] {
        assert!(!opens(&server, export), "{export}");
    }
    assert!(opens(&server, "vol0/lun0"), "another LUN");
    assert_eq!(log_in(&server, ME).err(), Some(NOT_FOUND));
    // What a host is known by changes.
    ask(
        &dir,
        &["host", "modify", "far", "--add", ME, "--add", "127.0.0.0/8"],
    );
    assert!(opens(&server, "v/l") && opens(&server, "v/l@s"));
    let remove = ["host", "modify", "far", "--remove", "127.0.0.0/8"];
    let (mut here, _) = Client::open(&server.tcp, "v/l").expect("mapped");
    let mut initiator = log_in(&server, OTHER).expect("its address is the host's");
    ask(&dir, &remove);
    assert!(here.is_closed_by_server() && initiator.is_ended_by_server());
    let mut initiator = log_in(&server, ME).expect("its name is the host's");
    assert_eq!(log_in(&server, OTHER).err(), Some(NOT_FOUND));
    // Another name of the LUN, and a crash, change nothing.
    ask(&dir, &["lun", "rename", "v/l", "m"]);
    ask(&dir, &["lun", "rename", "v/m", "l"]);
    server.kill();
    assert!(initiator.is_ended_by_server());
    let server = serve(&dir);
    assert!(!opens(&server, "v/l"));
    assert!(log_in(&server, ME).is_ok() && log_in(&server, OTHER).is_err());
    ask(&dir, &["mapping", "delete", "v/l", "far"]);
    assert!(opens(&server, "v/l") && log_in(&server, OTHER).is_ok());
    let history = ask(&dir, &["history"]);
    for what in [
        "host create",
        "host modify",
        "mapping create",
        "mapping delete",
    ] {
        assert!(history.contains(what), "{what}: {history}");
    }
    server.stop();
    assert_clean(&dir, 1);
}

#[test]
fn a_change_of_access_says_before_whose_connections_would_end() {
    let dir = TestDir::new();
    let server = start(&dir);
    let (mut here, _) = Client::open(&server.tcp, "v/l").expect("it is not mapped");
    let mut initiator = log_in(&server, ME).expect("it is not mapped");
    ask(&dir, &["host", "create", "far", "10.9.9.9"]);
    ask(&dir, &["host", "create", "me", ME]);
    ask(&dir, &["host-group", "create", "all", "far"]);
    let planned = |words: &[&str]| {
        let plan = ask_json(&dir, &[words, &["--dry-run"]].concat());
        let ending = plan["ending"].as_array().expect("a list").clone();
        let protocols = ending.into_iter().map(|it| it["protocol"].clone());
        (protocols.collect::<Vec<_>>(), plan["staying_count"].clone())
    };
    let ends = |protocols: &[&str], stay: u64| {
        let protocols = protocols.iter().map(|it| serde_json::json!(it));
        (protocols.collect::<Vec<_>>(), serde_json::json!(stay))
    };
    let map = ["mapping", "create", "v/l", "all"];
    let (mut protocols, stay) = planned(&map);
    protocols.sort_by_key(ToString::to_string);
    assert_eq!((protocols, stay), ends(&["NBD", "iSCSI"], 0));
    let said = ask(&dir, &[&map[..], &["--dry-run"]].concat());
    assert!(
        said.contains("2 connections would end") && said.contains(ME),
        "{said}"
    );
    assert!(here.read(0, 4096).is_ok(), "nothing was changed");
    assert_eq!(
        ask_json(&dir, &["mapping", "show"])["mappings"],
        serde_json::json!([])
    );
    // Whoever is in the group stays.
    ask(&dir, &["host-group", "modify", "all", "--add", "me"]);
    assert_eq!(planned(&map), ends(&["NBD"], 1));
    ask(&dir, &map);
    assert!(here.is_closed_by_server());
    assert_eq!(
        planned(&["host", "modify", "me", "--add", "10.1.1.1", "--remove", ME]),
        ends(&["iSCSI"], 0)
    );
    let leave = ["host-group", "modify", "all", "--remove", "me"];
    assert_eq!(planned(&leave), ends(&["iSCSI"], 0));
    assert_eq!(planned(&["mapping", "delete", "v/l", "all"]), ends(&[], 1));
    // What cannot be done is refused as without it.
    let unknown = ["mapping", "create", "v/l", "x", "--dry-run"];
    refused(&dir, &unknown, 4, &["there is no host or group x"]);
    ask(&dir, &leave);
    assert!(initiator.is_ended_by_server());
    server.stop();
    assert_clean(&dir, 1);
}

#[test]
fn a_group_lets_all_its_hosts_in() {
    let dir = TestDir::new();
    let server = start(&dir);
    ask(&dir, &["host", "create", "me", ME]);
    ask(&dir, &["host", "create", "other", OTHER]);
    ask(&dir, &["host-group", "create", "cluster", "me"]);
    ask(&dir, &["mapping", "create", "v/l", "cluster"]);
    assert!(log_in(&server, ME).is_ok() && log_in(&server, OTHER).is_err());
    ask(&dir, &["host-group", "modify", "cluster", "--add", "other"]);
    assert!(log_in(&server, OTHER).is_ok());
    let mut initiator = log_in(&server, ME).expect("in the group");
    ask(&dir, &["host-group", "modify", "cluster", "--remove", "me"]);
    assert!(initiator.is_ended_by_server());
    let groups = ask_json(&dir, &["host-group", "show"]);
    assert_eq!(
        groups["host_groups"][0]["hosts"],
        serde_json::json!(["other"])
    );
    assert_eq!(groups["host_groups"][0]["lun_count"], 1);
    let table = ask(&dir, &["mapping", "show", "v/l"]);
    assert!(
        table.contains("cluster") && table.contains("other"),
        "{table}"
    );
    // A LUN that is gone leaves no mapping behind, and one of its name is another one.
    ask(&dir, &["lun", "delete", "v/l", "--yes"]);
    ask(&dir, &["lun", "create", "v/l", "--size", "16MiB"]);
    let mappings = ask_json(&dir, &["mapping", "show"]);
    assert_eq!(mappings["mappings"], serde_json::json!([]));
    ask(&dir, &["host-group", "delete", "cluster"]);
    server.stop();
}

#[test]
fn what_makes_no_sense_is_refused_and_changes_nothing() {
    let dir = TestDir::new();
    let server = start(&dir);
    ask(&dir, &["host", "create", "me", ME, "10.0.0.1"]);
    ask(&dir, &["host-group", "create", "cluster", "me"]);
    ask(&dir, &["mapping", "create", "v/l", "me"]);
    let shown = || ["host", "host-group", "mapping"].map(|noun| ask_json(&dir, &[noun, "show"]));
    let before = shown();
    for (words, exit, parts) in [
        (
            &["host", "create", "x", "somebody"][..],
            2,
            &["somebody", "expected an IQN"][..],
        ),
        (
            &["host", "create", "me", "local"],
            5,
            &["me", "choose another"],
        ),
        (
            &["host", "create", "cluster", "local"],
            5,
            &["share their names"],
        ),
        (&["host", "modify", "me"], 2, &["add or to remove"]),
        (
            &["host", "modify", "me", "--remove", "local"],
            2,
            &["not known by local"],
        ),
        (
            &["host", "modify", "nobody", "--add", "local"],
            4,
            &["nobody"],
        ),
        (
            &["host", "delete", "me"],
            5,
            &["host-group modify cluster --remove me"],
        ),
        (
            &["host-group", "create", "g", "nobody"],
            4,
            &["nobody", "host create"],
        ),
        (&["host-group", "delete", "nobody"], 4, &["nobody"]),
        (
            &["mapping", "create", "v/l", "nobody"],
            4,
            &["nobody", "host create"],
        ),
        (&["mapping", "create", "v/none", "me"], 4, &["none"]),
        (&["mapping", "delete", "v/l", "cluster"], 4, &["cluster"]),
        (&["mapping", "show", "v/none"], 4, &["none"]),
    ] {
        refused(&dir, words, exit, parts);
    }
    assert_eq!(shown(), before);
    ask(&dir, &["host-group", "modify", "cluster", "--remove", "me"]);
    refused(
        &dir,
        &["host", "delete", "me"],
        5,
        &["mapping show --where to=me"],
    );
    // The remedies work.
    let found = ask(
        &dir,
        &["mapping", "show", "--where", "to=me", "--no-header"],
    );
    assert!(found.starts_with("v/l"), "{found}");
    ask(&dir, &["mapping", "delete", "v/l", "me"]);
    ask(&dir, &["host", "delete", "me"]);
    server.stop();
}

/// Mappings and the hosts that they name go with the aggregate.
#[test]
fn an_aggregate_that_moves_takes_its_mappings_along() {
    let (here, there) = (TestDir::new(), TestDir::new());
    let (from, to) = (serve(&here), serve(&there));
    let file = sparse(&here, "disk", GIB);
    let file = text(&file);
    ask(&here, &["aggregate", "create", "box", "--devices", file]);
    ask(&here, &["volume", "create", "v", "--aggregate", "box"]);
    ask(&here, &["lun", "create", "v/l", "--size", "16MiB"]);
    ask(&here, &["host", "create", "me", ME]);
    ask(&here, &["host", "create", "unused", "local"]);
    ask(&here, &["mapping", "create", "v/l", "me"]);
    // Another host has its name there.
    ask(&there, &["host", "create", "me", OTHER]);
    ask(&here, &["aggregate", "export", "box"]);
    ask(&there, &["aggregate", "import", file]);
    assert!(log_in(&to, ME).is_ok() && log_in(&to, OTHER).is_err());
    assert!(!opens(&to, "v/l"));
    let hosts = ask(
        &there,
        &["host", "show", "--columns", "name", "--no-header"],
    );
    assert_eq!(hosts, "me\nme-box\n");
    from.stop();
    to.stop();
}
