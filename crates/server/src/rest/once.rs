//! A change that is repeated with the same `Idempotency-Key` is made once.
//!
//! Requests that only read pass through. A change without a key is handled as it arrives. A change
//! with a key is read whole first, because the key stands for the request with its body.

use std::sync::Arc;

use axum::body::{Body as Stream, Bytes};
use axum::extract::{FromRequest, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use everglade_api::{Code, Outcome, Problem};
use http_body_util::BodyExt;

use super::answer::{Refusal, remembered};
use super::body::Body;
use super::caller::Caller;
use super::desk::Desk;
use super::guard::is_change;
use super::keys::{ANSWER_BYTES_MAX, Fate, Given, Met, Ticket};

pub(super) const KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Header that marks a replayed answer.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
/// Longest key.
const KEY_CHARS_MAX: usize = 64;
/// Headers that are replayed with an answer.
const KEPT_HEADERS: [HeaderName; 3] = [header::CONTENT_TYPE, header::LOCATION, header::ETAG];

pub(super) async fn once(State(desk): State<Arc<Desk>>, request: Request, next: Next) -> Response {
    if !is_change(request.method()) {
        return next.run(request).await;
    }
    match key_of(request.headers()) {
        Ok(None) => next.run(request).await,
        Ok(Some(key)) => keyed(&desk, key, request, next)
            .await
            .unwrap_or_else(IntoResponse::into_response),
        Err(problem) => Refusal(problem).into_response(),
    }
}

fn key_of(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut values = headers.get_all(KEY).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    let is_fine = |bytes: &[u8]| {
        (1..=KEY_CHARS_MAX).contains(&bytes.len()) && bytes.iter().all(u8::is_ascii_graphic)
    };
    match value.to_str() {
        Ok(key) if is_fine(value.as_bytes()) && values.next().is_none() => Ok(Some(key.to_owned())),
        _ => Err(Problem::invalid(
            "Idempotency-Key",
            format!("use one key of 1 to {KEY_CHARS_MAX} visible ASCII characters without spaces"),
        )),
    }
}

async fn keyed(
    desk: &Arc<Desk>,
    key: String,
    request: Request,
    next: Next,
) -> Result<Response, Refusal> {
    let (mut parts, stream) = request.into_parts();
    let Body(body) = Body::from_request(Request::new(stream), &()).await?;
    let fingerprint = fingerprint(&parts.method, &parts.uri.to_string(), &body);
    let caller = parts.extensions.get_mut::<Caller>();
    let caller = caller.expect("the guard has found out who asks");
    let ticket = match desk.keys().meet(&caller.name, &key, fingerprint) {
        Met::New(ticket) => ticket,
        Met::Again(fate) => return again(fate),
        Met::Taken => {
            let text = "it was used for another request; use a new key for each request";
            return Err(Problem::of_field(Code::KeyReused, "Idempotency-Key", text).into());
        }
    };
    caller.ticket = Some(Arc::clone(&ticket));
    let request = Request::from_parts(parts, Stream::from(body));
    Ok(keep(&ticket, next.run(request).await).await)
}

/// Answers a request that was seen before.
fn again(fate: Fate) -> Result<Response, Refusal> {
    match fate {
        Fate::UnderWay => {
            let text = "the same request is under way; ask again with the same key";
            Err(Problem::new(Code::StillUnderWay, text).into())
        }
        Fate::Unknown(problem) => Err(problem.into()),
        Fate::Made(made) => Ok(remembered(&made)),
        Fate::Answered(given) => {
            let mut response = Response::new(Stream::from(given.body));
            *response.status_mut() = given.status;
            *response.headers_mut() = given.headers;
            let replayed = HeaderValue::from_static("true");
            response.headers_mut().insert(REPLAYED, replayed);
            Ok(response)
        }
    }
}

/// Keeps an answer for repetitions, if it says that the change was made.
async fn keep(ticket: &Ticket, response: Response) -> Response {
    if let Some(problem) = response.extensions().get::<Problem>() {
        let problem = problem.clone();
        // The thread that makes a change settles the key of a change that is still running.
        if problem.outcome == Some(Outcome::Unknown) && problem.code != Code::StillUnderWay {
            ticket.unknown(&problem);
        }
        return response;
    }
    let (mut parts, body) = response.into_parts();
    // The bodies of answers to changes are in memory.
    let body = match body.collect().await {
        Ok(body) => body.to_bytes(),
        Err(_) => Bytes::new(),
    };
    if body.len() <= ANSWER_BYTES_MAX {
        let mut headers = HeaderMap::new();
        for name in KEPT_HEADERS {
            if let Some(value) = parts.headers.get(&name) {
                headers.insert(name, value.clone());
            }
        }
        ticket.answered(Given {
            status: parts.status,
            headers,
            body: body.clone(),
        });
    }
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, Stream::from(body))
}

/// Returns a hash of the request. Lengths separate the parts.
fn fingerprint(method: &Method, target: &str, body: &[u8]) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in [method.as_str().as_bytes(), target.as_bytes(), body] {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize().to_hex()[..32].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_one_short_word() {
        let headers = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(KEY, value.parse().expect("a header"));
            }
            headers
        };
        assert_eq!(key_of(&headers(&[])), Ok(None));
        assert_eq!(key_of(&headers(&["a-1"])), Ok(Some("a-1".to_owned())));
        let long = "k".repeat(65);
        for bad in [&["a", "a"] as &[&str], &["a b"], &[""], &[&long]] {
            let problem = key_of(&headers(bad)).expect_err("refused");
            assert_eq!(problem.field.as_deref(), Some("Idempotency-Key"));
        }
    }

    #[test]
    fn another_request_has_another_fingerprint() {
        let of = |target: &str, body: &str| fingerprint(&Method::POST, target, body.as_bytes());
        assert_eq!(of("/v1/volumes", "{}"), of("/v1/volumes", "{}"));
        assert_ne!(of("/v1/volumes", "{}"), of("/v1/volumes", "{ }"));
        assert_ne!(of("/v1/volumes{", "}"), of("/v1/volumes", "{}"));
        assert_ne!(
            fingerprint(&Method::PUT, "/", b""),
            fingerprint(&Method::POST, "/", b"")
        );
    }
}
