//! Devices become about equally full after an aggregate has grown (decision 0067).

use super::mirrors::{assert_holds, files, fill, list, make, serve, while_used};
use super::{TestDir, ask, ask_json, assert_clean, refused};

fn garden(dir: &TestDir) -> serde_json::Value {
    ask_json(dir, &["garden", "show", "m"])["rebalance"].clone()
}

#[test]
fn a_mirror_that_was_added_gets_its_share_while_clients_write() {
    let dir = TestDir::new();
    let server = serve(&dir, &[]);
    let drives = files(&dir, 4);
    make(&dir, &drives[..2], &[]);
    fill(&server, 0..64, 1);
    ask(&dir, &["snapshot", "create", "v@s"]);
    let alone = ["on one device or group", "aggregate add"];
    refused(&dir, &["aggregate", "rebalance", "m"], 5, &alone);
    assert_eq!(garden(&dir)["state"], "none");
    let more = list(&drives[2..]);
    ask(&dir, &["aggregate", "add", "m", "--devices", &more]);

    while_used(&server, |_| {
        let said = ask(&dir, &["aggregate", "rebalance", "m", "--wait"]);
        assert!(said.contains("rebalance of aggregate m: done"), "{said}");
        assert!(said.contains("% full when it began"), "{said}");
    });
    let first = garden(&dir);
    assert_eq!(first["state"], "done", "{first}");
    assert_eq!(first["percent"], 100, "{first}");
    let moved = first["moved_bytes"].as_u64().expect("bytes");
    assert!(moved > 8 << 20, "{first}");
    let shown = ask(&dir, &["garden", "show", "m"]);
    assert!(shown.contains("rebalance of aggregate m: done"), "{shown}");
    assert_holds(&server, 48..64, 1);
    let events = ask(&dir, &["history"]);
    assert!(events.contains("aggregate rebalance"), "{events}");

    fill(&server, 0..48, 3);
    server.stop();
    assert_clean(&dir, 2);
    let server = serve(&dir, &[]);
    assert_holds(&server, 0..48, 3);
    assert_eq!(garden(&dir)["state"], "none");
    server.stop();
}
