//! What an answer says about a change: done, not done, or unknown; and requests that are repeated
//! (decision 0030).

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::http::{self, Answer};
use crate::manage::{ask, ask_json, serve};
use crate::running::{TestDir, code, stderr, stdout};
use crate::snapshots::names;

const SNAPSHOTS: &str = "/v1/volumes/vol0/snapshots";
const LUNS: &str = "/v1/volumes/vol0/luns";
/// Objects of each kind that one round changes.
const EACH: usize = 4;

/// A change, and whether the pool shows that it was made.
struct Change {
    method: &'static str,
    path: String,
    body: String,
    is_made: Box<dyn Fn(&Shown) -> bool + Send>,
}

/// What there is after a restart.
struct Shown {
    snapshots: Vec<String>,
    /// Names and sizes.
    luns: Vec<(String, u64)>,
    held: Vec<String>,
}

impl Shown {
    fn of(dir: &TestDir) -> Shown {
        let luns = ask_json(dir, &["lun", "show"]);
        let luns = luns["luns"].as_array().expect("a list").iter();
        let size = |lun: &Value| lun["size_bytes"].as_u64().expect("a size");
        let name = |lun: &Value| lun["name"].as_str().expect("a name").to_owned();
        let snapshots = ask_json(dir, &["snapshot", "show", "vol0"]);
        let held = snapshots["snapshots"].as_array().expect("a list").iter();
        let held = held.filter(|known| known["holds"].as_array().is_some_and(|it| !it.is_empty()));
        Shown {
            snapshots: names(dir, "vol0"),
            held: held.map(name).collect(),
            luns: luns.map(|lun| (name(lun), size(lun))).collect(),
        }
    }

    fn has_lun(&self, name: &str) -> bool {
        self.luns.iter().any(|(known, _)| known == name)
    }
}

/// Makes what a round changes, and the changes: every kind that is one request and one change.
fn prepare(dir: &TestDir, round: usize) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut add =
        |method, path: String, body: String, is_made: Box<dyn Fn(&Shown) -> bool + Send>| {
            changes.push(Change {
                method,
                path,
                body,
                is_made,
            });
        };
    for number in 0..EACH {
        let of = |kind: &str| format!("{kind}{round}-{number}");
        for kind in ["doomed", "kept"] {
            ask(dir, &["snapshot", "create", &format!("vol0@{}", of(kind))]);
        }
        for kind in ["gone", "grown", "named"] {
            let lun = format!("vol0/{}", of(kind));
            ask(dir, &["lun", "create", &lun, "--size", "1M"]);
        }
        let name = of("doomed");
        add(
            "DELETE",
            format!("{SNAPSHOTS}/{name}"),
            String::new(),
            Box::new(move |shown| !shown.snapshots.contains(&name)),
        );
        let name = of("taken");
        add(
            "POST",
            SNAPSHOTS.to_owned(),
            format!("{{\"name\": \"{name}\"}}"),
            Box::new(move |shown| shown.snapshots.contains(&name)),
        );
        let name = of("kept");
        add(
            "POST",
            format!("{SNAPSHOTS}/{name}/actions/hold"),
            "{\"tag\": \"t\"}".to_owned(),
            Box::new(move |shown| shown.held.contains(&name)),
        );
        let name = of("gone");
        add(
            "DELETE",
            format!("{LUNS}/{name}"),
            String::new(),
            Box::new(move |shown| !shown.has_lun(&name)),
        );
        let name = of("grown");
        add(
            "PATCH",
            format!("{LUNS}/{name}"),
            "{\"size_bytes\": 8388608}".to_owned(),
            Box::new(move |shown| shown.luns.contains(&(name.clone(), 8 << 20))),
        );
        let (name, other) = (of("named"), of("renamed"));
        add(
            "POST",
            format!("{LUNS}/{name}/actions/rename"),
            format!("{{\"name\": \"{other}\"}}"),
            Box::new(move |shown| shown.has_lun(&other)),
        );
        let name = of("made");
        add(
            "PUT",
            format!("{LUNS}/{name}"),
            "{\"size_bytes\": 4096}".to_owned(),
            Box::new(move |shown| shown.has_lun(&name)),
        );
    }
    changes
}

/// What an answer says: made, not made, or nothing.
fn says(answer: &Answer) -> Option<bool> {
    match answer.status {
        // The conversation broke.
        0 => None,
        200..300 => Some(true),
        _ => match answer.json()["outcome"].as_str() {
            Some("done") => Some(true),
            Some("not-done") => Some(false),
            Some("unknown") => None,
            // Before there were outcomes, a refusal meant that nothing was changed.
            other => {
                assert_eq!(other, None, "{answer:?}");
                Some(false)
            }
        },
    }
}

/// SIGTERM while changes are under way: the answer of each is what the next start finds. Once,
/// deletions that were made in the last consistency point were answered with 503.
#[test]
fn a_stop_answers_each_change_with_what_became_of_it() {
    let dir = TestDir::new();
    let mut server = serve(&dir);
    let (mut made, mut refused) = (0, 0);
    for round in 0..6 {
        let changes = prepare(&dir, round);
        // All at once; the daemon does sixteen at a time.
        let changes: Vec<_> = changes.into_iter().take(16 + round).collect();
        let socket = dir.data_dir().join("run/api.sock");
        let streams: Vec<_> = changes
            .iter()
            .map(|_| UnixStream::connect(&socket).expect("a connection"))
            .collect();
        let start = Arc::new(Barrier::new(changes.len() + 1));
        let askers: Vec<_> = changes
            .into_iter()
            .zip(streams)
            .map(|(change, stream)| {
                let start = Arc::clone(&start);
                thread::spawn(move || {
                    start.wait();
                    let answer = http::over(stream, change.method, &change.path, "", &change.body);
                    (change, answer)
                })
            })
            .collect();
        start.wait();
        // Some rounds ask for the stop before the changes are there, some after they have begun.
        thread::sleep(Duration::from_micros(700 * round as u64));
        server.ask_to_stop();
        let answers: Vec<_> = askers
            .into_iter()
            .map(|asker| asker.join().expect("it asks"))
            .collect();
        server.stop_asked();
        server = serve(&dir);
        let shown = Shown::of(&dir);
        for (change, answer) in answers {
            let Some(said) = says(&answer) else {
                continue;
            };
            let found = (change.is_made)(&shown);
            assert_eq!(
                said, found,
                "round {round}: {} {}: {answer:?}",
                change.method, change.path
            );
            made += usize::from(found);
            refused += usize::from(!found);
        }
    }
    assert!(
        made > 0 && refused + made > 30,
        "{made} made, {refused} refused"
    );
    server.stop();
}

fn keyed(dir: &TestDir, key: &str, method: &str, path: &str, body: &str) -> Answer {
    http::unix(
        dir,
        method,
        path,
        &format!("Idempotency-Key: {key}\r\n"),
        body,
    )
}

#[test]
fn a_request_that_is_repeated_with_its_key_is_done_once() {
    let dir = TestDir::new();
    let server = serve(&dir);
    let create = "{\"name\": \"s\"}";
    let first = keyed(&dir, "k1", "POST", SNAPSHOTS, create);
    assert_eq!(
        (first.status, first.header("idempotency-replayed")),
        (201, None)
    );
    let again = keyed(&dir, "k1", "POST", SNAPSHOTS, create);
    assert_eq!((again.status, &again.body), (201, &first.body));
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(again.header("location"), first.header("location"));
    // Another request, another caller's business.
    let other = keyed(&dir, "k1", "POST", SNAPSHOTS, "{\"name\": \"t\"}");
    assert_eq!(
        (other.status, &other.json()["code"]),
        (409, &"EVG-2011".into())
    );
    assert_eq!(other.json()["outcome"], "not-done");
    // What was refused may be tried again with the same key.
    let missing = format!("{SNAPSHOTS}/later");
    let refused = keyed(&dir, "k2", "DELETE", &missing, "");
    assert_eq!(
        (refused.status, &refused.json()["outcome"]),
        (404, &"not-done".into())
    );
    ask(&dir, &["snapshot", "create", "vol0@later"]);
    assert_eq!(keyed(&dir, "k2", "DELETE", &missing, "").status, 202);
    ask(&dir, &["snapshot", "create", "vol0@later"]);
    let replayed = keyed(&dir, "k2", "DELETE", &missing, "");
    assert_eq!(replayed.status, 202, "it was done before: {replayed:?}");
    assert_eq!(names(&dir, "vol0"), ["s", "later"]);
    let bad = keyed(&dir, "a b", "DELETE", &missing, "");
    assert_eq!(bad.json()["field"], "Idempotency-Key");
    // A question has no outcome.
    assert!(http::unix(&dir, "GET", &format!("{SNAPSHOTS}/x"), "", "").json()["outcome"].is_null());
    server.stop();
}

#[test]
fn keys_are_known_after_a_restart_and_after_a_crash() {
    let dir = TestDir::new();
    let server = serve(&dir);
    let path = format!("{SNAPSHOTS}/s");
    ask(&dir, &["snapshot", "create", "vol0@s"]);
    assert_eq!(keyed(&dir, "k", "DELETE", &path, "").status, 202);
    ask(&dir, &["snapshot", "create", "vol0@s"]);
    server.stop();
    for crash in [false, true] {
        let server = serve(&dir);
        let again = keyed(&dir, "k", "DELETE", &path, "");
        assert_eq!(again.status, 208, "{again:?}");
        let said = again.json();
        assert_eq!(
            (
                &said["outcome"],
                &said["what"],
                &said["object"],
                &said["schema_version"]
            ),
            (
                &"done".into(),
                &"snapshot delete".into(),
                &"vol0@s".into(),
                &1.into()
            )
        );
        assert_eq!(names(&dir, "vol0"), ["s"], "it is another one, and stays");
        match crash {
            true => server.kill(),
            false => _ = server.stop(),
        }
    }
    let server = serve(&dir);
    let shown = ask_json(&dir, &["history"]);
    assert!(!shown.to_string().contains("\"key\""), "{shown}");
    server.stop();
}

/// Reads one request; its key.
fn key_of(stream: &UnixStream) -> String {
    let mut key = None;
    for line in BufReader::new(stream).lines() {
        let line = line.expect("a line");
        if line.is_empty() {
            break;
        }
        if let Some(found) = line.to_ascii_lowercase().strip_prefix("idempotency-key: ") {
            key = Some(found.to_owned());
        }
    }
    key.expect("every change has a key")
}

#[test]
fn the_command_line_repeats_a_request_whose_answer_was_lost_with_the_same_key() {
    let dir = TestDir::new();
    let socket = dir.file("daemon.sock");
    let listener = UnixListener::bind(&socket).expect("a socket");
    let daemon = thread::spawn(move || {
        let (first, _) = listener.accept().expect("a client");
        let key = key_of(&first);
        drop(first);
        let (mut second, _) = listener.accept().expect("a client");
        assert_eq!(key_of(&second), key);
        let body = "{\"schema_version\": 1, \"outcome\": \"done\", \"time\": \
            \"2026-01-01T00:00:00Z\", \"what\": \"snapshot delete\", \"object\": \"vol0@s\"}";
        let length = body.len();
        let answer =
            format!("HTTP/1.1 208 Already Reported\r\nContent-Length: {length}\r\n\r\n{body}");
        second.write_all(answer.as_bytes()).expect("answered");
        let _ = second.read(&mut [0]);
        // From now on nobody is there.
    });
    let socket = socket.to_str().expect("UTF-8");
    let delete = ["snapshot", "rename", "vol0@s", "t", "--socket", socket];
    let output = dir.run(&delete);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(
        stderr(&output).contains("done: snapshot delete vol0@s"),
        "{}",
        stderr(&output)
    );
    assert!(stdout(&output).is_empty());
    daemon.join().expect("the daemon");
    let output = dir.run(&delete);
    assert_eq!(code(&output), 3, "nothing was sent: {}", stderr(&output));
}

#[test]
fn an_outcome_that_nobody_knows_has_an_exit_code_of_its_own() {
    let dir = TestDir::new();
    let socket = dir.file("daemon.sock");
    let listener = UnixListener::bind(&socket).expect("a socket");
    let daemon = thread::spawn(move || {
        let (first, _) = listener.accept().expect("a client");
        key_of(&first);
    });
    let socket = socket.to_str().expect("UTF-8");
    let output = dir.run(&[
        "lun", "create", "vol0/l", "--size", "1M", "--socket", socket,
    ]);
    let said = stderr(&output);
    assert_eq!(code(&output), 9, "{said}");
    assert!(said.contains("outcome unknown: "), "{said}");
    assert!(said.contains("look before repeating"), "{said}");
    daemon.join().expect("the daemon");
}
