//! Answers: JSON with the schema's version, or a problem.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use everglade_api::{PROBLEM_CONTENT_TYPE, Problem, Versioned};
use serde::Serialize;

/// What every handler returns.
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
        with_body(status, PROBLEM_CONTENT_TYPE, &self.0.to_json())
    }
}

/// What was asked for.
pub(super) fn found(body: impl Serialize) -> Answer {
    Ok(with_body(
        StatusCode::OK,
        "application/json",
        &Versioned::new(body),
    ))
}

/// What was made, and where it is from now on.
pub(super) fn created(place: &str, body: impl Serialize) -> Answer {
    let body = Versioned::new(body);
    let mut response = with_body(StatusCode::CREATED, "application/json", &body);
    let place = HeaderValue::from_str(place).expect("names mean nothing in a URL");
    response.headers_mut().insert(header::LOCATION, place);
    Ok(response)
}

/// It is gone.
pub(super) fn gone() -> Answer {
    Ok(StatusCode::NO_CONTENT.into_response())
}

fn with_body(status: StatusCode, kind: &'static str, body: &impl Serialize) -> Response {
    let bytes = serde_json::to_vec(body).expect("maps with text keys are JSON");
    let mut response = Response::new(Body::from(bytes));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static(kind);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
