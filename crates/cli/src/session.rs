//! Asking the daemon: one connection for each request, as the daemon wants it.

use std::path::PathBuf;
use std::time::Duration;

use everglade_api::{Job, Problem};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::net::UnixStream;
use tokio::runtime::Runtime;
use tokio::time::timeout;

use crate::failure::{Failure, exit};

/// Longer than the daemon lets anyone wait, so that its own words are heard.
const ANSWER_WITHIN: Duration = Duration::from_secs(100);
/// Much longer than the daemon is silent on a stream.
const SIGN_WITHIN: Duration = Duration::from_secs(60);
/// Far more than the longest list.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// Where the daemon is.
pub(crate) struct Session {
    socket: PathBuf,
}

/// An answer, as it came and as it is meant.
pub(crate) struct Told<T> {
    pub(crate) raw: Value,
    pub(crate) meant: T,
}

impl Session {
    pub(crate) fn new(socket: PathBuf) -> Session {
        Session { socket }
    }

    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<Told<T>, Failure> {
        understand(self.ask(Method::GET, path, None)?)
    }

    pub(crate) fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<Told<T>, Failure> {
        understand(self.ask(Method::POST, path, Some(encode(body)?))?)
    }

    pub(crate) fn patch<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<Told<T>, Failure> {
        understand(self.ask(Method::PATCH, path, Some(encode(body)?))?)
    }

    /// Makes it unless it is there.
    pub(crate) fn put<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<Told<T>, Failure> {
        understand(self.ask(Method::PUT, path, Some(encode(body)?))?)
    }

    /// Makes what has no settings unless it is there.
    pub(crate) fn put_nothing<T: DeserializeOwned>(&self, path: &str) -> Result<Told<T>, Failure> {
        understand(self.ask(Method::PUT, path, None)?)
    }

    /// Does something that has no body.
    pub(crate) fn act<T: DeserializeOwned>(&self, path: &str) -> Result<Told<T>, Failure> {
        understand(self.ask(Method::POST, path, None)?)
    }

    /// The job gives back the space.
    pub(crate) fn delete(&self, path: &str) -> Result<Told<Job>, Failure> {
        understand(self.ask(Method::DELETE, path, None)?)
    }

    /// There is nothing left to show.
    pub(crate) fn remove(&self, path: &str) -> Result<(), Failure> {
        self.ask(Method::DELETE, path, None).map(drop)
    }

    /// Hears server-sent events until the daemon ends the stream.
    pub(crate) fn follow<T: DeserializeOwned>(
        &self,
        path: &str,
        mut hear: impl FnMut(&T, &Value) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        runtime()?.block_on(async {
            let connect = self.send(Method::GET, path, Bytes::new(), "text/event-stream");
            let response = timeout(ANSWER_WITHIN, connect)
                .await
                .map_err(|_| self.silent())??;
            let status = response.status();
            let mut body = response.into_body();
            if !status.is_success() {
                let body = collect(body).await?;
                return Err(refusal(status, &body));
            }
            let mut waiting = Vec::new();
            loop {
                let frame = timeout(SIGN_WITHIN, body.frame()).await;
                let Some(frame) = frame.map_err(|_| self.silent())? else {
                    return Ok(());
                };
                let frame = frame.map_err(|error| self.broken(&error))?;
                waiting.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
                while let Some(end) = waiting.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = waiting.drain(..=end).collect();
                    let Some(data) = line.strip_prefix(b"data: ") else {
                        continue;
                    };
                    let raw: Value =
                        serde_json::from_slice(data).map_err(Failure::not_understood)?;
                    // What is not of this kind says that some were lost.
                    if let Ok(meant) = T::deserialize(&raw) {
                        hear(&meant, &raw)?;
                    }
                }
                if waiting.len() > ANSWER_BYTES_MAX {
                    return Err(Failure::not_understood("a line without an end"));
                }
            }
        })
    }

    /// The body of a good answer; everything else is a failure.
    fn ask(&self, method: Method, path: &str, body: Option<Bytes>) -> Result<Bytes, Failure> {
        let asked = async { timeout(ANSWER_WITHIN, self.exchange(method, path, body)).await };
        let answer = runtime()?.block_on(asked);
        answer.unwrap_or_else(|_| Err(self.silent()))
    }

    fn silent(&self) -> Failure {
        let text = format!(
            "the daemon at {} did not answer within {ANSWER_WITHIN:?}",
            self.socket.display()
        );
        Failure::new(exit::UNREACHABLE, text)
    }

    fn broken(&self, error: &hyper::Error) -> Failure {
        let text = format!(
            "the daemon at {} ended the conversation: {error}; it may have stopped, so look \
             before repeating this",
            self.socket.display()
        );
        Failure::new(exit::UNREACHABLE, text)
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Option<Bytes>,
    ) -> Result<Bytes, Failure> {
        let response = self
            .send(method, path, body.unwrap_or_default(), "application/json")
            .await?;
        let status = response.status();
        let body = collect(response.into_body()).await?;
        if status.is_success() {
            return Ok(body);
        }
        Err(refusal(status, &body))
    }

    /// Connects and asks; the answer's body may take its time.
    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        accept: &str,
    ) -> Result<Response<Incoming>, Failure> {
        let stream = UnixStream::connect(&self.socket)
            .await
            .map_err(|error| Failure::unreachable(&self.socket, &error))?;
        let broken = |error: hyper::Error| self.broken(&error);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(broken)?;
        // Its errors are also those of the request.
        tokio::spawn(connection);
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "everglade")
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, accept)
            .body(Full::new(body))
            .map_err(|error| Failure::new(exit::USAGE, error.to_string()))?;
        sender.send_request(request).await.map_err(broken)
    }
}

fn runtime() -> Result<Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build();
    runtime.map_err(|error| Failure::new(exit::FAILED, format!("cannot start: {error}")))
}

async fn collect(body: Incoming) -> Result<Bytes, Failure> {
    let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
    Ok(body.map_err(Failure::not_understood)?.to_bytes())
}

/// What the daemon has against it.
fn refusal(status: StatusCode, body: &[u8]) -> Failure {
    let value: Option<Value> = serde_json::from_slice(body).ok();
    if let Some(problem) = value.as_ref().and_then(Problem::from_json) {
        return problem.into();
    }
    // A newer daemon may have codes of its own; its words are still words.
    let detail = value
        .as_ref()
        .and_then(|value| value.get("detail")?.as_str());
    match detail {
        Some(detail) => Failure::new(exit::FAILED, detail),
        None => Failure::not_understood(status),
    }
}

fn encode(body: &impl Serialize) -> Result<Bytes, Failure> {
    let bytes = serde_json::to_vec(body);
    bytes
        .map(Bytes::from)
        .map_err(|error| Failure::new(exit::USAGE, error.to_string()))
}

fn understand<T: DeserializeOwned>(body: Bytes) -> Result<Told<T>, Failure> {
    let raw: Value = serde_json::from_slice(&body).map_err(Failure::not_understood)?;
    let meant = T::deserialize(&raw).map_err(Failure::not_understood)?;
    Ok(Told { raw, meant })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_the_daemons_own_words() {
        let body = Problem::not_found("volume", "v").to_json().to_string();
        let failure = refusal(StatusCode::NOT_FOUND, body.as_bytes());
        assert_eq!(failure.code, exit::NOT_FOUND);
        assert_eq!(failure.message, "there is no volume v (EVG-2001)");
        let newer = br#"{"code": "EVG-7777", "detail": "the moon is full"}"#;
        let failure = refusal(StatusCode::CONFLICT, newer);
        assert_eq!(failure.message, "the moon is full");
        let failure = refusal(StatusCode::BAD_GATEWAY, b"<html>");
        assert!(failure.message.contains("502"), "{failure}");
    }

    #[test]
    fn nobody_there_is_told_apart_and_has_a_hint() {
        let place = tempfile_path();
        let failure = Session::new(place)
            .delete("/v1/volumes/v")
            .err()
            .expect("nobody");
        assert_eq!(failure.code, exit::UNREACHABLE);
        assert!(failure.message.contains("everglade serve"), "{failure}");
    }

    fn tempfile_path() -> PathBuf {
        std::env::temp_dir().join(format!("everglade-nobody-{}.sock", std::process::id()))
    }
}
