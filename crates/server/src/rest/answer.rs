//! Answers: JSON with the schema's version, or a problem.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use everglade_api::{Code, Job, PROBLEM_CONTENT_TYPE, Problem, Remembered, Versioned};
use serde::Serialize;

use super::entity::{Condition, Tag};

/// The result of every handler.
pub(super) type Answer = Result<Response, Refusal>;

/// A problem on its way to a client.
#[derive(Debug)]
pub(super) struct Refusal(pub(super) Problem);

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Refusal {
        Refusal(problem)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.http_status())
            .expect("the table of codes has statuses that exist");
        let mut response = with_body(status, PROBLEM_CONTENT_TYPE, &self.0.to_json());
        if self.0.code == Code::Unauthorized {
            let scheme = HeaderValue::from_static("Bearer");
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, scheme);
        }
        // The outer layers read the problem from here.
        response.extensions_mut().insert(self.0);
        response
    }
}

/// Returns the requested object.
pub(super) fn found(body: impl Serialize) -> Answer {
    Ok(json(StatusCode::OK, &Versioned::new(body)))
}

/// Returns a document without the usual envelope.
pub(super) fn as_it_is(body: &impl Serialize) -> Answer {
    Ok(json(StatusCode::OK, body))
}

/// Returns the requested object with its tag.
pub(super) fn with_tag(tag: &Tag, body: &impl Serialize) -> Answer {
    let mut response = json(StatusCode::OK, &Versioned::new(body));
    response.headers_mut().insert(header::ETAG, tag.value());
    Ok(response)
}

/// Returns the object with its tag, or 304 if the client has this version.
pub(super) fn tagged(headers: &HeaderMap, tag: &Tag, body: &impl Serialize) -> Answer {
    if Condition::read(headers, &header::IF_NONE_MATCH)?.names(tag) {
        let mut response = StatusCode::NOT_MODIFIED.into_response();
        response.headers_mut().insert(header::ETAG, tag.value());
        return Ok(response);
    }
    with_tag(tag, body)
}

/// Returns the created object, its tag and its path.
pub(super) fn created(place: &str, tag: &Tag, body: &impl Serialize) -> Answer {
    let mut response = json(StatusCode::CREATED, &Versioned::new(body));
    locate(&mut response, place);
    response.headers_mut().insert(header::ETAG, tag.value());
    Ok(response)
}

/// Returns the job that completes the change.
pub(super) fn accepted(job: &Job) -> Answer {
    let mut response = json(StatusCode::ACCEPTED, &Versioned::new(job));
    locate(&mut response, &format!("/v1/jobs/{}", job.id));
    Ok(response)
}

/// Returns all that is known of a change made by an earlier request with this key.
pub(super) fn remembered(made: &Remembered) -> Response {
    json(StatusCode::ALREADY_REPORTED, &Versioned::new(made))
}

/// Returns a new object that has no tag.
pub(super) fn made(place: &str, body: &impl Serialize) -> Answer {
    let mut response = json(StatusCode::CREATED, &Versioned::new(body));
    locate(&mut response, place);
    Ok(response)
}

/// Returns success without a body.
pub(super) fn gone() -> Response {
    StatusCode::NO_CONTENT.into_response()
}

fn locate(response: &mut Response, place: &str) {
    let place = HeaderValue::from_str(place).expect("names mean nothing in a URL");
    response.headers_mut().insert(header::LOCATION, place);
}

fn json(status: StatusCode, body: &impl Serialize) -> Response {
    with_body(status, "application/json", body)
}

fn with_body(status: StatusCode, kind: &'static str, body: &impl Serialize) -> Response {
    let bytes = serde_json::to_vec(body).expect("maps with text keys are JSON");
    let mut response = Response::new(Body::from(bytes));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static(kind);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
