//! History, events and jobs.

use std::io::{BufRead, BufReader, Write};

use serde_json::Value;

use super::http;
use crate::manage::{ask, ask_json, copy_in, noise, serve};
use crate::running::TestDir;
use crate::tools::have;

fn texts(list: &Value, field: &str) -> Vec<String> {
    let list = list.as_array().expect("a list").iter();
    list.map(|item| item[field].as_str().unwrap_or("").to_owned())
        .collect()
}

#[test]
fn every_change_is_remembered_with_who_and_when_also_after_a_crash() {
    let dir = TestDir::new();
    let server = serve(&dir);
    ask(&dir, &["volume", "create", "v"]);
    ask(&dir, &["lun", "create", "v/l", "--size", "1G"]);
    dir.run(&["volume", "create", "v"]);
    server.kill();
    let server = serve(&dir);
    ask(&dir, &["volume", "delete", "v", "--yes"]);
    let history = ask_json(&dir, &["history"]);
    assert_eq!(
        texts(&history["changes"], "what"),
        [
            "aggregate create",
            "volume create",
            "lun create",
            "volume delete"
        ],
        "what was refused is not a change"
    );
    let who = texts(&history["changes"], "who");
    assert_eq!(who[0], "first start");
    assert!(
        who[1..].iter().all(|who| who.starts_with("uid ")),
        "{who:?}"
    );
    assert!(texts(&history["changes"], "time")[0].ends_with('Z'));
    let shown = ask(
        &dir,
        &[
            "history",
            "--where",
            "what=lun create",
            "--columns",
            "object,detail",
            "--no-header",
        ],
    );
    assert_eq!(shown, "v/l  1.0 GiB\n");
    server.stop();
}

#[test]
fn a_deletion_is_a_job_that_ends_when_the_space_is_back() {
    if !have(&["nbdcopy"]) {
        return;
    }
    let dir = TestDir::new();
    let server = serve(&dir);
    ask(&dir, &["lun", "create", "vol0/l", "--size", "64M"]);
    let image = noise(&dir, "noise", 48 << 20);
    copy_in(&server, &image, "vol0/l");
    let deleted = ask_json(
        &dir,
        &["lun", "delete", "vol0/l", "--yes", "--purge", "--wait"],
    );
    assert_eq!(deleted["state"], "done", "{deleted}");
    assert_eq!(deleted["percent"], 100);
    let shown = ask_json(&dir, &["job", "show"]);
    assert_eq!(shown["jobs"][0]["object"], "vol0/l");
    let pending = ask_json(&dir, &["df"]);
    assert_eq!(pending["aggregates"][0]["pending_free_bytes"], 0);
    let id = deleted["id"].to_string();
    ask(&dir, &["job", "wait", &id]);
    crate::manage::refused(&dir, &["job", "cancel", &id], 5, &["has ended", "EVG-2008"]);
    let events = ask_json(&dir, &["event", "show", "--where", "kind=job"]);
    let texts = texts(&events["events"], "text");
    assert!(
        texts.iter().any(|text| text.contains("is done")),
        "{texts:?}"
    );
    server.stop();
}

#[test]
fn whoever_listens_hears_what_happens_until_the_daemon_stops() {
    let dir = TestDir::new();
    let server = serve(&dir);
    let mut stream = http::open(&dir);
    let request = "GET /v1/events HTTP/1.1\r\nHost: e\r\nAccept: text/event-stream\r\n\r\n";
    stream.write_all(request.as_bytes()).expect("sent");
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    assert!(lines.next().expect("a status").contains("200"));
    assert!(lines.any(|line| line == ": listening"));
    ask(&dir, &["volume", "create", "v"]);
    let heard = lines
        .find(|line| line.starts_with("data: "))
        .expect("an event");
    let event: Value = serde_json::from_str(&heard["data: ".len()..]).expect("JSON");
    assert_eq!(
        (&event["kind"], &event["object"]),
        (&"change".into(), &"v".into())
    );
    assert!(
        event["text"]
            .as_str()
            .expect("a text")
            .starts_with("volume create by uid")
    );
    server.stop();
    // It ends, or this test never would.
    let _ = lines.count();
}

#[test]
fn listeners_are_few_and_do_not_keep_others_out() {
    let dir = TestDir::new();
    let server = serve(&dir);
    let request = "GET /v1/events HTTP/1.1\r\nHost: e\r\nAccept: text/event-stream\r\n\r\n";
    let mut listeners = Vec::new();
    for _ in 0..16 {
        let mut stream = http::open(&dir);
        stream.write_all(request.as_bytes()).expect("sent");
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).expect("a status");
        assert!(line.contains("200"), "{line}");
        listeners.push(reader);
    }
    let answer = http::unix(
        &dir,
        "GET",
        "/v1/events",
        "Accept: text/event-stream\r\n",
        "",
    );
    assert_eq!(answer.json()["code"], "EVG-3003");
    let asked = http::unix(
        &dir,
        "GET",
        "/v1/events?kind=change",
        "Accept: text/event-stream\r\n",
        "",
    );
    assert_eq!(asked.json()["code"], "EVG-1002");
    ask(&dir, &["status"]);
    drop(listeners);
    server.stop();
}
