//! Limits of LUNs: what a client gets in a second, and that limits last.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::mirrors::{BLOCK, LUN, open, serve};
use super::{TestDir, ask, ask_json, refused};
use crate::operate::http;
use crate::operate::metrics::value;
use crate::wire::Client;

/// A first start's own LUN is not [`LUN`].
fn make(dir: &TestDir) {
    ask(dir, &["volume", "create", "v"]);
    ask(dir, &["lun", "create", LUN, "--size", "16MiB"]);
}

fn limits(dir: &TestDir) -> Value {
    ask_json(dir, &["qos", "show"])["limits"].clone()
}

/// How long so many reads of a block take, one after another.
fn reads(client: &mut Client, count: u64) -> Duration {
    let length = u32::try_from(BLOCK).expect("a block");
    let since = Instant::now();
    for number in 0..count {
        let offset = number * BLOCK as u64;
        assert_eq!(client.read(offset, length).map(|it| it.len()), Ok(BLOCK));
    }
    since.elapsed()
}

#[test]
fn a_limit_holds_for_all_clients_together_and_lasts() {
    let dir = TestDir::new();
    let server = serve(&dir, &[]);
    make(&dir);
    let mut client = open(&server);
    assert!(reads(&mut client, 200) < Duration::from_secs(1), "no limit");

    let said = ask_json(&dir, &["qos", "set", LUN, "--iops", "100"]);
    assert_eq!(said["name"], LUN, "{said}");
    assert_eq!(said["iops"], 100, "{said}");
    let took = reads(&mut client, 150);
    // What is saved up is a twentieth of a second.
    assert!(took >= Duration::from_millis(1400), "{took:?}");
    assert!(took < Duration::from_millis(3000), "{took:?}");
    // Two clients share it, and other LUNs have nothing to do with it.
    let mut other = open(&server);
    let both = std::thread::scope(|scope| {
        let since = Instant::now();
        let second = scope.spawn(|| reads(&mut other, 50));
        reads(&mut client, 50);
        second.join().expect("it reads");
        since.elapsed()
    });
    assert!(both >= Duration::from_millis(900), "{both:?}");
    ask(&dir, &["lun", "create", "v/free", "--size", "16MiB"]);
    let mut free = Client::open(&server.tcp, "v/free").expect("opened").0;
    assert!(reads(&mut free, 200) < Duration::from_secs(1), "no limit");

    let listed = limits(&dir);
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");
    assert!(listed[0]["held_count"].as_u64() >= Some(200), "{listed}");
    let page = http::tcp(&server.metrics, "GET", "/metrics", "").body;
    let of_it = format!("{{object=\"{LUN}\"}}");
    let held = value(&page, &format!("everglade_qos_held_total{of_it}"));
    assert!(held >= 200.0, "{held}");
    let history = ask(&dir, &["history"]);
    assert!(
        history.contains("at most 100 operations in a second"),
        "{history}"
    );

    // It survives a restart and a rename.
    server.stop();
    let server = serve(&dir, &[]);
    ask(&dir, &["lun", "rename", LUN, "other"]);
    let listed = limits(&dir);
    assert_eq!(listed[0]["name"], "v/other", "{listed}");
    assert_eq!(listed[0]["iops"], 100, "{listed}");
    let mut client = Client::open(&server.tcp, "v/other").expect("opened").0;
    assert!(reads(&mut client, 50) >= Duration::from_millis(400));

    ask(&dir, &["qos", "clear", "v/other"]);
    assert_eq!(limits(&dir), json!([]));
    assert!(reads(&mut client, 200) < Duration::from_secs(1), "no limit");
    drop(client);

    // It goes with its LUN.
    ask(&dir, &["qos", "set", "v/other", "--bandwidth", "1MiB"]);
    ask(&dir, &["lun", "delete", "v/other", "--yes"]);
    assert_eq!(limits(&dir), json!([]));
    server.stop();
    let server = serve(&dir, &[]);
    assert_eq!(limits(&dir), json!([]));
    server.stop();
}

#[test]
fn bytes_are_limited_and_held_writes_are_answered_at_a_stop() {
    let dir = TestDir::new();
    let server = serve(&dir, &[]);
    make(&dir);
    ask(&dir, &["qos", "set", LUN, "--bandwidth", "2MiB"]);
    let mut client = open(&server);
    let since = Instant::now();
    let data = vec![7; 1 << 20];
    for number in 0..4 {
        assert_eq!(client.write(number << 20, &data), Ok(()));
    }
    // Three of them were paid for before the last one began.
    let took = since.elapsed();
    assert!(took >= Duration::from_millis(1400), "{took:?}");

    // A client with many requests that are held does not make a stop last.
    ask(&dir, &["qos", "set", LUN, "--iops", "1"]);
    let mut slow = open(&server);
    let reader = std::thread::spawn(move || {
        let length = u32::try_from(BLOCK).expect("a block");
        // The connection ends while it waits.
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            while slow.read(0, length).is_ok() {}
        }));
        drop(ended);
    });
    std::thread::sleep(Duration::from_millis(300));
    let since = Instant::now();
    server.stop();
    assert!(since.elapsed() < Duration::from_secs(10));
    reader.join().expect("it ends");
}

#[test]
fn what_is_no_limit_is_refused() {
    let dir = TestDir::new();
    let server = serve(&dir, &[]);
    make(&dir);
    let iops = ["qos", "set", LUN, "--iops", "0"];
    refused(&dir, &iops, 2, &["--iops: use a whole number from 1"]);
    let bytes = ["qos", "set", LUN, "--bandwidth", "1KiB"];
    refused(&dir, &bytes, 2, &["--bandwidth: use a size from 4KiB"]);
    refused(&dir, &["qos", "set", LUN], 2, &["--bandwidth"]);
    let unknown = ["qos", "set", "v/n", "--iops", "5"];
    refused(&dir, &unknown, 4, &["there is no LUN v/n"]);
    refused(&dir, &["qos", "clear", "v/n"], 4, &["there is no LUN v/n"]);
    let volume = ["qos", "set", "n", "--iops", "5"];
    refused(&dir, &volume, 4, &["there is no volume n"]);
    let policy = ["qos", "set", LUN, "--policy", "gold"];
    refused(
        &dir,
        &policy,
        4,
        &["there is no policy gold", "qos-policy set gold --iops"],
    );
    let both = ["qos", "set", LUN, "--policy", "gold", "--iops", "5"];
    refused(&dir, &both, 2, &["cannot be used with"]);
    let weight = ["qos", "set", LUN, "--weight", "10001"];
    refused(
        &dir,
        &weight,
        2,
        &["--weight: use a whole number from 1 to 10000"],
    );
    let burst = ["qos", "set", LUN, "--iops", "5", "--burst", "70000"];
    refused(&dir, &burst, 2, &["--burst: use a time from 1 to 60000 ms"]);
    refused(&dir, &["qos-policy", "set", "gold"], 2, &["--iops"]);
    refused(
        &dir,
        &["qos-policy", "delete", "gold"],
        4,
        &["there is no policy gold"],
    );
    assert_eq!(limits(&dir), json!([]));
    server.stop();
}

#[test]
fn the_luns_of_a_volume_share_its_limit_and_policies_change_all_that_follow_them() {
    let dir = TestDir::new();
    let server = serve(&dir, &[]);
    make(&dir);
    ask(&dir, &["lun", "create", "v/second", "--size", "16MiB"]);
    ask(&dir, &["qos-policy", "set", "bronze", "--iops", "100"]);
    let said = ask_json(&dir, &["qos", "set", "v", "--policy", "bronze"]);
    assert_eq!((&said["name"], &said["iops"]), (&json!("v"), &json!(100)));
    let clients = [LUN, "v/second"].map(|lun| Client::open(&server.tcp, lun).expect("opened").0);
    let together = |clients: [Client; 2], count| {
        let since = Instant::now();
        let back = clients.map(|mut client| {
            std::thread::spawn(move || {
                reads(&mut client, count);
                client
            })
        });
        let back = back.map(|thread| thread.join().expect("it reads"));
        (back, since.elapsed())
    };
    let (clients, both) = together(clients, 60);
    assert!(both >= Duration::from_millis(1100), "{both:?}");

    // The policy changes: the volume's limit with it, also after a restart.
    ask(&dir, &["qos-policy", "set", "bronze", "--iops", "100000"]);
    let (clients, both) = together(clients, 100);
    assert!(both < Duration::from_secs(1), "{both:?}");
    drop(clients);
    let used = ["qos-policy", "delete", "bronze"];
    refused(
        &dir,
        &used,
        5,
        &[
            "policy bronze is followed by 1 limit;",
            "qos show --where policy=bronze",
        ],
    );
    let shown = ask_json(&dir, &["qos-policy", "show", "bronze"]);
    assert_eq!(shown["object_count"], 1, "{shown}");
    server.stop();
    let server = serve(&dir, &[]);
    let listed = limits(&dir);
    assert_eq!(listed[0]["policy"], "bronze", "{listed}");
    assert_eq!(listed[0]["iops"], 100_000, "{listed}");
    let filtered = ask(&dir, &["qos", "show", "--where", "policy=bronze"]);
    assert!(filtered.contains("bronze"), "{filtered}");

    // A limit goes with its volume, and a policy that nothing follows can go.
    ask(&dir, &["volume", "delete", "v", "--yes", "--purge"]);
    assert_eq!(limits(&dir), json!([]));
    ask(&dir, &["qos-policy", "delete", "bronze"]);
    let policies = ask_json(&dir, &["qos-policy", "show"]);
    assert_eq!(policies["policies"], json!([]));
    let history = ask(&dir, &["history"]);
    assert!(history.contains("qos-policy set"), "{history}");
    server.stop();
}
