//! The REST interface itself: strict about what it reads, bounded whatever a client does.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{TestDir, ask, ask_json, everything, serve};

fn socket(dir: &TestDir) -> PathBuf {
    dir.data_dir().join("run/api.sock")
}

/// A connection that gives up rather than hang.
fn connect(dir: &TestDir) -> UnixStream {
    let stream = UnixStream::connect(socket(dir)).expect("a connection");
    let patience = Some(Duration::from_secs(30));
    stream.set_read_timeout(patience).expect("a timeout");
    stream.set_write_timeout(patience).expect("a timeout");
    stream
}

/// Sends these bytes; returns status, headers and body.
fn exchange(dir: &TestDir, request: &[u8]) -> (u16, String, String) {
    let mut stream = connect(dir);
    // The daemon may have answered and hung up before it has read all.
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    // A reset after the answer is no news.
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok());
    (status.unwrap_or(0), head.to_owned(), body.to_owned())
}

fn send(dir: &TestDir, method: &str, path: &str, body: &str) -> (u16, String, String) {
    let length = body.len();
    let request =
        format!("{method} {path} HTTP/1.1\r\nHost: e\r\nContent-Length: {length}\r\n\r\n{body}");
    exchange(dir, request.as_bytes())
}

/// A refusal: its status, and the problem in it.
#[track_caller]
fn problem(dir: &TestDir, method: &str, path: &str, body: &str) -> Value {
    let (status, head, answer) = send(dir, method, path, body);
    assert!(
        head.contains("application/problem+json"),
        "{path} {body}: {head}"
    );
    let value: Value = serde_json::from_str(&answer).expect("JSON");
    assert_eq!(value["status"], status, "{path} {body}");
    value
}

#[test]
fn objects_are_made_shown_changed_and_deleted() {
    let dir = TestDir::new();
    let server = serve(&dir);
    let (status, head, body) = send(&dir, "POST", "/v1/volumes", "{\"name\": \"v\"}");
    assert_eq!(status, 201, "{body}");
    assert!(head.contains("location: /v1/volumes/v\r\n"), "{head}");
    let luns = "/v1/volumes/v/luns";
    let body = "{\"name\": \"l\", \"size_bytes\": 4096}";
    assert_eq!(send(&dir, "POST", luns, body).0, 201);
    let lun = "/v1/volumes/v/luns/l";
    assert_eq!(send(&dir, "PATCH", lun, "{\"size_bytes\": 8192}").0, 200);
    let (status, head, body) = send(&dir, "GET", lun, "");
    assert_eq!(status, 200);
    assert!(
        head.contains("content-type: application/json\r\n"),
        "{head}"
    );
    let value: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(
        (&value["schema_version"], &value["size_bytes"]),
        (&1.into(), &8192.into())
    );
    let (status, _, body) = send(&dir, "HEAD", lun, "");
    assert_eq!((status, body.as_str()), (200, ""));
    let (status, head, body) = send(&dir, "DELETE", lun, "");
    assert_eq!(status, 202, "{body}");
    assert!(head.contains("location: /v1/jobs/1\r\n"), "{head}");
    let job: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(
        (&job["kind"], &job["object"]),
        (&"lun delete".into(), &"v/l".into())
    );
    assert_eq!(send(&dir, "DELETE", lun, "").0, 404);
    assert_eq!(send(&dir, "DELETE", "/v1/volumes/v", "").0, 202);
    let version = send(&dir, "GET", "/v1/version", "").2;
    assert!(version.contains("\"media_format\":1"), "{version}");
    server.stop();
}

#[test]
fn bad_requests_are_problems_with_code_and_field() {
    let dir = TestDir::new();
    let server = serve(&dir);
    let before = everything(&dir);
    let large = format!("{{\"name\": \"{}\"}}", "x".repeat(70_000));
    let deep = format!("{{\"name\": {}", "[".repeat(60_000));
    let (volumes, luns, lun) = (
        "/v1/volumes",
        "/v1/volumes/vol0/luns",
        "/v1/volumes/vol0/luns/lun0",
    );
    for (method, path, body, status, code, field) in [
        ("POST", volumes, "", 400, "EVG-1001", None),
        ("POST", volumes, "[]", 400, "EVG-1001", None),
        ("POST", volumes, "{\"name\": \"v\"", 400, "EVG-1001", None),
        ("POST", volumes, &deep, 400, "EVG-1001", None),
        (
            "POST",
            volumes,
            "{\"nmae\": \"v\"}",
            400,
            "EVG-1002",
            Some("nmae"),
        ),
        (
            "POST",
            volumes,
            "{\"name\": \"v\", \"size\": 1}",
            400,
            "EVG-1002",
            Some("size"),
        ),
        ("POST", volumes, "{}", 400, "EVG-1003", Some("name")),
        (
            "POST",
            volumes,
            "{\"name\": 7}",
            422,
            "EVG-1004",
            Some("name"),
        ),
        (
            "POST",
            volumes,
            "{\"name\": \"../v\"}",
            422,
            "EVG-1004",
            Some("name"),
        ),
        (
            "POST",
            volumes,
            "{\"name\": \"v\", \"name\": \"w\"}",
            422,
            "EVG-1004",
            Some("name"),
        ),
        (
            "POST",
            volumes,
            "{\"name\": \"v\", \"sync\": true}",
            422,
            "EVG-1004",
            Some("sync"),
        ),
        ("POST", volumes, &large, 413, "EVG-1005", None),
        (
            "POST",
            volumes,
            "{\"name\": \"vol0\"}",
            409,
            "EVG-2002",
            None,
        ),
        (
            "POST",
            luns,
            "{\"name\": \"l\"}",
            400,
            "EVG-1003",
            Some("size_bytes"),
        ),
        (
            "POST",
            luns,
            "{\"name\": \"l\", \"size_bytes\": \"1G\"}",
            422,
            "EVG-1004",
            Some("size_bytes"),
        ),
        (
            "POST",
            luns,
            "{\"name\": \"l\", \"size_bytes\": 18446744073709551615}",
            422,
            "EVG-1004",
            Some("size_bytes"),
        ),
        (
            "PATCH",
            lun,
            "{\"size_bytes\": 4096}",
            409,
            "EVG-2004",
            Some("discard_beyond"),
        ),
        (
            "PATCH",
            lun,
            "{\"size_bytes\": 4096, \"name\": \"x\"}",
            400,
            "EVG-1002",
            Some("name"),
        ),
        (
            "POST",
            "/v1/aggregates",
            "{\"name\": \"b\", \"devices\": [\"relative\"]}",
            422,
            "EVG-1004",
            Some("devices"),
        ),
        (
            "POST",
            "/v1/aggregates",
            "{\"name\": \"b\", \"raid\": \"raid5\"}",
            422,
            "EVG-1004",
            Some("raid"),
        ),
        ("GET", "/v1/volumes/nix", "", 404, "EVG-2001", None),
        (
            "GET",
            "/v1/volumes/vol0?fields=name",
            "",
            400,
            "EVG-1002",
            Some("fields"),
        ),
        (
            "GET",
            "/v1/volumes/..%2f..%2fetc",
            "",
            404,
            "EVG-1006",
            None,
        ),
        ("GET", "/v1/nix", "", 404, "EVG-1006", None),
        ("GET", "/nix", "", 404, "EVG-1006", None),
        ("PUT", volumes, "{}", 405, "EVG-1007", None),
        ("PATCH", "/v1/aggregates/aggr0", "{}", 405, "EVG-1007", None),
    ] {
        let found = problem(&dir, method, path, body);
        let short: String = body.chars().take(60).collect();
        assert_eq!(found["code"], code, "{method} {path} {short}: {found}");
        assert_eq!(found["status"], status, "{method} {path} {short}");
        assert_eq!(found["field"].as_str(), field, "{method} {path} {short}");
    }
    assert_eq!(everything(&dir), before, "a refusal changed something");
    server.stop();
}

#[test]
fn the_socket_is_its_owners_alone() {
    let dir = TestDir::new();
    let server = serve(&dir);
    let mode = fs::metadata(socket(&dir))
        .expect("a socket")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    server.stop();
    assert!(!socket(&dir).exists());
}

#[test]
fn garbage_and_silence_cost_others_nothing() {
    let dir = TestDir::new();
    let mut server = serve(&dir);
    let garbage = vec![0xa5; 1 << 20];
    assert!(matches!(exchange(&dir, &garbage).0, 0 | 400 | 431));
    let endless = [
        b"GET /v1/status HTTP/1.1\r\nX: ".to_vec(),
        vec![b'x'; 1 << 20],
    ]
    .concat();
    assert!(matches!(exchange(&dir, &endless).0, 0 | 400 | 431));
    let long = format!("GET /{} HTTP/1.1\r\nHost: e\r\n\r\n", "x".repeat(1 << 17));
    assert_ne!(exchange(&dir, long.as_bytes()).0, 200);

    // Half a request on each of more connections than are served at once.
    let mut silent = Vec::new();
    for number in 0..80 {
        let mut stream = connect(&dir);
        let half: &[u8] = match number % 3 {
            0 => b"",
            1 => b"GET /v1/st",
            _ => b"POST /v1/volumes HTTP/1.1\r\nHost: e\r\nContent-Length: 100\r\n\r\n{",
        };
        stream.write_all(half).expect("sent");
        silent.push(stream);
    }
    crate::wire::Client::open(&server.tcp, "vol0/lun0").expect("clients do not notice");
    // The silent ones are cut off in time, and then an administrator is heard.
    let begun = Instant::now();
    assert_eq!(ask_json(&dir, &["status"])["health"], "healthy");
    assert!(
        begun.elapsed() < Duration::from_secs(40),
        "{:?}",
        begun.elapsed()
    );
    assert!(server.is_running());
    drop(silent);
    server.stop();
}

#[test]
fn a_stop_does_not_wait_for_silent_administrators() {
    let dir = TestDir::new();
    let server = serve(&dir);
    let mut silent = connect(&dir);
    silent.write_all(b"GET /v1/st").expect("sent");
    let begun = Instant::now();
    server.stop();
    assert!(
        begun.elapsed() < Duration::from_secs(8),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
fn many_administrators_at_once_are_all_answered() {
    let dir = TestDir::new();
    let server = serve(&dir);
    ask(&dir, &["volume", "create", "v"]);
    std::thread::scope(|scope| {
        for administrator in 0..8 {
            let dir = &dir;
            scope.spawn(move || {
                for number in 0..10 {
                    let body = format!(
                        "{{\"name\": \"l-{administrator}-{number}\", \"size_bytes\": 4096}}"
                    );
                    let (status, _, body) = send(dir, "POST", "/v1/volumes/v/luns", &body);
                    assert_eq!(status, 201, "{body}");
                }
            });
        }
    });
    let luns = ask_json(&dir, &["lun", "show", "v"]);
    assert_eq!(luns["luns"].as_array().map(Vec::len), Some(80));
    server.kill();
    let server = serve(&dir);
    let luns = ask_json(&dir, &["lun", "show", "v"]);
    assert_eq!(luns["luns"].as_array().map(Vec::len), Some(80));
    server.stop();
    super::assert_clean(&dir, 1);
}
