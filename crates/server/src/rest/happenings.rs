//! `/v1/history` and `/v1/events`: changes and events. Events are also available as a stream of
//! server-sent events, while the listener keeps up.
//!
//! A stream ends when the daemon stops, when the listener disconnects, and when the listener has
//! read nothing for a while. In the last case the connection is closed, because the data that waits
//! to be sent would never be freed.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use everglade_api::{Code, Event, Problem};
use http_body_util::channel::{Channel, Sender};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::timeout;

use super::answer::{Answer, Refusal};
use super::connections::Life;
use super::desk::Desk;
use super::listing::Listing;

/// A sign of life on a stream without events, so that both ends notice when the other has gone.
const SIGN_EVERY: Duration = Duration::from_secs(15);
/// Time limit for a listener to read the events sent.
const READ_WITHIN: Duration = Duration::from_secs(10);
/// Events on their way to one listener.
const ON_THE_WAY: usize = 16;

pub(super) async fn history(State(desk): State<Arc<Desk>>, listing: Listing) -> Answer {
    listing.answer("changes", "Change", &desk.records().history.changes())
}

pub(super) async fn events(
    State(desk): State<Arc<Desk>>,
    Extension(life): Extension<Arc<Life>>,
    headers: HeaderMap,
    listing: Listing,
) -> Answer {
    let wanted = headers
        .get(header::ACCEPT)
        .and_then(|value| value.to_str().ok());
    let as_stream = wanted.is_some_and(|kinds| kinds.contains("text/event-stream"));
    if !as_stream {
        return listing.answer("events", "Event", &desk.records().events.recent());
    }
    if !listing.is_empty() {
        let text = "a stream takes no parameters";
        return Err(Refusal(Problem::new(Code::UnknownField, text)));
    }
    let place = desk.listener_place()?;
    let (sender, body) = Channel::<Bytes, Infallible>::new(ON_THE_WAY);
    let stream = Stream {
        sender,
        life,
        _place: place,
    };
    tokio::spawn(stream.run(desk.records().events.listen(), desk.stopping()));
    let mut response: Response = Body::new(body).into_response();
    let headers = response.headers_mut();
    let kind = HeaderValue::from_static("text/event-stream");
    headers.insert(header::CONTENT_TYPE, kind);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// The stream of events to one listener.
struct Stream {
    sender: Sender<Bytes, Infallible>,
    life: Arc<Life>,
    _place: OwnedSemaphorePermit,
}

impl Stream {
    async fn run(mut self, mut events: Receiver<Event>, mut stopping: watch::Receiver<bool>) {
        self.life.begin_stream();
        let mut goes_on = self.send(": listening\n\n".to_owned()).await;
        while goes_on {
            let text = tokio::select! {
                _ = stopping.wait_for(|asked| *asked) => break,
                event = timeout(SIGN_EVERY, events.recv()) => match event {
                    Ok(Ok(event)) => encoded(&event),
                    Ok(Err(RecvError::Lagged(count))) => {
                        format!("event: lost\ndata: {{\"count\":{count}}}\n\n")
                    }
                    Ok(Err(RecvError::Closed)) => break,
                    Err(_) => ": still here\n\n".to_owned(),
                },
            };
            goes_on = self.send(text).await;
        }
        self.life.end_stream();
    }

    async fn send(&mut self, text: String) -> bool {
        let sent = timeout(READ_WITHIN, self.sender.send_data(Bytes::from(text))).await;
        matches!(sent, Ok(Ok(())))
    }
}

/// Returns an event as the stream sends it. Its number is its id, so that a listener can resume.
fn encoded(event: &Event) -> String {
    let data = serde_json::to_string(event).expect("texts and numbers are JSON");
    format!(
        "id: {}\nevent: {}\ndata: {data}\n\n",
        event.number, event.kind
    )
}
