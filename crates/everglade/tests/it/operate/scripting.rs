//! What scripts, and people who have just come, get from the command line: help by words, errors as
//! documents, columns as JSON, and the ids of jobs. Ctrl-C ends a wait, and the job continues.

use std::fs;
use std::io::Read;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::manage::{ask, ask_json, refused, serve};
use crate::running::{TestDir, code, everglade, stderr, stdout};
use crate::wire::Client;

const PATIENCE: Duration = Duration::from_secs(60);
/// The bit of signal 2 in a mask.
const SIGINT: u64 = 1 << 1;

#[test]
fn help_is_found_by_words() {
    let dir = TestDir::new();
    for (words, part) in [
        (&["help"][..], "Start with 'everglade serve'"),
        (&["help", "lun"], "Create a thin LUN"),
        (&["help", "lun", "create"], "--size <SIZE>"),
    ] {
        let said = ask(&dir, words);
        assert!(said.contains(part), "{words:?}: {said}");
    }
    refused(&dir, &["help", "lum"], 2, &["has no \"lum\"", "lun, "]);
    assert!(!dir.data_dir().exists(), "asking touches nothing");
}

/// The document of a failure, from stderr.
#[track_caller]
fn failed(dir: &TestDir, args: &[&str], exit: i32) -> Value {
    let output = dir.run(&[args, &["--json"]].concat());
    let said = stderr(&output);
    assert_eq!(code(&output), exit, "{args:?}: {said}");
    assert!(stdout(&output).is_empty(), "{args:?}");
    assert_eq!(said.lines().count(), 1, "{args:?}: {said}");
    let document: Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(document["schema_version"], 1);
    assert_eq!(document["exit_code"], exit);
    document
}

#[test]
fn with_json_an_error_is_a_problem_document() {
    let dir = TestDir::new();
    assert_eq!(
        failed(&dir, &["status"], 3)["title"],
        "the daemon does not answer"
    );
    assert_eq!(failed(&dir, &["check"], 2)["title"], "cannot read");
    assert_eq!(
        failed(&dir, &["lun", "create", "v"], 2)["title"],
        "wrong usage"
    );
    let server = serve(&dir);
    let found = failed(&dir, &["lun", "show", "vol0/nix"], 4);
    assert_eq!(found["type"], "urn:everglade:problem:EVG-2001");
    assert_eq!(found["code"], "EVG-2001");
    assert_eq!(found["status"], 404);
    assert_eq!(found["detail"], "there is no LUN vol0/nix");
    let found = failed(&dir, &["lun", "create", "vol0/x", "--size", "4097"], 2);
    assert_eq!(
        (&found["field"], &found["outcome"]),
        (&json!("size_bytes"), &json!("not-done"))
    );
    let detail = found["detail"].as_str().expect("a text");
    assert!(detail.starts_with("--size: "), "{detail}");
    let found = failed(&dir, &["volume", "delete", "vol0"], 6);
    let detail = found["detail"].as_str().expect("a text");
    assert!(detail.contains("add --yes"), "{detail}");
    assert_eq!(
        failed(&dir, &["lun", "show", "--where", "size>bla"], 2)["title"],
        "wrong usage"
    );
    server.stop();
}

#[test]
fn columns_are_the_same_in_a_table_and_in_json() {
    let dir = TestDir::new();
    let server = serve(&dir);
    ask(&dir, &["lun", "create", "vol0/b", "--size", "1GiB"]);
    ask(&dir, &["snapshot", "create", "vol0@s"]);
    let columns = ["--columns", "name,size", "--where", "size>=1GiB"];
    let chosen = ask_json(&dir, &[&["lun", "show"], &columns[..]].concat());
    assert_eq!(
        chosen["luns"],
        json!([{"name": "vol0/b", "size_bytes": 1u64 << 30}])
    );
    let one = ask_json(&dir, &["lun", "show", "vol0/b", "--columns", "name,size"]);
    assert_eq!(
        one,
        json!({"schema_version": 1, "name": "vol0/b", "size_bytes": 1u64 << 30})
    );
    let snapshots = ask_json(
        &dir,
        &["snapshot", "show", "--columns", "name,exported,holds"],
    );
    assert_eq!(
        snapshots["snapshots"],
        json!([{"name": "vol0@s", "exported": false, "holds": null}])
    );
    // All fields have the name that verbs take, too.
    let all = ask_json(&dir, &["lun", "show"]);
    assert_eq!(all["luns"][0]["object"], "vol0/b");
    let all = ask_json(&dir, &["snapshot", "show"]);
    assert_eq!(all["snapshots"][0]["object"], "vol0@s");
    server.stop();
}

#[test]
fn a_snapshot_of_a_lun_is_refused_with_what_there_is() {
    let dir = TestDir::new();
    refused(
        &dir,
        &["snapshot", "create", "vol0/lun0@s"],
        2,
        &[
            "a volume with all its LUNs",
            "VOLUME@SNAPSHOT without a LUN",
        ],
    );
}

#[test]
fn numbers_have_the_right_nouns_and_sizes_have_units() {
    let dir = TestDir::new();
    let server = serve(&dir);
    let status = ask(&dir, &["status"]);
    assert!(
        status.contains("1 of 1 aggregate, 1 volume, 1 LUN, 0 connections"),
        "{status}"
    );
    let put = [
        "lun",
        "create",
        "vol0/lun0",
        "--if-missing",
        "--size",
        "1GiB",
    ];
    refused(&dir, &put, 5, &["exists with 64.0 MiB"]);
    refused(
        &dir,
        &["lun", "resize", "vol0/lun0", "--size", "1MiB"],
        6,
        &["has 64.0 MiB", "beyond 1.0 MiB"],
    );
    server.stop();
    let report = ask(&dir, &["check"]);
    assert!(report.contains("1 volume, 1 LUN, 0 snapshots"), "{report}");
}

/// Whether a process has a handler for SIGINT.
fn handles_ctrl_c(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("a running process");
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let mask = u64::from_str_radix(mask.expect("every process has one").trim(), 16);
    mask.expect("a mask") & SIGINT != 0
}

#[test]
fn a_script_gets_the_jobs_id_and_ctrl_c_leaves_the_job_alone() {
    let dir = TestDir::new();
    let server = serve(&dir);
    let (mut client, _) = Client::open(&server.tcp, "vol0/lun0").expect("a client");
    client.write(0, &vec![1; 4 << 20]).expect("written");
    ask(&dir, &["snapshot", "create", "vol0@s"]);
    client.write(0, &vec![2; 4 << 20]).expect("written");
    client.flush().expect("flushed");
    // The job has work, and does none of it.
    ask(&dir, &["snapshot", "scan", "vol0", "--pause"]);
    let said = ask(&dir, &["snapshot", "delete", "vol0@s", "--purge", "--yes"]);
    let id = said.trim();
    assert!(
        id.parse::<u64>().is_ok(),
        "an id and nothing else: {said:?}"
    );

    let mut wait = everglade(&dir.data_dir())
        .args(["job", "wait", id])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let began = Instant::now();
    while !handles_ctrl_c(wait.id()) {
        assert!(began.elapsed() < PATIENCE, "it never waits");
        sleep(Duration::from_millis(5));
    }
    // The handler consists of two parts, and has the second one a moment later.
    sleep(Duration::from_millis(200));
    let pid = i32::try_from(wait.id()).ok().and_then(Pid::from_raw);
    kill_process(pid.expect("a pid"), Signal::INT).expect("our own child");
    let status = wait.wait().expect("an end");
    let mut said = String::new();
    let mut pipe = wait.stderr.take().expect("a pipe");
    pipe.read_to_string(&mut said).expect("text");
    assert_eq!(status.code(), Some(130), "{said}");
    assert!(said.contains(&format!("job {id} continues")), "{said}");
    assert!(
        said.contains(&format!("'everglade job wait {id}'")),
        "{said}"
    );

    let job = ask_json(&dir, &["job", "show", id]);
    assert_eq!(job["state"], "running", "{job}");
    ask(&dir, &["snapshot", "scan", "vol0", "--resume"]);
    ask(&dir, &["job", "wait", id]);
    drop(client);
    server.stop();
}
