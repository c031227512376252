//! Volumes are changed in place, while clients use them.

use super::{ask, ask_json, refused, serve};
use crate::running::TestDir;
use crate::tools::{have, must};

#[test]
fn a_volume_is_changed_while_a_client_has_a_lun_open() {
    if !have(&["qemu-io"]) {
        return;
    }
    let dir = TestDir::new();
    let server = serve(&dir);
    let uri = server.uri("vol0/lun0");
    must("qemu-io", &["-f", "raw", "-c", "write -P 1 0 64k", &uri]);
    let before = ask_json(&dir, &["volume", "show", "vol0"]);
    assert_eq!(before["sync"], "standard");
    ask(&dir, &["volume", "modify", "vol0", "--sync", "always"]);
    // A write that nobody flushes is there after the daemon was killed.
    let write = "from nbd import *; h = NBD(); h.connect_uri('URI'); h.pwrite(b'\\x02' * 4096, 0); \
                 import os; os._exit(0)";
    if have(&["nbdsh"]) {
        must("nbdsh", &["-c", &write.replace("URI", &uri)]);
        server.kill();
        let server = serve(&dir);
        let uri = server.uri("vol0/lun0");
        must("qemu-io", &["-f", "raw", "-c", "read -P 2 0 4k", &uri]);
        server.stop();
    } else {
        server.stop();
    }
    let _server = serve(&dir);
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
}
