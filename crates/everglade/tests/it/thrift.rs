//! Memory below its cap under load, and no work when there is none.

use std::fs;
use std::time::Duration;

use crate::clients::LUN;
use crate::operate::http;
use crate::running::{Server, TestDir};
use crate::tools::{have, must};
use crate::wire::Client;

const MIB: u64 = 1 << 20;

/// A number of KiB from `/proc/PID/status`, as bytes.
pub(crate) fn status_bytes(server: &Server, field: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{}/status", server.pid())).expect("a process");
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    let kib = line.and_then(|rest| rest.trim_start_matches(':').trim().strip_suffix(" kB"));
    kib.and_then(|kib| kib.trim().parse::<u64>().ok())
        .unwrap_or_else(|| panic!("no {field}"))
        * 1024
}

/// CPU time of the process so far, user and system, all threads.
pub(crate) fn cpu_time(server: &Server) -> Duration {
    let text = fs::read_to_string(format!("/proc/{}/stat", server.pid())).expect("a process");
    // The name in brackets may hold anything; what follows it is numbered from 3 on.
    let (_, fields) = text.rsplit_once(") ").expect("a name in brackets");
    let fields: Vec<_> = fields.split(' ').collect();
    let ticks = [fields[14 - 3], fields[15 - 3]].map(|text| text.parse::<u64>().expect("ticks"));
    let per_second = rustix::param::clock_ticks_per_second();
    Duration::from_millis((ticks[0] + ticks[1]) * 1000 / per_second)
}

#[test]
fn memory_stays_below_its_cap_under_random_load() {
    if !have(&["fio"]) {
        return;
    }
    let dir = TestDir::new();
    let args = [
        "--memory",
        "256MiB",
        "--lun-size",
        "4GiB",
        "--aggregate-size",
        "16GiB",
    ];
    let server = dir.serve(&args);
    let uri = format!("--uri={}", server.uri(LUN));
    let common = [
        "--name=load",
        "--ioengine=nbd",
        &uri,
        "--size=4G",
        "--group_reporting",
    ];
    let timed = ["--time_based", "--runtime=7", "--iodepth=64"];
    for load in [
        ["--rw=write", "--bs=1M"],
        ["--rw=randrw", "--bs=4k"],
        ["--rw=randrw", "--bs=128k"],
    ] {
        must("fio", &[&common[..], &timed, &load].concat());
    }
    let most = status_bytes(&server, "VmHWM");
    assert!(most < (256 + 64) * MIB, "{} MiB at most", most / MIB);
    server.stop();
}

#[test]
fn hundreds_of_volumes_with_snapshots_fit_into_the_least_memory() {
    const VOLUMES: usize = 300;
    let dir = TestDir::new();
    let args = ["--memory", "256MiB", "--aggregate-size", "8GiB"];
    let server = dir.serve(&[&args[..], &["--lun-size", "64MiB"]].concat());
    let create = |path: &str, body: &str| {
        let answer = http::unix(&dir, "POST", path, "", body);
        assert_eq!(answer.status, 201, "{path} {body}: {answer:?}");
    };
    std::thread::scope(|scope| {
        for first in 0..8 {
            let create = &create;
            scope.spawn(move || {
                for volume in (first..VOLUMES).step_by(8) {
                    let name = format!(r#"{{"name": "v{volume}"}}"#);
                    create("/v1/volumes", &name);
                    let path = format!("/v1/volumes/v{volume}");
                    let lun = r#"{"name": "l", "size_bytes": 1048576}"#;
                    create(&format!("{path}/luns"), lun);
                    for snapshot in 0..10 {
                        let name = format!(r#"{{"name": "s{snapshot}"}}"#);
                        create(&format!("{path}/snapshots"), &name);
                    }
                }
            });
        }
    });
    for volume in (0..VOLUMES).step_by(37) {
        let export = format!("v{volume}/l");
        let (mut client, _) = Client::open(&server.tcp, &export).expect("opened");
        client.write(0, &[5; 4096]).expect("written");
        client.flush().expect("flushed");
    }
    let fits = |server: &Server, when: &str| {
        let most = status_bytes(server, "VmHWM");
        println!("{when}: {} MiB at most", most / MIB);
        assert!(most < (256 + 64) * MIB, "{when}: {} MiB", most / MIB);
    };
    fits(&server, "made");
    server.stop();
    let server = dir.serve(&["--memory", "256MiB"]);
    fits(&server, "mounted");
    for volume in (0..VOLUMES).step_by(37) {
        let read = |export: &str| {
            let (mut client, _) = Client::open(&server.tcp, export).expect("opened");
            client.read(0, 4096)
        };
        assert_eq!(read(&format!("v{volume}/l")), Ok(vec![5; 4096]));
        assert_eq!(read(&format!("v{volume}/l@s9")), Ok(vec![0; 4096]));
    }
    server.stop();
}

#[test]
fn an_idle_server_with_an_idle_client_uses_no_cpu() {
    let dir = TestDir::new();
    let server = dir.serve(&["--lun-size", "64MiB", "--aggregate-size", "2GiB"]);
    let (mut client, _) = Client::open(&server.tcp, LUN).expect("opened");
    client.write(0, &[7; 4096]).expect("written");
    client.flush().expect("flushed");
    // What the write has set in motion ends first.
    std::thread::sleep(Duration::from_secs(1));
    let before = cpu_time(&server);
    let period = Duration::from_secs(3);
    std::thread::sleep(period);
    let used = cpu_time(&server) - before;
    assert!(
        used < period / 100 + Duration::from_millis(10),
        "{used:?} in {period:?}"
    );
    assert_eq!(
        client.read(0, 4096),
        Ok(vec![7; 4096]),
        "and is there at once"
    );
    drop(client);
    server.stop();
}
