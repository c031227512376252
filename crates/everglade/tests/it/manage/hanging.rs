//! A drive of a mirror hangs: clients wait for it once, and then it is left out.

use std::time::{Duration, Instant};

use everglade_torture::rig::Power;

use super::devices::sparse;
use super::{GIB, TestDir, ask, ask_json};
use crate::tools::skip;
use crate::waiting::event;
use crate::wire::Client;

#[test]
fn a_drive_that_hangs_is_left_out_and_clients_go_on() {
    if let Some(reason) = Power::impossible() {
        skip(&reason);
        return;
    }
    let dir = TestDir::new();
    let folder = dir.file("power");
    std::fs::create_dir(&folder).expect("a folder");
    let mut power = Power::new(&folder, GIB).expect("a device");
    power.on().expect("power");
    let one = sparse(&dir, "one", GIB).display().to_string();
    let devices = format!("{one},{}", power.device().display());
    let server = dir.serve(&[
        "--devices",
        &devices,
        "--raid",
        "mirror",
        "--lun-size",
        "64MiB",
        "--drive-timeout",
        "2s",
    ]);
    let (mut client, _) = Client::open(&server.tcp, "vol0/lun0").expect("opened");
    client.write(0, &[1; 4096]).expect("written");
    client.flush().expect("flushed");
    power.hang(true);
    let begun = Instant::now();
    for byte in 0..64_u8 {
        let at = u64::from(byte) * 4096;
        client.write(at, &[byte; 4096]).expect("written");
        client.flush().expect("flushed");
    }
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(20), "{took:?}");
    event(&dir, "hangs and is not used any more");
    let shown = ask_json(&dir, &["aggregate", "show", "aggr0"]);
    assert_eq!(shown["devices"][1]["state"], "failed", "{shown}");
    assert_eq!(shown["devices"][1]["faults"]["hung_count"], 1, "{shown}");
    for byte in 0..64_u8 {
        let read = client.read(u64::from(byte) * 4096, 4096).expect("read");
        assert_eq!(read, [byte; 4096]);
    }
    // New work does not wait for it.
    ask(&dir, &["snapshot", "create", "vol0@s"]);
    power.hang(false);
    drop(client);
    server.stop();
    // It is there again, and catches up.
    let server = dir.serve(&[]);
    event(&dir, "has caught up");
    let (mut client, _) = Client::open(&server.tcp, "vol0/lun0").expect("opened");
    assert_eq!(client.read(9 * 4096, 4096).expect("read"), [9; 4096]);
    drop(client);
    server.stop();
    power.unplug().expect("unmounted");
}
