//! A daemon with few descriptors.
//!
//! With 64 of them and 100 connections, a core ran in circles in `accept`, REST did not answer, and
//! writes got ENOSPC with gigabytes free as soon as a segment file had to be opened.

use std::fs;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::http;
use super::metrics::value;
use crate::clients::LUN;
use crate::running::{Server, TestDir, code, stderr};
use crate::thrift::cpu_time;
use crate::tools::{have, must};
use crate::wire::Client;

const MIB: u64 = 1 << 20;
const SMALL: [&str; 4] = ["--aggregate-size", "8GiB", "--lun-size", "4GiB"];

/// Starts a server with these limits of open files, soft and hard.
fn serve(dir: &TestDir, soft: u64, hard: u64) -> Result<Server, String> {
    let limit = format!("--nofile={soft}:{hard}");
    let started = dir.try_serve_through(&["prlimit", &limit], &SMALL);
    started.map_err(|output| {
        assert_eq!(code(&output), 1);
        stderr(&output)
    })
}

fn descriptors_of(server: &Server) -> u64 {
    let list = fs::read_dir(format!("/proc/{}/fd", server.pid())).expect("a process");
    list.count() as u64
}

/// Waits until the log says it.
#[track_caller]
fn until_logged(server: &Server, text: &str) {
    let give_up = Instant::now() + Duration::from_secs(20);
    while !server.log().contains(text) {
        assert!(Instant::now() < give_up, "not logged: {text}");
        std::thread::yield_now();
    }
}

#[test]
fn connections_beyond_the_descriptors_wait_and_harm_nobody() {
    if !have(&["prlimit"]) {
        return;
    }
    for limit in [64, 128] {
        let dir = TestDir::new();
        let server = serve(&dir, limit, limit).expect("enough to serve");
        until_logged(&server, "connections_max is lowered from 1024 to ");
        let (mut client, _) = Client::open(&server.tcp, LUN).expect("a client");
        let crowd: Vec<TcpStream> = (0..150)
            .map(|_| TcpStream::connect(&server.tcp).expect("the kernel takes it"))
            .collect();
        until_logged(
            &server,
            "as many as the limit of open files allows; others wait",
        );
        let before = cpu_time(&server);
        std::thread::sleep(Duration::from_secs(1));
        let used = cpu_time(&server) - before;
        assert!(
            used < Duration::from_millis(200),
            "{limit}: {used:?} in a second of waiting"
        );
        let asked = Instant::now();
        let answer = http::unix(&dir, "GET", "/v1/status", "", "");
        assert_eq!(answer.json()["health"], "healthy");
        assert!(
            asked.elapsed() < Duration::from_secs(2),
            "{:?}",
            asked.elapsed()
        );
        for mib in 0..64 {
            client
                .write(mib * 61 * MIB, &vec![7; 1 << 20])
                .expect("written");
        }
        client.flush().expect("durable");
        assert!(descriptors_of(&server) <= limit);

        let page = http::tcp(&server.metrics, "GET", "/metrics", "").body;
        let shown = |owner: &str, kind: &str| {
            let sample = format!("everglade_descriptors{{owner=\"{owner}\",kind=\"{kind}\"}}");
            value(&page, &sample)
        };
        let sum: f64 = ["process", "devices", "administration", "connections"]
            .iter()
            .map(|owner| {
                assert!(shown(owner, "used") <= shown(owner, "share"), "{owner}");
                shown(owner, "share")
            })
            .sum();
        assert!(value(&page, "everglade_descriptors_limit") >= sum, "{sum}");
        assert!(
            value(
                &page,
                "everglade_descriptor_waits_total{owner=\"connections\"}"
            ) >= 1.0
        );

        drop(crowd);
        let (mut late, _) = Client::open(&server.tcp, LUN).expect("there is room again");
        assert_eq!(late.read(61 * MIB, 4096).expect("read"), [7; 4096]);
        server.stop();
    }
}

#[test]
fn a_daemon_whose_limit_is_lowered_goes_on_writing() {
    if !have(&["prlimit"]) {
        return;
    }
    let dir = TestDir::new();
    let server = dir.serve(&SMALL);
    let (mut client, _) = Client::open(&server.tcp, LUN).expect("a client");
    client.write(0, &[1; 4096]).expect("written");
    let pid = server.pid().to_string();
    let lower = |soft: u64| must("prlimit", &["--pid", &pid, &format!("--nofile={soft}:")]);
    // Not one more than there are: segment files that are needed make room for each other.
    lower(descriptors_of(&server));
    for mib in 0..1280 {
        let block = [u8::try_from(mib % 251).expect("small"); 1 << 20];
        assert_eq!(client.write(mib * MIB, &block), Ok(()), "MiB {mib}");
    }
    assert_eq!(client.flush(), Ok(()));
    // Clients that come meanwhile wait, and cost nothing.
    let waiting: Vec<TcpStream> = (0..32)
        .map(|_| TcpStream::connect(&server.tcp).expect("the kernel takes it"))
        .collect();
    until_logged(&server, "no connection can be accepted for now");
    let before = cpu_time(&server);
    std::thread::sleep(Duration::from_secs(1));
    assert!(cpu_time(&server) - before < Duration::from_millis(200));
    lower(1024);
    let (mut other, _) = Client::open(&server.tcp, LUN).expect("accepted again");
    for mib in [0, 1, 700, 1279] {
        let expected = [u8::try_from(mib % 251).expect("small"); 4096];
        assert_eq!(other.read(mib * MIB, 4096).expect("read"), expected);
    }
    drop(waiting);
    let page = http::tcp(&server.metrics, "GET", "/metrics", "").body;
    for kind in ["no_space", "io", "gone"] {
        let lines = page
            .lines()
            .filter(|line| line.starts_with("everglade_device_errors_total"));
        let named = format!("kind=\"{kind}\"");
        lines
            .filter(|line| line.contains(&named))
            .for_each(|line| assert!(line.ends_with(" 0"), "{line}"));
    }
    server.stop();
}

#[test]
fn too_few_descriptors_refuse_the_start_and_the_message_says_how_many() {
    if !have(&["prlimit"]) {
        return;
    }
    let dir = TestDir::new();
    let refused = |limit| serve(&dir, limit, limit).err().expect("a refusal");
    let said = refused(32);
    let needed = said
        .split_once("needs at least ")
        .and_then(|(_, rest)| rest.split(';').next()?.parse().ok());
    let needed: u64 = needed.unwrap_or_else(|| panic!("a number in: {said}"));
    assert!(said.contains("LimitNOFILE="), "{said}");
    assert!(!dir.data_dir().exists(), "nothing was touched");
    assert!(refused(needed - 1).contains(&format!("at least {needed}")));
    let server = serve(&dir, needed, needed).expect("enough");
    let answer = http::unix(&dir, "GET", "/v1/status", "", "");
    assert_eq!(answer.json()["health"], "healthy");
    let (mut client, _) = Client::open(&server.tcp, LUN).expect("a client");
    for mib in 0..32 {
        client
            .write(mib * 127 * MIB, &vec![7; 1 << 20])
            .expect("written");
    }
    client.flush().expect("durable");
    server.stop();
    // What was created does not need more.
    serve(&dir, needed, needed).expect("enough again").stop();
}

#[test]
fn the_soft_limit_is_raised_to_the_hard_one() {
    if !have(&["prlimit"]) {
        return;
    }
    let dir = TestDir::new();
    let server = serve(&dir, 32, 4096).expect("4,096 are enough");
    let page = http::tcp(&server.metrics, "GET", "/metrics", "").body;
    assert!((value(&page, "everglade_descriptors_limit") - 4096.0).abs() < 0.5);
    assert!(!server.log().contains("lowered"), "{}", server.log());
    server.stop();
}
