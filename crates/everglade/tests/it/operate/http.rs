//! One HTTP request over a socket, TCP or Unix.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde_json::Value;

use crate::running::TestDir;

const PATIENCE: Option<Duration> = Some(Duration::from_secs(30));

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// A header's value, by its name in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

fn request(method: &str, path: &str, headers: &str, body: &str) -> String {
    request_to("e", method, path, headers, body)
}

fn request_to(host: &str, method: &str, path: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\n{headers}\r\n\
         {body}"
    )
}

fn exchange(mut stream: impl Read + Write, request: &str) -> Answer {
    // The daemon may have answered and hung up before it has read all.
    let _ = stream.write_all(request.as_bytes());
    let mut bytes = Vec::new();
    // A reset after the answer is no news.
    let _ = stream.read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok());
    Answer {
        status: status.unwrap_or(0),
        head: head.to_owned(),
        body: body.to_owned(),
    }
}

/// Over a connection that is there already.
pub(crate) fn over(
    stream: UnixStream,
    method: &str,
    path: &str,
    headers: &str,
    body: &str,
) -> Answer {
    stream.set_read_timeout(PATIENCE).expect("a timeout");
    exchange(stream, &request(method, path, headers, body))
}

/// Over TCP.
pub(crate) fn tcp(address: &str, method: &str, path: &str, headers: &str) -> Answer {
    let stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(PATIENCE).expect("a timeout");
    exchange(stream, &request(method, path, headers, ""))
}

/// Over a connection that is there already, as a browser that was given this host in the address.
pub(crate) fn over_as(stream: UnixStream, host: &str, method: &str, path: &str) -> Answer {
    exchange(stream, &request_to(host, method, path, "", ""))
}

/// Over TCP, as a browser that was given this host in the address.
pub(crate) fn at_host(
    (address, host): (&str, &str),
    method: &str,
    path: &str,
    headers: &str,
    body: &str,
) -> Answer {
    let stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(PATIENCE).expect("a timeout");
    exchange(stream, &request_to(host, method, path, headers, body))
}

/// Over the socket in the data directory.
pub(crate) fn unix(dir: &TestDir, method: &str, path: &str, headers: &str, body: &str) -> Answer {
    exchange(open(dir), &request(method, path, headers, body))
}

/// A connection to the socket in the data directory.
pub(crate) fn open(dir: &TestDir) -> UnixStream {
    let stream = UnixStream::connect(dir.data_dir().join("run/api.sock")).expect("a connection");
    stream.set_read_timeout(PATIENCE).expect("a timeout");
    stream
}
