//! The guard refuses requests before a handler sees them: invalid paths, parameters that would be
//! ignored, and callers without permission. It also adds the outcome to the answer of every refused
//! change (decision 0030).

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::http::{HeaderMap, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use everglade_api::openapi::{ROUTES, Role, Route};
use everglade_api::{Code, Outcome, Problem};
use tokio::time::sleep;

use super::answer::Refusal;
use super::attempts::{Attempts, Reason};
use super::caller::Caller;
use super::silent::Voice;
use super::tokens::Tokens;

/// The origin of a connection, which decides how its caller is identified.
#[derive(Clone)]
pub(crate) enum Origin {
    /// The Unix socket; the kernel has said who.
    Local(Caller),
    /// TCP; a token must say who.
    Remote(Keys, IpAddr),
}

/// The means to identify a caller over TCP.
#[derive(Clone)]
pub(crate) struct Keys {
    pub(super) tokens: Arc<Tokens>,
    pub(super) attempts: Arc<Attempts>,
    /// What browsers of this machine may do in the console without a token.
    pub(super) console_loopback: Option<Role>,
    pub(super) is_encrypted: bool,
}

pub(super) async fn guard(mut request: Request, next: Next) -> Response {
    let delay = delay(&request);
    if !delay.is_zero() {
        sleep(delay).await;
    }
    let is_change = is_change(request.method());
    let response = match admit(&request) {
        Ok(caller) => {
            if let Some(voice) = request.extensions().get::<Arc<Voice>>() {
                voice.spoke();
            }
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(problem) => Refusal(problem).into_response(),
    };
    match is_change {
        true => with_outcome(response),
        false => response,
    }
}

/// Returns whether a request may change something.
pub(super) fn is_change(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD)
}

/// Adds the outcome of the change to a problem. A refusal lacks it, because nothing was begun.
fn with_outcome(response: Response) -> Response {
    match response.extensions().get::<Problem>() {
        Some(problem) if problem.outcome.is_none() => Refusal(Problem {
            outcome: Some(Outcome::NotDone),
            ..problem.clone()
        })
        .into_response(),
        _ => response,
    }
}

/// Returns how long a token waits before it is checked, after unknown tokens from its address.
fn delay(request: &Request) -> Duration {
    let has_token = request.headers().contains_key(header::AUTHORIZATION);
    match request.extensions().get::<Origin>() {
        Some(Origin::Remote(keys, address)) if has_token => keys.attempts.delay(*address),
        _ => Duration::ZERO,
    }
}

fn admit(request: &Request) -> Result<Caller, Problem> {
    // First of all, so that a stranger learns nothing.
    let origin = request.extensions().get::<Origin>();
    let caller = match origin.expect("every connection has an origin") {
        Origin::Local(caller) => caller.clone(),
        Origin::Remote(keys, address) => {
            let found = authenticate(&keys.tokens, request.headers());
            found.map_err(|(reason, text)| {
                keys.attempts.failed(*address, reason);
                Problem::new(Code::Unauthorized, text)
            })?
        }
    };
    let path = request.uri().path();
    // Names mean nothing in a URL, so an escaped character in a path names nothing that exists.
    if path.contains('%') {
        return Err(no_such_path());
    }
    let route = find(request.method(), path);
    if let (Some(query), false) = (
        request.uri().query(),
        route.is_some_and(Route::takes_parameters),
    ) {
        let name = query.split(['=', '&']).next().unwrap_or_default();
        let text = "unknown parameter; this path takes none";
        let printable = name.chars().take(64).flat_map(char::escape_default);
        let name: String = printable.collect();
        return Err(Problem::of_field(Code::UnknownField, &name, text));
    }
    let needed = route.map_or(Role::ReadOnly, |route| route.role);
    if caller.role < needed {
        let text = format!(
            "{} has the role {}; this needs {needed}",
            caller.name, caller.role
        );
        return Err(Problem::new(Code::Forbidden, text));
    }
    Ok(caller)
}

/// Returns the caller that has the token of the request.
fn authenticate(tokens: &Tokens, headers: &HeaderMap) -> Result<Caller, (Reason, &'static str)> {
    let refuse = |text: &'static str| Err((Reason::NoToken, text));
    let Some(value) = headers.get(header::AUTHORIZATION) else {
        return refuse("no Authorization header; send 'Authorization: Bearer TOKEN'");
    };
    let bytes = value.as_bytes();
    let is_bearer = bytes
        .get(..7)
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"bearer "));
    if !is_bearer {
        return refuse("the Authorization header is not 'Bearer TOKEN'");
    }
    match tokens.find(&bytes[7..]) {
        Some((name, role)) => Ok(Caller::token(&name, role)),
        None => Err((Reason::UnknownToken, "the token is not known here")),
    }
}

/// Returns the row of the table that a request means, if any.
fn find(method: &Method, path: &str) -> Option<&'static Route> {
    let method = match *method {
        Method::HEAD => "GET",
        _ => method.as_str(),
    };
    let fits = |route: &&Route| {
        let (mut wanted, mut found) = (route.path.split('/'), path.split('/'));
        loop {
            match (wanted.next(), found.next()) {
                (None, None) => return true,
                (Some(wanted), Some(found)) if wanted == found => {}
                (Some(wanted), Some(_)) if wanted.starts_with('{') => {}
                _ => return false,
            }
        }
    };
    ROUTES
        .iter()
        .filter(|route| route.method == method)
        .find(fits)
}

/// Returns the problem of an unknown path.
pub(super) fn no_such_path() -> Problem {
    let text = "nothing has this path; see docs/reference/rest.md";
    Problem::new(Code::NoSuchPath, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_finds_its_row() {
        let path = |method: &Method, path: &str| find(method, path).map(|route| route.path);
        let lun = "/v1/volumes/v/luns/l";
        assert_eq!(
            path(&Method::PATCH, lun),
            Some("/v1/volumes/{volume}/luns/{lun}")
        );
        assert_eq!(path(&Method::HEAD, "/v1/status"), Some("/v1/status"));
        assert_eq!(path(&Method::POST, lun), None);
        assert_eq!(path(&Method::GET, "/v1/status/"), None);
    }

    #[test]
    fn devices_and_access_are_for_admins_and_looking_is_for_all() {
        for route in ROUTES {
            let expected = match (route.method, route.path) {
                ("GET", _) => Role::ReadOnly,
                (_, path) if path.starts_with("/v1/aggregates") => Role::Admin,
                (_, path) if path.starts_with("/v1/spares") => Role::Admin,
                (_, path) if path.starts_with("/v1/host") => Role::Admin,
                (_, path) if path.starts_with("/v1/tokens") => Role::Admin,
                (_, path) if path.contains("/mappings") => Role::Admin,
                _ => Role::Operator,
            };
            assert_eq!(route.role, expected, "{} {}", route.method, route.path);
        }
    }

    #[test]
    fn a_refusal_says_that_nothing_was_done() {
        let refusal = |problem: Problem| with_outcome(Refusal(problem).into_response());
        let outcome = |response: Response| {
            response
                .extensions()
                .get::<Problem>()
                .and_then(|problem| problem.outcome)
        };
        let refused = refusal(Problem::not_found("volume", "v"));
        assert_eq!(refused.status(), 404);
        assert_eq!(outcome(refused), Some(Outcome::NotDone));
        let made = refusal(Problem::not_found("volume", "v").after_change());
        assert_eq!(made.status(), 404);
        assert_eq!(outcome(made), Some(Outcome::Done));
    }
}
