//! Requests to the daemon, with one connection for each, as the daemon requires.
//!
//! A change ends in one of three ways: it is done, it is not done, or nobody knows. A conversation
//! that breaks leaves the third; so each change has an `Idempotency-Key`, and is sent again with
//! the same one until the daemon says which it is, or is away for too long (decision 0030).

use std::fs::File;
use std::io::Read;
use std::time::{Duration, Instant};

use everglade_api::{Code, Job, Outcome, Problem, Remembered};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio::time::{sleep, timeout};

use crate::daemon::Daemon;
use crate::failure::{Failure, exit};

/// Longer than the daemon lets anyone wait, so that its own words are heard.
const ANSWER_WITHIN: Duration = Duration::from_secs(100);
/// Time limit for a daemon that broke a connection to return, and the interval between attempts.
const RETRY_WITHIN: Duration = Duration::from_secs(5);
const RETRY_EVERY: Duration = Duration::from_millis(200);
/// Much longer than the daemon is silent on a stream.
const SIGN_WITHIN: Duration = Duration::from_secs(60);
/// Far more than the longest list.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// Conversations with a daemon.
pub(crate) struct Session {
    daemon: Daemon,
}

/// An answer, as it came and as it is meant.
pub(crate) struct Answer<T> {
    pub(crate) raw: Value,
    pub(crate) meant: T,
}

impl Session {
    pub(crate) fn new(daemon: Daemon) -> Session {
        Session { daemon }
    }

    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<Answer<T>, Failure> {
        understand(self.get_body(path)?)
    }

    pub(crate) fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<Answer<T>, Failure> {
        self.changed(Method::POST, path, Some(encode(body)?))
    }

    pub(crate) fn patch<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<Answer<T>, Failure> {
        self.changed(Method::PATCH, path, Some(encode(body)?))
    }

    /// Creates an object unless it exists.
    pub(crate) fn put<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<Answer<T>, Failure> {
        self.changed(Method::PUT, path, Some(encode(body)?))
    }

    /// Makes what has no settings unless it is there.
    pub(crate) fn put_nothing<T: DeserializeOwned>(
        &self,
        path: &str,
    ) -> Result<Answer<T>, Failure> {
        self.changed(Method::PUT, path, None)
    }

    /// Sends a `POST` request without a body.
    pub(crate) fn act<T: DeserializeOwned>(&self, path: &str) -> Result<Answer<T>, Failure> {
        self.changed(Method::POST, path, None)
    }

    /// Posts a request whose answer has nothing to show.
    pub(crate) fn post_for_nothing(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<(), Failure> {
        let body = Some(encode(body)?);
        self.change(&Method::POST, path, body).map(drop)
    }

    /// The job gives back the space.
    pub(crate) fn delete(&self, path: &str) -> Result<Answer<Job>, Failure> {
        self.changed(Method::DELETE, path, None)
    }

    /// Deletes an object of which nothing remains to show.
    pub(crate) fn remove(&self, path: &str) -> Result<(), Failure> {
        self.change(&Method::DELETE, path, None).map(drop)
    }

    /// Hears server-sent events until the daemon ends the stream.
    pub(crate) fn follow<T: DeserializeOwned>(
        &self,
        path: &str,
        mut hear: impl FnMut(&T, &Value) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        runtime()?.block_on(async {
            let connect = self.send(Method::GET, path, Bytes::new(), "text/event-stream", None);
            let response = timeout(ANSWER_WITHIN, connect)
                .await
                .map_err(|_| self.silent())??;
            let status = response.status();
            let mut body = response.into_body();
            if !status.is_success() {
                let body = collect(body).await?;
                return Err(refusal(status, &body).failure);
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
                    // An event of another kind reports that some events were lost.
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
    fn get_body(&self, path: &str) -> Result<Bytes, Failure> {
        let asked = self.exchange(&Method::GET, path, None, None);
        let answer = runtime()?.block_on(async { timeout(ANSWER_WITHIN, asked).await });
        match answer {
            Ok(Ok(answer)) => Ok(answer.body),
            Ok(Err(trouble)) => Err(trouble.into()),
            Err(_) => Err(self.silent()),
        }
    }

    /// Parses the answer to a change.
    fn changed<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<Bytes>,
    ) -> Result<Answer<T>, Failure> {
        let answer = self.change(&method, path, body)?;
        if answer.status != StatusCode::ALREADY_REPORTED {
            return understand(answer.body);
        }
        let Remembered {
            time, what, object, ..
        } = understand(answer.body)?.meant;
        Err(Failure::done(format_args!(
            "{what} {object}, at {time}; the daemon was restarted since, or nobody heard its answer"
        )))
    }

    /// Requests a change. If the connection breaks, the same request is sent again with the same
    /// key: the daemon makes the change once, and returns its outcome. If no request was sent,
    /// nothing was changed.
    fn change(
        &self,
        method: &Method,
        path: &str,
        body: Option<Bytes>,
    ) -> Result<Answered, Failure> {
        let key = random_key()?;
        let mut retries = Retries::new();
        runtime()?.block_on(async {
            loop {
                let asked = self.exchange(method, path, body.clone(), Some(&key));
                match timeout(ANSWER_WITHIN, asked).await {
                    Err(_) => return Err(Failure::unknown(self.silent())),
                    Ok(Ok(answer)) => return Ok(answer),
                    Ok(Err(trouble)) => retries.meet(method, trouble)?,
                }
                sleep(RETRY_EVERY).await;
            }
        })
    }

    fn silent(&self) -> Failure {
        let text = format!(
            "the daemon at {} did not answer within {ANSWER_WITHIN:?}",
            self.daemon
        );
        Failure::new(exit::UNREACHABLE, text)
    }

    fn broken(&self, error: &hyper::Error) -> Failure {
        let text = format!(
            "the daemon at {} ended the conversation: {error}",
            self.daemon
        );
        Failure::new(exit::UNREACHABLE, text)
    }

    async fn exchange(
        &self,
        method: &Method,
        path: &str,
        body: Option<Bytes>,
        key: Option<&str>,
    ) -> Result<Answered, Trouble> {
        let response = self
            .send(
                method.clone(),
                path,
                body.unwrap_or_default(),
                "application/json",
                key,
            )
            .await?;
        let status = response.status();
        let body = collect(response.into_body()).await;
        // Half an answer is none.
        let body = body.map_err(Trouble::Broken)?;
        if status.is_success() {
            return Ok(Answered { status, body });
        }
        Err(Trouble::Refused(refusal(status, &body)))
    }

    /// Connects and asks; the answer's body may take its time.
    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        accept: &str,
        key: Option<&str>,
    ) -> Result<Response<Incoming>, Trouble> {
        let stream = self.daemon.connect().await.map_err(Trouble::Unreachable)?;
        let broken = |error: hyper::Error| Trouble::Broken(self.broken(&error));
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(broken)?;
        // Its errors are also those of the request.
        tokio::spawn(connection);
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, self.daemon.host())
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, accept);
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        if let Some(token) = self.daemon.token() {
            request = request.header(header::AUTHORIZATION, token);
        }
        let request = request
            .body(Full::new(body))
            .map_err(|error| Trouble::Unreachable(Failure::new(exit::USAGE, error.to_string())))?;
        sender.send_request(request).await.map_err(broken)
    }
}

/// A good answer.
struct Answered {
    status: StatusCode,
    body: Bytes,
}

/// The reason why there is no successful answer.
enum Trouble {
    /// The request was not sent.
    Unreachable(Failure),
    /// Something was sent, and no whole answer came.
    Broken(Failure),
    /// The daemon said no.
    Refused(Refused),
}

impl From<Trouble> for Failure {
    fn from(trouble: Trouble) -> Failure {
        match trouble {
            Trouble::Unreachable(failure) | Trouble::Broken(failure) => failure,
            Trouble::Refused(refused) => refused.failure,
        }
    }
}

/// The daemon's refusal.
struct Refused {
    /// The error code, if this program knows it.
    code: Option<Code>,
    failure: Failure,
}

/// State while a change is repeated.
struct Retries {
    began: Instant,
    /// The failure of the first connection that broke.
    broken: Option<Failure>,
}

impl Retries {
    fn new() -> Retries {
        Retries {
            began: Instant::now(),
            broken: None,
        }
    }

    /// Says whether to ask again after this.
    fn meet(&mut self, method: &Method, trouble: Trouble) -> Result<(), Failure> {
        let waited = self.began.elapsed();
        let Some(first) = &self.broken else {
            let Trouble::Broken(failure) = trouble else {
                return Err(trouble.into());
            };
            // The daemon gets its time from now on.
            self.began = Instant::now();
            self.broken = Some(failure);
            return Ok(());
        };
        match trouble {
            Trouble::Unreachable(_) | Trouble::Broken(_) if waited < RETRY_WITHIN => Ok(()),
            Trouble::Unreachable(_) | Trouble::Broken(_) => Err(Failure::unknown(first)),
            Trouble::Refused(refused) => match refused.code {
                Some(Code::StillUnderWay) if waited < ANSWER_WITHIN => Ok(()),
                Some(Code::StillUnderWay | Code::OutcomeUnknown) => Err(refused.failure),
                Some(Code::NotFound) if *method == Method::DELETE => Err(Failure::done(
                    "it is not there any more; the answer to the first request was lost",
                )),
                // The refusal of a repetition says little about the first attempt.
                _ => Err(Failure::unknown(format_args!(
                    "{first}; the same request, repeated, was refused: {}",
                    refused.failure
                ))),
            },
        }
    }
}

/// Returns a key that no other request has.
fn random_key() -> Result<String, Failure> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut bytes))
        .map_err(|error| {
            Failure::new(exit::FAILED, format!("cannot read /dev/urandom: {error}"))
        })?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
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

/// Parses the daemon's refusal.
fn refusal(status: StatusCode, body: &[u8]) -> Refused {
    let value: Option<Value> = serde_json::from_slice(body).ok();
    if let Some(problem) = value.as_ref().and_then(Problem::from_json) {
        return Refused {
            code: Some(problem.code),
            failure: problem.into(),
        };
    }
    // A newer daemon may have unknown codes; its text and the outcome of the change are still
    // usable.
    let text = |field: &str| value.as_ref().and_then(|value| value.get(field)?.as_str());
    let outcome = text("outcome").and_then(|word| word.parse().ok());
    let failure = match text("detail") {
        Some(detail) if outcome == Some(Outcome::Unknown) => Failure::unknown(detail),
        Some(detail) if outcome == Some(Outcome::Done) => Failure::done(detail),
        Some(detail) => Failure::new(exit::FAILED, detail),
        None => Failure::not_understood(status),
    };
    Refused {
        code: None,
        failure,
    }
}

fn encode(body: &impl Serialize) -> Result<Bytes, Failure> {
    let bytes = serde_json::to_vec(body);
    bytes
        .map(Bytes::from)
        .map_err(|error| Failure::new(exit::USAGE, error.to_string()))
}

fn understand<T: DeserializeOwned>(body: Bytes) -> Result<Answer<T>, Failure> {
    let raw: Value = serde_json::from_slice(&body).map_err(Failure::not_understood)?;
    let meant = T::deserialize(&raw).map_err(Failure::not_understood)?;
    Ok(Answer { raw, meant })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn a_refusal_is_the_daemons_own_words() {
        let body = Problem::not_found("volume", "v").to_json().to_string();
        let failure = refusal(StatusCode::NOT_FOUND, body.as_bytes()).failure;
        assert_eq!(failure.code, exit::NOT_FOUND);
        assert_eq!(failure.message, "there is no volume v (EVG-2001)");
        let newer = br#"{"code": "EVG-7777", "detail": "the moon is full"}"#;
        let failure = refusal(StatusCode::CONFLICT, newer).failure;
        assert_eq!(failure.message, "the moon is full");
        let newer = br#"{"code": "EVG-7777", "detail": "the moon is full", "outcome": "unknown"}"#;
        let failure = refusal(StatusCode::CONFLICT, newer).failure;
        assert_eq!(failure.code, exit::UNKNOWN);
        let failure = refusal(StatusCode::BAD_GATEWAY, b"<html>").failure;
        assert!(failure.message.contains("502"), "{failure}");
    }

    #[test]
    fn nobody_there_is_told_apart_and_has_a_hint() {
        let place = tempfile_path();
        let failure = Session::new(Daemon::Socket(place))
            .delete("/v1/volumes/v")
            .err()
            .expect("nobody");
        assert_eq!(failure.code, exit::UNREACHABLE);
        assert!(failure.message.contains("everglade serve"), "{failure}");
    }

    fn broken() -> Trouble {
        Trouble::Broken(Failure::new(exit::UNREACHABLE, "cut off"))
    }

    fn refused(problem: Problem) -> Trouble {
        Trouble::Refused(Refused {
            code: Some(problem.code),
            failure: problem.into(),
        })
    }

    #[test]
    fn a_request_that_was_never_sent_is_not_repeated() {
        let trouble = Trouble::Unreachable(Failure::new(exit::UNREACHABLE, "nobody"));
        let failure = Retries::new().meet(&Method::POST, trouble);
        assert_eq!(failure.expect_err("over").code, exit::UNREACHABLE);
        let failure =
            Retries::new().meet(&Method::POST, refused(Problem::not_found("volume", "v")));
        assert_eq!(failure.expect_err("over").code, exit::NOT_FOUND);
    }

    #[test]
    fn after_a_broken_conversation_only_the_daemon_knows() {
        let met = |method: &Method, trouble: Trouble| {
            let mut retries = Retries::new();
            retries.meet(method, broken()).expect("again");
            retries.meet(method, trouble)
        };
        assert_eq!(met(&Method::POST, broken()), Ok(()));
        let under_way = || refused(Problem::new(Code::StillUnderWay, "it goes on"));
        assert_eq!(met(&Method::POST, under_way()), Ok(()));
        for (method, problem, expected) in [
            (Method::DELETE, Problem::not_found("volume", "v"), exit::OK),
            (
                Method::POST,
                Problem::not_found("volume", "v"),
                exit::UNKNOWN,
            ),
            (Method::POST, Problem::new(Code::Exists, "v"), exit::UNKNOWN),
            (
                Method::DELETE,
                Problem::new(Code::OutcomeUnknown, "it failed"),
                exit::UNKNOWN,
            ),
        ] {
            let failure = met(&method, refused(problem)).expect_err("over");
            assert_eq!(failure.code, expected, "{failure}");
        }
        let mut late = Retries::new();
        late.meet(&Method::POST, broken()).expect("again");
        late.began = Instant::now()
            .checked_sub(RETRY_WITHIN)
            .expect("a clock that runs");
        let failure = late.meet(&Method::POST, broken()).expect_err("over");
        assert_eq!(failure.code, exit::UNKNOWN);
        assert!(
            failure.message.contains("look before repeating"),
            "{failure}"
        );
    }

    fn tempfile_path() -> PathBuf {
        std::env::temp_dir().join(format!("everglade-nobody-{}.sock", std::process::id()))
    }
}
