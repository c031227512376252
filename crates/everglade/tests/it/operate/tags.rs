//! Tags, conditional changes, and creations that may be repeated.

use super::http;
use crate::manage::{ask, refused, serve};
use crate::running::TestDir;

const LUN: &str = "/v1/volumes/vol0/luns/lun0";

#[test]
fn a_change_can_be_made_conditional_on_what_was_seen() {
    let dir = TestDir::new();
    let server = serve(&dir);
    let send =
        |method: &str, headers: &str, body: &str| http::unix(&dir, method, LUN, headers, body);
    let seen = send("GET", "", "");
    let tag = seen.header("etag").expect("a tag").to_owned();
    let not_modified = send("GET", &format!("If-None-Match: {tag}\r\n"), "");
    assert_eq!((not_modified.status, not_modified.body.as_str()), (304, ""));
    let grow = "{\"size_bytes\": 134217728}";
    let grown = send("PATCH", &format!("If-Match: {tag}\r\n"), grow);
    assert_eq!(grown.status, 200, "{grown:?}");
    assert_ne!(grown.header("etag"), Some(tag.as_str()));
    for (method, body) in [("PATCH", "{\"size_bytes\": 268435456}"), ("DELETE", "")] {
        let stale = send(method, &format!("If-Match: {tag}\r\n"), body);
        assert_eq!(
            (stale.status, &stale.json()["code"]),
            (412, &"EVG-2007".into()),
            "{method}"
        );
    }
    let malformed = send("PATCH", "If-Match: 7\r\n", grow);
    assert_eq!(malformed.json()["code"], "EVG-1004");
    assert_eq!(send("GET", "", "").json()["size_bytes"], 134_217_728);
    server.stop();
}

#[test]
fn a_creation_may_be_repeated() {
    let dir = TestDir::new();
    let server = serve(&dir);
    let put = |path: &str, body: &str| http::unix(&dir, "PUT", path, "", body);
    let (volume, lun) = ("/v1/volumes/v", "/v1/volumes/v/luns/l");
    let (small, large) = ("{\"size_bytes\": 4096}", "{\"size_bytes\": 8192}");
    assert_eq!(put(volume, "{}").status, 201);
    assert_eq!(put(volume, "{}").status, 200);
    assert_eq!(put(volume, "{\"aggregate\": \"aggr0\"}").status, 200);
    assert_eq!(
        put(volume, "{\"sync\": \"always\"}").json()["code"],
        "EVG-2002"
    );
    assert_eq!(put(lun, small).status, 201);
    assert_eq!(put(lun, small).status, 200);
    assert_eq!(put(lun, large).json()["code"], "EVG-2002");
    assert_eq!(put("/v1/volumes/-x", "{}").json()["field"], "volume");
    assert_eq!(put("/v1/volumes/v/luns/-x", small).json()["field"], "lun");
    assert_eq!(
        put("/v1/volumes/nix/luns/l", small).json()["code"],
        "EVG-2001"
    );
    for _ in 0..2 {
        ask(&dir, &["volume", "create", "w", "--if-missing"]);
        ask(
            &dir,
            &["lun", "create", "w/l", "--size", "1M", "--if-missing"],
        );
    }
    let other = ["lun", "create", "w/l", "--size", "2M", "--if-missing"];
    refused(&dir, &other, 5, &["EVG-2002", "1.0 MiB"]);
    server.stop();
}

#[test]
fn a_dry_run_says_what_would_be_lost_and_changes_nothing() {
    let dir = TestDir::new();
    let server = serve(&dir);
    let before = crate::manage::everything(&dir);
    let delete = ["volume", "delete", "vol0", "--dry-run"];
    let said = ask(&dir, &[&delete[..], &["--purge"]].concat());
    assert!(
        said.contains("vol0 with its LUN (64.0 MiB in all) would be lost"),
        "{said}"
    );
    let said = ask(&dir, &delete);
    assert!(
        said.contains("vol0 with its LUN (64.0 MiB in all) would stay in the trash"),
        "{said}"
    );
    assert!(said.contains("LUN vol0/lun0 (64.0 MiB)"), "{said}");
    let delete = ["lun", "delete", "vol0/lun0", "--dry-run", "--yes"];
    let said = ask(&dir, &delete);
    assert!(said.contains("would stay in the trash for 1d 0h"), "{said}");
    let said = ask(&dir, &[&delete[..], &["--purge"]].concat());
    assert!(said.contains("would be lost"), "{said}");
    let said = ask(
        &dir,
        &["lun", "resize", "vol0/lun0", "--size", "32M", "--dry-run"],
    );
    assert!(
        said.contains("what lies in its last 32.0 MiB would be lost"),
        "{said}"
    );
    let file = dir.file("device");
    std::fs::write(&file, vec![7; 4096]).expect("write");
    let device = std::fs::File::options()
        .write(true)
        .open(&file)
        .expect("open");
    device.set_len(2 << 30).expect("sparse");
    let path = file.to_str().expect("UTF-8");
    let create = ["aggregate", "create", "b", "--devices", path, "--dry-run"];
    let said = ask(&dir, &create);
    assert!(said.contains("what it holds; needs --yes"), "{said}");
    let plan = crate::manage::ask_json(&dir, &create);
    assert_eq!(plan["devices"][0]["holds_data"], true, "{plan}");
    refused(
        &dir,
        &["volume", "delete", "nix", "--dry-run"],
        4,
        &["no volume nix"],
    );
    assert_eq!(crate::manage::everything(&dir), before);
    assert_eq!(std::fs::read(&file).expect("read")[..4096], vec![7; 4096]);
    server.stop();
}
