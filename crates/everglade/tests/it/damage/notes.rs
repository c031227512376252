//! Damaged notes, where an aggregate keeps the policies of its volumes (decision 0017): data is
//! served, `status` says what is wrong, and giving the volumes their policies again is all that is
//! to be done.

use std::process::Output;

use everglade_format::Block;
use everglade_format::indirect::{BlockKind, Header};
use everglade_format::metafile::NOTES;

use super::{BLOCK, BLOCK_U32, Medium, noise, open, serve};
use crate::running::{TestDir, code, stderr, stdout};

/// A data directory whose volume has a policy, and a LUN with some noise in it.
fn with_policy() -> TestDir {
    let dir = TestDir::new();
    let server = serve(&dir);
    let mut client = open(&server);
    client.write(BLOCK as u64, &noise(1)).expect("written");
    client.flush().expect("flushed");
    drop(client);
    must(&dir, &["policy", "create", "office", "--hourly", "3"]);
    must(&dir, &["policy", "set", "vol0", "office"]);
    server.stop();
    dir
}

#[track_caller]
fn must(dir: &TestDir, args: &[&str]) -> String {
    let output = dir.run(args);
    assert_eq!(code(&output), 0, "{args:?}: {}", stderr(&output));
    stdout(&output)
}

/// Blocks of the notes, of all consistency points.
fn blocks(medium: &Medium) -> Vec<u64> {
    let found = medium.find(|bytes| {
        let block: &Block = bytes.try_into().expect("a block");
        Header::decode(block).is_ok_and(|it| (it.kind, it.file) == (BlockKind::Notes, NOTES))
    });
    assert!(!found.is_empty(), "there is such a block");
    found
}

/// The LUN is served, and `status` says of the policies what it says.
#[track_caller]
fn expect(dir: &TestDir, policy: &[&str], parts: &[&str]) -> Output {
    let mut server = serve(dir);
    let mut client = open(&server);
    assert_eq!(client.read(BLOCK as u64, BLOCK_U32), Ok(noise(1)));
    let status = dir.run(&["status"]);
    assert_eq!(
        code(&status),
        8,
        "a block cannot be read: {}",
        stderr(&status)
    );
    let status = stdout(&status);
    for part in parts {
        assert!(status.contains(part), "'{part}' is not in: {status}");
    }
    let said = dir.run(policy);
    client.write(0, &noise(2)).expect("written");
    client.flush().expect("flushed");
    assert!(server.is_running());
    drop(client);
    server.stop();
    said
}

const AGAIN: [&str; 4] = ["policy", "set", "vol0", "default"];
const LOST: [&str; 4] = [
    "health: unhealthy",
    "EVG-4006",
    "snapshot policies cannot be read",
    "policy set",
];

#[test]
fn damaged_policies_cost_no_data_and_are_given_again() {
    let dir = with_policy();
    let medium = Medium::of(&dir);
    blocks(&medium).iter().for_each(|at| medium.flip(*at));
    assert_eq!(code(&dir.run(&["check"])), 1, "and it names the block");
    let said = expect(&dir, &AGAIN, &LOST);
    assert_eq!(code(&said), 0, "{}", stderr(&said));
    crate::clients::assert_clean(&dir);
    let server = serve(&dir);
    let shown = must(&dir, &["volume", "show", "vol0", "--json"]);
    assert!(
        shown.contains("\"snapshot_policy\": \"default\""),
        "{shown}"
    );
    assert!(!must(&dir, &["status"]).contains("EVG-4006"));
    server.stop();
}

#[test]
fn policies_of_an_earlier_consistency_point_are_not_taken_for_the_last() {
    let dir = with_policy();
    let medium = Medium::of(&dir);
    let newest = |medium: &Medium| {
        let stamp = |at: &u64| {
            let bytes = medium.read(*at, BLOCK);
            let header = Header::decode(bytes.as_slice().try_into().expect("a block"));
            header.expect("it was found by it").cp
        };
        let found = blocks(medium).into_iter().max_by_key(stamp);
        found.expect("there is one")
    };
    let old = medium.read(newest(&medium), BLOCK);
    let server = serve(&dir);
    must(&dir, &["policy", "set", "vol0", "none"]);
    server.stop();
    medium.write(newest(&medium), &old);
    let said = expect(&dir, &AGAIN, &LOST);
    assert_eq!(code(&said), 0, "{}", stderr(&said));
    crate::clients::assert_clean(&dir);
}
