//! Callers of the administration who say nothing, or not the right thing.
//!
//! 150 connections over TCP without a word kept every administrator out for ten seconds, and
//! unknown tokens were neither logged nor slowed down.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::http;
use super::metrics::value;
use super::remote::{LOOKER, serve};
use crate::running::TestDir;

/// The goal is a moment; a machine that builds something else beside needs more.
const SOON: Duration = Duration::from_secs(3);

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

/// Many sockets need many descriptors here, too.
fn raise_limit() {
    let found = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: found.maximum,
        ..found
    };
    setrlimit(Resource::Nofile, raised).expect("up to the hard limit everybody may");
}

#[test]
fn silent_connections_keep_no_administrator_out() {
    raise_limit();
    let dir = TestDir::new();
    let (server, address) = serve(&dir, &[]);
    for count in [150, 1000] {
        let silent = |address: &str| -> Vec<TcpStream> {
            (0..count)
                .map(|_| TcpStream::connect(address).expect("the kernel takes it"))
                .collect()
        };
        let crowds = (silent(&address), silent(&server.metrics));
        let timed = |what: &str, ask: &dyn Fn() -> http::Answer| {
            let begun = Instant::now();
            let answer = ask();
            assert_eq!(answer.status, 200, "{what} beside {count}: {answer:?}");
            assert!(begun.elapsed() < SOON, "{what}: {:?}", begun.elapsed());
        };
        timed("unix", &|| http::unix(&dir, "GET", "/v1/status", "", ""));
        timed("tcp", &|| {
            http::tcp(&address, "GET", "/v1/status", &bearer(LOOKER))
        });
        timed("metrics", &|| {
            http::tcp(&server.metrics, "GET", "/metrics", "")
        });
        drop(crowds);
    }
    server.stop();
}

#[test]
fn unknown_tokens_are_counted_logged_and_slowed_down() {
    let dir = TestDir::new();
    let (server, address) = serve(&dir, &[]);
    let ask = |token: &str| {
        let begun = Instant::now();
        let answer = http::tcp(&address, "GET", "/v1/status", &bearer(token));
        (answer.status, begun.elapsed())
    };
    let wrong = "wrong-0123456789abcdef";
    let answers: Vec<_> = (0..8).map(|_| ask(wrong)).collect();
    assert!(answers.iter().all(|(status, _)| *status == 401));
    let last = answers[7].1;
    assert!(last >= Duration::from_millis(800), "{answers:?}");
    // A right one from there is not told apart by its speed, and is answered.
    let (status, took) = ask(LOOKER);
    assert_eq!(status, 200);
    assert!(took >= Duration::from_millis(800), "{took:?}");
    assert_eq!(http::tcp(&address, "GET", "/v1/status", "").status, 401);
    // Others are not slowed down.
    let begun = Instant::now();
    assert_eq!(http::unix(&dir, "GET", "/v1/status", "", "").status, 200);
    assert!(begun.elapsed() < Duration::from_millis(800));

    let page = http::tcp(&server.metrics, "GET", "/metrics", "").body;
    let count = |reason: &str| {
        let sample = format!("everglade_api_auth_failures_total{{reason=\"{reason}\"}}");
        value(&page, &sample)
    };
    assert!((count("unknown_token") - 8.0).abs() < 0.5);
    assert!((count("no_token") - 1.0).abs() < 0.5);
    let log = server.log();
    let lines: Vec<_> = log
        .lines()
        .filter(|line| line.contains("was refused"))
        .collect();
    assert!(lines[0].contains("from 127.0.0.1"), "{lines:?}");
    assert!(lines.len() <= 3, "not a line for each: {lines:?}");
    assert!(!log.contains(wrong), "what was tried is not logged");
    server.stop();
}
