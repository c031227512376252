//! The few requests of HTTP that the rig makes: one for each connection, as the daemon wants it.
//! Not the command line, whose start would be part of what is measured, a thousand times.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::Failure;

/// The longest wait for an answer; longer than the daemon lets any request wait.
const PATIENCE: Duration = Duration::from_secs(120);

/// Sends a request to the daemon's socket. Returns the body of the answer; a refusal is an error.
pub(in super::super) fn ask(
    socket: &Path,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> Result<Value, Failure> {
    let what = format!("{method} {path}");
    let wrong = |error: &dyn std::fmt::Display| Failure::rig(&what, error);
    let stream = UnixStream::connect(socket).map_err(|error| wrong(&error))?;
    let bounded = stream.set_read_timeout(Some(PATIENCE));
    bounded.map_err(|error| wrong(&error))?;
    let body = body.map(Value::to_string).unwrap_or_default();
    let (status, text) = exchange(stream, &what, &body)?;
    if !(200..300).contains(&status) {
        return Err(Failure::Rig(format!("{what}: {status} {text}")));
    }
    if text.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_str(&text).map_err(|error| wrong(&error))
}

/// Returns the text that a server at `address` has at `path`.
pub(in super::super) fn page(address: &str, path: &str) -> Result<String, Failure> {
    let what = format!("GET {path}");
    let stream = TcpStream::connect(address).map_err(|error| Failure::rig(&what, &error))?;
    exchange(stream, &what, "").map(|(_, text)| text)
}

/// Returns the labels and the value of each sample of a metric on a page.
pub(in super::super) fn samples<'a>(
    page: &'a str,
    name: &'a str,
) -> impl Iterator<Item = (&'a str, f64)> {
    page.lines().filter_map(move |line| {
        let rest = line.strip_prefix(name)?.strip_prefix('{')?;
        let (labels, value) = rest.split_once("} ")?;
        Some((labels, value.parse().ok()?))
    })
}

fn exchange(
    mut stream: impl Read + Write,
    what: &str,
    body: &str,
) -> Result<(u16, String), Failure> {
    let wrong = |error: &dyn std::fmt::Display| Failure::rig(what, error);
    let kind = match body {
        "" => "",
        _ => "Content-Type: application/json\r\n",
    };
    let head = format!(
        "{what} HTTP/1.1\r\nHost: everglade\r\nConnection: close\r\n{kind}Content-Length: \
        {}\r\n\r\n{body}",
        body.len()
    );
    let sent = stream.write_all(head.as_bytes());
    sent.map_err(|error| wrong(&error))?;
    let mut answer = Vec::new();
    let read = stream.read_to_end(&mut answer);
    read.map_err(|error| wrong(&error))?;
    let text = String::from_utf8_lossy(&answer);
    let (head, body) = text
        .split_once("\r\n\r\n")
        .ok_or_else(|| wrong(&"the answer has no end of its head"))?;
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok());
    let status = status.ok_or_else(|| wrong(&"the answer has no status"))?;
    Ok((status, body.to_owned()))
}
