//! What a request of a browser is answered with.

use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use everglade_api::Problem;

use super::visit::refusal;

/// A page, or the page of a problem.
pub(super) type Shown = Result<Html<String>, Failed>;

/// A problem as a page.
pub(super) struct Failed(pub(super) Problem);

impl From<Problem> for Failed {
    fn from(problem: Problem) -> Failed {
        Failed(problem)
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.http_status()).unwrap_or_default();
        refusal(status, "Nothing to show", said(&self.0)).into_response()
    }
}

/// A problem in a sentence, with its code.
pub(super) fn said(problem: &Problem) -> String {
    format!("{problem} ({})", problem.code)
}

/// What pages say after a change, by the word that they are asked with.
pub(super) fn done_said(word: &str) -> Option<&'static str> {
    match word {
        "created" => Some("Created."),
        "deleted" => Some("Deleted. A job frees the space."),
        "trashed" => Some("Deleted. It is in the trash, and can be brought back."),
        "back" => Some("It is back."),
        "resized" => Some("Resized."),
        "modified" => Some("Changed."),
        "taken" => Some("The snapshot is taken."),
        "restored" => Some("Restored. A snapshot keeps what was there before."),
        "begun" => Some("Begun. The job is in the list."),
        "cancelled" => Some("The job is being cancelled."),
        _ => None,
    }
}
