//! Other names for aggregates, volumes and LUNs: who is connected goes on, who comes needs the new
//! name, and everything that is kept by name follows.

use std::fs;
use std::time::Duration;

use super::{ask, ask_json, assert_clean, refused, serve};
use crate::operate::http;
use crate::running::{Server, TestDir};
use crate::waiting::within;
use crate::wire::Client;

#[test]
fn clients_go_on_under_a_new_name_and_everybody_else_needs_it() {
    let dir = TestDir::new();
    let mut server = serve(&dir);
    let (mut client, _) = Client::open(&server.tcp, "vol0/lun0").expect("a client");
    client.write(0, &[1; 4096]).expect("written");
    ask(&dir, &["snapshot", "create", "vol0@before"]);
    let said = ask(&dir, &["lun", "rename", "vol0/lun0", "disk"]);
    assert!(
        said.contains("vol0/disk") && said.contains("nbd://"),
        "{said}"
    );
    let said = ask(&dir, &["volume", "rename", "vol0", "data"]);
    assert!(said.contains("data"), "{said}");
    client.write(4096, &[2; 4096]).expect("a connection stays");
    client.flush().expect("flushed");
    for old in ["vol0/lun0", "vol0/disk", "data/lun0"] {
        assert!(Client::open(&server.tcp, old).is_err(), "{old}");
    }
    let look = |server: &Server| {
        let (mut new, _) = Client::open(&server.tcp, "data/disk").expect("the new name");
        assert_eq!(new.read(0, 1), Ok(vec![1]));
        assert_eq!(new.read(4096, 1), Ok(vec![2]));
        // A snapshot has what was there, and names are part of that.
        let (mut old, _) = Client::open(&server.tcp, "data/lun0@before").expect("the old name");
        assert_eq!(old.read(0, 1), Ok(vec![1]));
        assert_eq!(old.read(4096, 1), Ok(vec![0]));
    };
    look(&server);
    server.kill();
    server = serve(&dir);
    look(&server);
    let (mut client, _) = Client::open(&server.tcp, "data/disk").expect("a client");
    ask(&dir, &["snapshot", "restore", "data@before"]);
    assert_eq!(
        client.read(4096, 1),
        Ok(vec![0]),
        "it is the same LUN, as it was"
    );
    assert!(Client::open(&server.tcp, "data/disk").is_err());
    assert!(
        Client::open(&server.tcp, "data/lun0").is_ok(),
        "its name is as it was, too"
    );
    let history = ask(&dir, &["history", "--no-header"]);
    for part in [
        "lun rename",
        "vol0/lun0",
        "to disk",
        "volume rename",
        "to data",
    ] {
        assert!(history.contains(part), "{part}: {history}");
    }
    server.stop();
    assert_clean(&dir, 1);
}

#[test]
fn what_cannot_be_a_name_or_is_one_already_changes_nothing() {
    let dir = TestDir::new();
    let server = serve(&dir);
    ask(&dir, &["volume", "create", "v"]);
    ask(&dir, &["lun", "create", "v/l", "--size", "1M"]);
    ask(&dir, &["lun", "create", "v/m", "--size", "1M"]);
    let before = super::everything(&dir);
    refused(
        &dir,
        &["volume", "rename", "v", "vol0"],
        5,
        &["volume vol0 exists", "EVG-2002"],
    );
    refused(
        &dir,
        &["lun", "rename", "v/l", "m"],
        5,
        &["LUN v/m exists", "EVG-2002"],
    );
    refused(
        &dir,
        &["volume", "rename", "nix", "x"],
        4,
        &["nix", "EVG-2001"],
    );
    refused(
        &dir,
        &["lun", "rename", "v/nix", "x"],
        4,
        &["v/nix", "EVG-2001"],
    );
    refused(
        &dir,
        &["aggregate", "rename", "nix", "x"],
        4,
        &["nix", "EVG-2001"],
    );
    for noun in [
        ["volume", "rename", "v"],
        ["lun", "rename", "v/l"],
        ["aggregate", "rename", "aggr0"],
    ] {
        for bad in ["../x", "v/x", "-x", "", &"x".repeat(65), "ü"] {
            let args = [&noun[..], &["--", bad]].concat();
            refused(&dir, &args, 2, &["a name"]);
        }
        refused(&dir, &noun, 2, &["<NEW>"]);
    }
    for path in ["volumes/v", "volumes/v/luns/l", "aggregates/aggr0"] {
        let path = format!("/v1/{path}/actions/rename");
        let post = |headers: &str, body: &str| http::unix(&dir, "POST", &path, headers, body);
        assert_eq!(post("", "{}").json()["code"], "EVG-1003", "{path}");
        assert_eq!(post("", "{\"name\": 7}").json()["field"], "name", "{path}");
        assert_eq!(
            post("", "{\"name\": \"x\", \"to\": 1}").json()["field"],
            "to",
            "{path}"
        );
        let stale = post("If-Match: \"0\"\r\n", "{\"name\": \"x\"}");
        assert_eq!(stale.status, 412, "{path}");
    }
    assert_eq!(super::everything(&dir), before);
    // What has the name that is asked for is as it is asked for.
    ask(&dir, &["volume", "rename", "v", "v"]);
    ask(&dir, &["lun", "rename", "v/l", "l"]);
    ask(&dir, &["aggregate", "rename", "aggr0", "aggr0"]);
    assert_eq!(super::everything(&dir), before);
    server.stop();
}

#[test]
fn an_aggregate_keeps_its_new_name_and_another_may_have_the_old_one() {
    let dir = TestDir::new();
    let mut server = serve(&dir);
    ask(&dir, &["aggregate", "rename", "aggr0", "pool"]);
    assert_eq!(
        ask_json(&dir, &["volume", "show", "vol0"])["aggregate"],
        "pool"
    );
    refused(&dir, &["aggregate", "show", "aggr0"], 4, &["aggr0"]);
    ask(&dir, &["aggregate", "create", "aggr0", "--size", "1G"]);
    refused(
        &dir,
        &["aggregate", "rename", "aggr0", "pool"],
        5,
        &["pool exists"],
    );
    ask(&dir, &["volume", "create", "v", "--aggregate", "aggr0"]);
    ask(&dir, &["volume", "create", "w", "--aggregate", "pool"]);
    server.kill();
    server = serve(&dir);
    let of = |volume: &str| ask_json(&dir, &["volume", "show", volume])["aggregate"].clone();
    assert_eq!([of("vol0"), of("v"), of("w")], ["pool", "aggr0", "pool"]);
    // The two are two: one goes, and the other has everything.
    ask(
        &dir,
        &["aggregate", "delete", "aggr0", "--yes", "--discard-volumes"],
    );
    let (mut client, _) = Client::open(&server.tcp, "vol0/lun0").expect("a client");
    client.write(0, &[1; 4096]).expect("written");
    drop(client);
    server.stop();
    assert_clean(&dir, 1);
    // A daemon that ended between the two places where the name is: that of the pool is right.
    let path = dir.data_dir().join("state.toml");
    let state = fs::read_to_string(&path).expect("a state");
    assert!(state.contains("name = \"pool\""), "{state}");
    fs::write(&path, state.replace("name = \"pool\"", "name = \"older\"")).expect("write");
    server = serve(&dir);
    assert_eq!(of("vol0"), "pool");
    assert!(
        fs::read_to_string(&path)
            .expect("a state")
            .contains("name = \"pool\"")
    );
    server.stop();
}

#[test]
fn a_policy_follows_its_volume() {
    let dir = TestDir::new();
    let mut server = serve(&dir);
    ask(&dir, &["policy", "create", "p", "--daily", "3"]);
    ask(&dir, &["volume", "create", "v", "--snapshot-policy", "p"]);
    ask(&dir, &["volume", "rename", "v", "w"]);
    let policy =
        |volume: &str| ask_json(&dir, &["volume", "show", volume])["snapshot_policy"].clone();
    assert_eq!(policy("w"), "p");
    // A new volume of the old name has nothing to do with it.
    ask(&dir, &["volume", "create", "v"]);
    assert_eq!([policy("v"), policy("w")], ["none", "p"]);
    server.kill();
    server = serve(&dir);
    assert_eq!([policy("v"), policy("w")], ["none", "p"]);
    server.stop();
}

/// A daemon with this configuration.
fn serve_with(dir: &TestDir, text: &str) -> Server {
    let config = dir.file("everglade.toml");
    fs::write(&config, text).expect("write");
    let config = config.to_str().expect("UTF-8");
    dir.serve(&[
        "--lun-size",
        "64MiB",
        "--aggregate-size",
        "2GiB",
        "--config",
        config,
    ])
}

#[test]
fn nobody_gets_access_to_a_snapshot_by_a_new_name() {
    let dir = TestDir::new();
    let text = "[nbd.allow]\n\"vol0/lun0@pay\" = \"10.9.9.9\"\n\"vol0/lun0@wages*\" = \
        \"10.9.9.9\"\n\
        \"vol0/lun0@open\" = \"local\"\n";
    let server = serve_with(&dir, text);
    ask(&dir, &["snapshot", "create", "vol0@pay"]);
    assert!(Client::open(&server.tcp, "vol0/lun0@pay").is_err());
    // One that no line fits, and one for others.
    for to in ["monday", "open"] {
        let export = format!("vol0/lun0@{to}");
        let words = ["nbd.allow", "vol0/lun0@pay", export.as_str()];
        refused(&dir, &["snapshot", "rename", "vol0@pay", to], 5, &words);
    }
    ask(&dir, &["snapshot", "rename", "vol0@pay", "wages-2026"]);
    assert!(Client::open(&server.tcp, "vol0/lun0@wages-2026").is_err());
    // What nobody restricted may be called anything.
    ask(&dir, &["snapshot", "create", "vol0@s"]);
    assert!(Client::open(&server.tcp, "vol0/lun0@s").is_ok());
    // The daemon sees a little later that the client is gone.
    within(Duration::from_secs(30), "the client is gone", || {
        let sessions = ask_json(&dir, &["session", "show"]);
        sessions["sessions"] == serde_json::json!([])
    });
    ask(&dir, &["snapshot", "rename", "vol0@s", "tuesday"]);
    assert!(Client::open(&server.tcp, "vol0/lun0@tuesday").is_ok());
    server.stop();
}

#[test]
fn nobody_gets_access_by_a_new_name() {
    let dir = TestDir::new();
    let text = "[nbd.allow]\n\"vol0/lun0\" = \"10.9.9.9\"\n\"vol0/spare\" \
        = \"10.9.9.9\"\n\"safe/*\" = \"10.9.9.9\"\n";
    let server = serve_with(&dir, text);
    assert!(Client::open(&server.tcp, "vol0/lun0").is_err());
    refused(
        &dir,
        &["lun", "rename", "vol0/lun0", "open"],
        5,
        &["nbd.allow", "vol0/open"],
    );
    refused(
        &dir,
        &["volume", "rename", "vol0", "open"],
        5,
        &["nbd.allow", "open/lun0"],
    );
    // Neither by a copy.
    ask(&dir, &["snapshot", "create", "vol0@s"]);
    for from in [&[][..], &["--from", "vol0@s"]] {
        let clone = ["lun", "clone", "vol0/lun0", "vol0/open"];
        let words = ["nbd.allow", "vol0/open"];
        refused(&dir, &[&clone, from].concat(), 5, &words);
    }
    refused(
        &dir,
        &["clone", "create", "open", "--from", "vol0@s"],
        5,
        &["nbd.allow", "open/lun0"],
    );
    ask(&dir, &["clone", "create", "safe", "--from", "vol0@s"]);
    assert!(Client::open(&server.tcp, "safe/lun0").is_err());
    ask(&dir, &["volume", "delete", "safe", "--yes", "--purge"]);
    ask(&dir, &["snapshot", "delete", "vol0@s", "--yes"]);
    ask(&dir, &["lun", "rename", "vol0/lun0", "spare"]);
    ask(&dir, &["volume", "rename", "vol0", "safe"]);
    assert!(Client::open(&server.tcp, "safe/spare").is_err());
    server.stop();
}
