//! What changed between two images, for people, for programs, and for backup tools over NBD.

use serde_json::Value;

use crate::manage::{ask, ask_json, refused, serve};
use crate::operate::http;
use crate::running::TestDir;
use crate::tools::{have, must, run, skip};
use crate::wire::Client;

const BLOCK: u64 = 4096;

/// Offsets and lengths.
fn ranges(shown: &Value) -> Vec<(u64, u64)> {
    let list = shown["changes"].as_array().expect("a list");
    let number = |range: &Value, field: &str| range[field].as_u64().expect("a number");
    let range = |range: &Value| (number(range, "offset"), number(range, "length"));
    list.iter().map(range).collect()
}

#[test]
fn a_difference_has_what_was_written_and_what_was_discarded() {
    let dir = TestDir::new();
    let server = serve(&dir);
    let (mut client, _) = Client::open(&server.tcp, "vol0/lun0").expect("a client");
    client.write(0, &[1; 1 << 20]).expect("written");
    ask(&dir, &["snapshot", "create", "vol0@a"]);
    client.write(8 * BLOCK, &[2; 8192]).expect("written");
    client.trim(64 * BLOCK, 4096).expect("trimmed");
    ask(&dir, &["snapshot", "create", "vol0@b"]);
    client.write(32 << 20, &[3; 1]).expect("written");
    let diff = |args: &[&str]| {
        let verb = ["snapshot", "diff"];
        ask_json(&dir, &[&verb[..], args, &["--lun", "lun0"]].concat())
    };
    let shown = diff(&["vol0@a", "vol0@b"]);
    let between = [(8 * BLOCK, 8192), (64 * BLOCK, BLOCK)];
    assert_eq!(ranges(&shown), between);
    assert_eq!(
        (&shown["until"], &shown["lun_bytes"]),
        (&"b".into(), &(64 << 20).into())
    );
    assert_eq!(shown["changed_bytes"], 3 * BLOCK);
    assert_eq!(
        (&shown["compared_bytes"], &shown["range_count"]),
        (&(64 << 20).into(), &2.into())
    );
    assert_eq!(ranges(&diff(&["vol0@b", "vol0@a"])), between, "backwards");
    let since_b = diff(&["vol0@b"]);
    assert_eq!(ranges(&since_b), [(32 << 20, BLOCK)], "a byte is a block");
    assert!(since_b["until"].is_null());
    // Once, that was 404.
    let same = diff(&["vol0@a", "vol0@a"]);
    assert_eq!(ranges(&same), []);
    assert_eq!(
        (
            &same["compared_bytes"],
            &same["lun_bytes"],
            &same["changed_bytes"]
        ),
        (&(64 << 20).into(), &(64 << 20).into(), &0.into())
    );
    let part = diff(&["vol0@a", "vol0@a", "--offset", "4096", "--length", "8192"]);
    assert_eq!(
        (ranges(&part), &part["compared_bytes"]),
        (Vec::new(), &8192.into())
    );
    assert_eq!(
        ranges(&diff(&["vol0@a", "vol0"])),
        [&between[..], &[(32 << 20, BLOCK)]].concat()
    );
    assert_eq!(
        ranges(&diff(&["vol0@a", "--offset", "32769", "--length", "5"])),
        [(32_769, 5)]
    );
    assert_eq!(ranges(&diff(&["vol0@a", "--offset", "99999999999"])), []);
    // There is but one LUN.
    let said = ask(&dir, &["snapshot", "diff", "vol0@a", "vol0@b"]);
    let expected = "              OFFSET        LENGTH\n\
        \x20              32768       8.0 KiB\n\
        \x20             262144       4.0 KiB\n\
        12.0 KiB of 64.0 MiB differ in 2 ranges, vol0/lun0 from vol0@a to vol0@b\n";
    assert_eq!(said, expected);
    let said = ask(&dir, &["snapshot", "diff", "vol0@b", "--no-header"]);
    let expected = "            33554432       4.0 KiB\n4.0 KiB of 64.0 MiB differ in 1 range, \
        vol0/lun0 from vol0@b to what is active now\n";
    assert_eq!(said, expected);
    // An answer has a bound, and the next goes on there.
    let path = "/v1/volumes/vol0/snapshots/a/changes?lun=lun0&until=b&max_records=1";
    let page = http::unix(&dir, "GET", path, "", "").json();
    assert_eq!(ranges(&page), between[..1]);
    assert_eq!(page["next_offset"], 64 * BLOCK);
    drop(client);
    server.stop();
}

#[test]
fn more_ranges_than_an_answer_has_are_all_there() {
    let dir = TestDir::new();
    let server = serve(&dir);
    ask(&dir, &["snapshot", "create", "vol0@a"]);
    let (mut client, _) = Client::open(&server.tcp, "vol0/lun0").expect("a client");
    // Blocks in pairs with one between: three answers of 3 ranges each hold them all.
    for at in 0..7 {
        client.write(at * 3 * BLOCK, &[1; 8192]).expect("written");
    }
    let path = "/v1/volumes/vol0/snapshots/a/changes?lun=lun0&max_records=3";
    let (mut found, mut offset) = (Vec::new(), 0);
    loop {
        let path = format!("{path}&offset={offset}");
        let page = http::unix(&dir, "GET", &path, "", "").json();
        found.extend(ranges(&page));
        match page["next_offset"].as_u64() {
            None => break,
            Some(next) => offset = next,
        }
    }
    let expected: Vec<_> = (0..7).map(|at| (at * 3 * BLOCK, 8192)).collect();
    assert_eq!(found, expected);
    drop(client);
    server.stop();
}

#[test]
fn a_bad_comparison_is_refused_and_says_what_is_wrong() {
    let dir = TestDir::new();
    let server = serve(&dir);
    ask(&dir, &["snapshot", "create", "vol0@a"]);
    ask(&dir, &["lun", "create", "vol0/new", "--size", "1MiB"]);
    ask(&dir, &["snapshot", "create", "vol0@b"]);
    ask(&dir, &["volume", "create", "empty"]);
    ask(&dir, &["snapshot", "create", "empty@s"]);
    let diff = ["snapshot", "diff"];
    for (args, exit, parts) in [
        (
            &["vol0@x", "--lun", "lun0"][..],
            4,
            &["vol0@x", "EVG-2001"][..],
        ),
        (
            &["vol0@a", "vol0@x", "--lun", "lun0"],
            4,
            &["vol0@x", "EVG-2001"],
        ),
        (&["vol0@a", "--lun", "nix"], 4, &["vol0/nix", "EVG-2001"]),
        (
            &["vol0@a", "--lun", "new"],
            4,
            &["vol0/new is not in snapshot vol0@a", "EVG-2001"],
        ),
        (
            &["vol0@a", "w@b", "--lun", "lun0"],
            2,
            &["different volumes"],
        ),
        (&["vol0@b"], 2, &["the LUNs lun0, new", "--lun"]),
        (&["empty@s"], 2, &["empty@s has no LUN"]),
        (&["vol0@x"], 4, &["vol0@x", "EVG-2001"]),
        (&["vol0", "--lun", "lun0"], 2, &["VOLUME@SNAPSHOT"]),
    ] {
        refused(&dir, &[&diff[..], args].concat(), exit, parts);
    }
    for (query, part) in [
        ("", "lun"),
        ("?lun=lun0&lun=lun0", "twice"),
        ("?lun=lun0&offset=x", "offset"),
        ("?lun=lun0&who=me", "unknown parameter"),
    ] {
        let path = format!("/v1/volumes/vol0/snapshots/a/changes{query}");
        let answer = http::unix(&dir, "GET", &path, "", "");
        assert!((400..500).contains(&answer.status), "{query}: {answer:?}");
        assert!(answer.body.contains(part), "{answer:?}");
    }
    server.stop();
}

/// What a backup tool does: copies what changed onto a copy of the older image.
const BACKUP: &str = r#"
import nbd
def open_with(context, export):
    h = nbd.NBD()
    h.add_meta_context(context)
    h.connect_uri(uri + export)
    assert h.can_meta_context(context), context
    return h
name = "everglade:changed:monday"
h = open_with(name, "vol0/lun0@tuesday")
copied = 0
with open(image, "r+b") as copy:
    at, size = 0, h.get_size()
    while at < size:
        extents = []
        def take(context, _, entries, __):
            if context == name:
                extents.extend(entries)
            return 0
        h.block_status(size - at, at, take)
        assert extents
        for length, flags in zip(extents[::2], extents[1::2]):
            assert flags in (0, 1), flags
            if flags & 1:
                copy.seek(at)
                copy.write(h.pread(length, at))
                copied += length
            at += length
h.shutdown()
print("copied", copied)
"#;

#[test]
fn a_backup_tool_copies_only_what_changed() {
    let python = "/usr/bin/python3";
    if !have(&["nbdinfo", "nbdcopy", "qemu-img"]) {
        return;
    }
    if !run(python, &["-c", "import nbd"]).status.success() {
        return skip("not installed: python3-libnbd");
    }
    let dir = TestDir::new();
    let server = serve(&dir);
    let (mut client, _) = Client::open(&server.tcp, "vol0/lun0").expect("a client");
    client.write(1 << 20, &[1; 1 << 20]).expect("written");
    ask(&dir, &["snapshot", "create", "vol0@monday"]);
    client.write((1 << 20) + 8192, &[2; 4096]).expect("written");
    client.trim((1 << 20) + 16_384, 8192).expect("trimmed");
    client.write(40 << 20, &[3; 65_536]).expect("written");
    ask(&dir, &["snapshot", "create", "vol0@tuesday"]);
    client.write(0, &[4; 65_536]).expect("written");
    let image = dir.file("backup");
    let image = image.to_str().expect("UTF-8");
    must("nbdcopy", &[&server.uri("vol0/lun0@monday"), image]);
    let script = dir.file("backup.py");
    let base = server.uri("");
    std::fs::write(
        &script,
        format!("uri = {base:?}\nimage = {image:?}\n{BACKUP}"),
    )
    .expect("write");
    let said = must(python, &[script.to_str().expect("UTF-8")]);
    assert_eq!(said, format!("copied {}\n", 4096 + 8192 + 65_536));
    let tuesday = server.uri("vol0/lun0@tuesday");
    must(
        "qemu-img",
        &["compare", "-f", "raw", "-F", "raw", image, &tuesday],
    );
    // Other tools see the same.
    let map = must("nbdinfo", &["--map=everglade:changed:monday", &tuesday]);
    assert_eq!(
        map.lines()
            .filter(|line| line.split_whitespace().nth(2) == Some("1"))
            .count(),
        3,
        "{map}"
    );
    let listed = must("nbdinfo", &[&server.uri("vol0/lun0")]);
    for name in ["everglade:changed:monday", "everglade:changed:tuesday"] {
        assert!(listed.contains(name), "{listed}");
    }
    let (host, port) = server.tcp.rsplit_once(':').expect("an address");
    let options = format!(
        "driver=nbd,host={host},port={port},export=vol0/lun0@tuesday,\
         x-dirty-bitmap=everglade:changed:monday"
    );
    let map = must(
        "qemu-img",
        &["map", "--output=json", "--image-opts", &options],
    );
    // QEMU shows what is dirty as what has no data.
    let dirty = map.lines().filter(|line| line.contains("\"data\": false"));
    assert_eq!(dirty.count(), 3, "{map}");
    drop(client);
    server.stop();
}

#[test]
fn what_a_backup_compares_with_is_not_deleted_under_it() {
    if !have(&["nbdsh"])
        || !run("/usr/bin/python3", &["-c", "import nbd"])
            .status
            .success()
    {
        return skip("not installed: python3-libnbd");
    }
    let dir = TestDir::new();
    let server = serve(&dir);
    ask(&dir, &["snapshot", "create", "vol0@s"]);
    let script = dir.file("delete.py");
    let binary = env!("CARGO_BIN_EXE_everglade");
    let text = format!(
        r#"
import nbd, os, subprocess
h = nbd.NBD()
h.add_meta_context("everglade:changed:s")
h.connect_uri({:?})
delete = [{binary:?}, "snapshot", "delete", "vol0@s", "--yes"]
environment = dict(os.environ, EVERGLADE_DATA_DIR={:?}, EVERGLADE_CONFIG="/dev/null")
done = subprocess.run(delete, capture_output=True, text=True, env=environment)
assert done.returncode == 5 and "exported" in done.stderr, done
h.shutdown()
print("done")
"#,
        server.uri("vol0/lun0"),
        dir.data_dir(),
    );
    std::fs::write(&script, text).expect("write");
    let said = must("/usr/bin/python3", &[script.to_str().expect("UTF-8")]);
    assert_eq!(said, "done\n");
    server.stop();
}
