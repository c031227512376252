//! The console: pages for people with a browser, beside the REST interface at the same doors.
//!
//! ```text
//! request ─▶ security headers ─▶ visitor identified (`visit`) ─▶ page (`pages`), or
//!                                                             ─▶ form (`changes`) ─▶ /v1 …
//! ```
//!
//! What a page shows comes from the [`Administrator`](crate::administrator::Administrator), and
//! `everglade_console` makes HTML of it. A form becomes a request of the REST interface, which
//! checks the role, makes the change once, and writes down who made it. So the console can do
//! nothing that the interface cannot.
//!
//! A browser sends what any site tells it to send, with the visitor's cookie. Four walls keep other
//! sites out:
//!
//! 1. The cookie is of the strict kind: requests that begin at another site do not carry it.
//! 2. A change from another origin is refused.
//! 3. A form carries a key that only our pages know.
//! 4. Visitors without a cookie are at this host, and ask for it by a name of the loopback. A site
//!    that lets its own name point to the loopback is refused (DNS rebinding).

mod answers;
mod changes;
mod filled;
mod limiting;
mod measured;
mod pages;
mod visit;

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, header};
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::routing::{get, post};

use super::desk::Desk;
use measured::Measured;
use visit::Visits;

/// What browsers are told about every page: nothing from elsewhere, no script or style inside.
const HEADERS: [(HeaderName, &str); 5] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; \
         connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    // Without a referrer, browsers would not say the origin of a form either.
    (header::REFERRER_POLICY, "same-origin"),
    (header::CACHE_CONTROL, "no-store"),
];

/// The state of the console.
struct Console {
    desk: Arc<Desk>,
    /// The REST interface, to which forms are handed.
    api: Router,
    visits: Visits,
    measured: Arc<Measured>,
}

/// Returns the routes of the console, with those of the REST interface behind them.
pub(super) fn all(desk: &Arc<Desk>, api: Router) -> Router {
    let console = Arc::new(Console {
        desk: Arc::clone(desk),
        api: api.clone(),
        visits: Visits::new(),
        measured: Arc::default(),
    });
    Router::new()
        .route("/", get(pages::overview))
        .route("/aggregates/{aggregate}", get(pages::aggregate))
        .route("/volumes", get(pages::volumes))
        .route("/volumes/{volume}", get(pages::volume))
        .route("/volumes/{volume}/luns/{lun}", get(pages::lun))
        .route("/trash", get(pages::trash))
        .route("/jobs", get(pages::jobs))
        .route("/events", get(pages::events))
        .route("/login", get(pages::login).post(visit::log_in))
        .route("/logout", post(visit::log_out))
        .route("/assets/console.css", get(pages::style))
        .route("/assets/console.js", get(pages::script))
        .route("/do/{what}", get(changes::form).post(changes::make))
        .route("/do/{what}/{first}", get(changes::form).post(changes::make))
        .route(
            "/do/{what}/{first}/{second}",
            get(changes::form).post(changes::make),
        )
        .layer(from_fn(secure))
        .with_state(console)
        .fallback_service(api)
}

async fn secure(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    for (name, value) in HEADERS {
        let value = HeaderValue::from_static(value);
        response.headers_mut().entry(name).or_insert(value);
    }
    response
}
