//! Reads the body of a request, with limits for its size and its time.

use std::time::Duration;

use axum::extract::{FromRequest, Request};
use everglade_api::{Code, Problem};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::time::timeout;

use super::answer::Refusal;

/// Limit of a body, in bytes. The largest useful request has 64 paths of 1,024 bytes.
pub(super) const BYTES_MAX: usize = 64 << 10;
/// Time limit from the end of the headers to the end of the body.
const ARRIVES_WITHIN: Duration = Duration::from_secs(10);

/// The bytes.
pub(super) struct Body(pub(super) Vec<u8>);

impl<S: Send + Sync> FromRequest<S> for Body {
    type Rejection = Refusal;

    async fn from_request(request: Request, _: &S) -> Result<Body, Refusal> {
        let body = Limited::new(request.into_body(), BYTES_MAX).collect();
        let problem = match timeout(ARRIVES_WITHIN, body).await {
            Ok(Ok(body)) => return Ok(Body(body.to_bytes().to_vec())),
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                let text = format!("the body is larger than {BYTES_MAX} bytes");
                Problem::new(Code::BodyTooLarge, text)
            }
            Ok(Err(error)) => {
                Problem::new(Code::NotJson, format!("the body is cut short: {error}"))
            }
            Err(_) => {
                let text = format!("the body did not arrive within {ARRIVES_WITHIN:?}");
                Problem::new(Code::RequestTimeout, text)
            }
        };
        Err(Refusal(problem))
    }
}
