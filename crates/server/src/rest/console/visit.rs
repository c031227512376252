//! Visitors of the console: who a browser speaks for.
//!
//! | door | who |
//! | --- | --- |
//! | Unix socket (through an SSH tunnel, say) | the user that the kernel names |
//! | TCP, with the cookie of a login | the holder of the token |
//! | TCP on the loopback, if `--console-loopback` gives browsers of this machine a role | anybody at this machine, but not through a proxy |
//! | TCP otherwise | nobody: the page asks for a token |
//!
//! A login is a random number that the browser keeps as a cookie. The memory has only its hash. It
//! ends an hour after its last use, after twelve hours, with a logout, when its token is revoked,
//! and when the daemon stops.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{FromRequest, FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use everglade_api::openapi::Role;
use everglade_console::{Visitor, entrance, frame};
use everglade_env::lock::Mutex;
use tokio::time::sleep;

use super::super::attempts::Reason;
use super::super::body::Body;
use super::super::caller::Caller;
use super::super::guard::Origin;
use super::super::silent::Voice;
use super::super::tokens::random;
use super::Console;
use super::filled::Filled;

const COOKIE: &str = "everglade-console";
/// A login without a request for this long is over.
const IDLE_MAX: Duration = Duration::from_secs(3600);
/// Longest time of a login.
const LIFE_MAX: Duration = Duration::from_secs(12 * 3600);
/// Logins at a time. The one that was used longest ago goes first.
const LOGINS_MAX: usize = 256;

/// The logins, and the secret that keys of forms are made from.
pub(super) struct Visits {
    secret: [u8; 32],
    logins: Mutex<HashMap<blake3::Hash, Login>>,
}

#[derive(Clone)]
struct Login {
    name: String,
    role: Role,
    since: Instant,
    used: Instant,
}

/// Somebody who may look.
pub(super) struct Visit {
    pub(super) caller: Caller,
    pub(super) visitor: Visitor,
}

impl Visits {
    pub(super) fn new() -> Visits {
        Visits {
            secret: random(),
            logins: Mutex::default(),
        }
    }

    /// Begins a login; returns what the browser keeps.
    fn begin(&self, name: &str, role: Role) -> String {
        let kept = blake3::Hash::from_bytes(random()).to_hex().to_string();
        let now = Instant::now();
        let mut logins = self.logins.lock();
        logins.retain(|_, login| login.is_valid(now));
        if logins.len() >= LOGINS_MAX {
            let oldest = logins.iter().min_by_key(|(_, login)| login.used);
            if let Some(oldest) = oldest.map(|(key, _)| *key) {
                logins.remove(&oldest);
            }
        }
        let login = Login {
            name: name.to_owned(),
            role,
            since: now,
            used: now,
        };
        logins.insert(blake3::hash(kept.as_bytes()), login);
        kept
    }

    fn find(&self, kept: &str) -> Option<Login> {
        let now = Instant::now();
        let mut logins = self.logins.lock();
        let login = logins.get_mut(&blake3::hash(kept.as_bytes()))?;
        if !login.is_valid(now) {
            return None;
        }
        login.used = now;
        Some(login.clone())
    }

    fn end(&self, kept: &str) {
        self.logins.lock().remove(&blake3::hash(kept.as_bytes()));
    }

    /// The key of forms of one visitor.
    fn form_key(&self, of: &str) -> String {
        blake3::keyed_hash(&self.secret, of.as_bytes()).to_hex()[..32].to_owned()
    }
}

impl Login {
    fn is_valid(&self, now: Instant) -> bool {
        now.duration_since(self.used) < IDLE_MAX && now.duration_since(self.since) < LIFE_MAX
    }
}

/// Why a visitor is shown something else than what was asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// A token is needed.
    LogIn,
    /// A page with the reason.
    Told(StatusCode, &'static str, String),
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        match self {
            Refused::LogIn => Redirect::to("/login").into_response(),
            Refused::Told(status, title, text) => {
                (status, Html(frame::refusal(title, &text))).into_response()
            }
        }
    }
}

impl FromRequestParts<Arc<Console>> for Visit {
    type Rejection = Refused;

    async fn from_request_parts(
        parts: &mut Parts,
        console: &Arc<Console>,
    ) -> Result<Visit, Refused> {
        identify(parts, &console.visits)
    }
}

/// Finds out who asks.
fn identify(parts: &Parts, visits: &Visits) -> Result<Visit, Refused> {
    refuse_other_sites(parts)?;
    let is_forwarded = is_forwarded(&parts.headers);
    let origin = parts.extensions.get::<Origin>();
    let caller = match origin.expect("every connection has an origin") {
        Origin::Local(_) if is_forwarded => {
            let text = "A proxy sent this, so nobody knows who asks. Let the proxy use [api] tcp, \
                        where the console asks for a token.";
            return Err(refusal(StatusCode::FORBIDDEN, "Through a proxy", text));
        }
        Origin::Local(caller) => caller.clone(),
        Origin::Remote(keys, address) => {
            let kept = cookie(&parts.headers);
            let login = kept.and_then(|kept| Some((kept, visits.find(kept)?)));
            // A login ends with its token.
            let login = login.filter(|(_, login)| keys.tokens.has(&login.name, login.role));
            if let Some((kept, login)) = login {
                speak(parts);
                let caller = Caller::token(&login.name, login.role);
                return Ok(visit(caller, visits, kept, true));
            }
            match keys.console_loopback {
                Some(role) if address.to_canonical().is_loopback() && !is_forwarded => {
                    speak(parts);
                    Caller::console(role)
                }
                _ if parts.method == Method::GET => {
                    return Err(Refused::LogIn);
                }
                _ => {
                    let text = "Your login is over, so nothing was changed. Log in again.";
                    return Err(refusal(StatusCode::UNAUTHORIZED, "Not logged in", text));
                }
            }
        }
    };
    if !names_loopback(&parts.headers, &parts.uri) {
        let text = "Without a token, the console is at 'localhost' only. Use that name in the \
                    address.";
        return Err(refusal(StatusCode::FORBIDDEN, "Wrong name", text));
    }
    let name = caller.name.clone();
    Ok(visit(caller, visits, &name, false))
}

fn visit(caller: Caller, visits: &Visits, of: &str, can_leave: bool) -> Visit {
    let visitor = Visitor {
        name: caller.name.clone(),
        role: caller.role,
        form_key: visits.form_key(of),
        can_leave,
    };
    Visit { caller, visitor }
}

/// The connection keeps its place: its caller is known.
fn speak(parts: &Parts) {
    if let Some(voice) = parts.extensions.get::<Arc<Voice>>() {
        voice.spoke();
    }
}

/// Refuses a change that another site told the browser to send.
fn refuse_other_sites(parts: &Parts) -> Result<(), Refused> {
    let is_change = !matches!(parts.method, Method::GET | Method::HEAD);
    let text = |name| parts.headers.get(name).and_then(|it| it.to_str().ok());
    let site = text("sec-fetch-site");
    let is_same_site = site.is_none_or(|site| matches!(site, "same-origin" | "none"));
    let host = host(&parts.headers, &parts.uri);
    let is_same_origin = text("origin").is_none_or(|origin| {
        let of_it = origin.split_once("://").map(|(_, host)| host);
        of_it.is_some() && of_it == host
    });
    if is_change && !(is_same_site && is_same_origin) {
        let text = "Another site sent this form, so nothing was changed.";
        return Err(refusal(StatusCode::FORBIDDEN, "Refused", text));
    }
    Ok(())
}

fn host<'a>(headers: &'a HeaderMap, uri: &'a Uri) -> Option<&'a str> {
    let header = headers.get(header::HOST).and_then(|it| it.to_str().ok());
    header.or_else(|| uri.authority().map(|it| it.as_str()))
}

/// Returns whether a request calls this host by a name of the loopback.
fn names_loopback(headers: &HeaderMap, uri: &Uri) -> bool {
    let Some(host) = host(headers, uri) else {
        return false;
    };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|c| c.is_ascii_digit()) => name,
        _ => host,
    };
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    name == "localhost" || bare.parse::<IpAddr>().is_ok_and(|it| it.is_loopback())
}

/// Returns true if a proxy passed the request on: then the sender may be on any machine.
fn is_forwarded(headers: &HeaderMap) -> bool {
    const MARKS: [&str; 4] = ["forwarded", "via", "x-forwarded-for", "x-real-ip"];
    MARKS.iter().any(|mark| headers.contains_key(*mark))
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    let texts = headers.get_all(header::COOKIE).into_iter();
    let pairs = texts.filter_map(|it| it.to_str().ok());
    let pairs = pairs.flat_map(|text| text.split(';'));
    let mut pairs = pairs.filter_map(|pair| pair.trim().split_once('='));
    pairs
        .find(|(name, _)| *name == COOKIE)
        .map(|(_, kept)| kept)
}

/// Refuses with a page that says why.
pub(super) fn refusal(status: StatusCode, title: &'static str, text: impl Into<String>) -> Refused {
    Refused::Told(status, title, text.into())
}

/// Checks that a form is one of ours.
pub(super) fn check_form(visitor: &Visitor, filled: &Filled) -> Result<(), Refused> {
    let given = filled.text("form_key");
    let same = blake3::hash(given.as_bytes()) == blake3::hash(visitor.form_key.as_bytes());
    match same {
        true => Ok(()),
        false => {
            let text = "This form is from before the daemon's start or your login. Nothing was \
                        changed; open the form again.";
            Err(refusal(StatusCode::FORBIDDEN, "Form too old", text))
        }
    }
}

/// `POST /login`: takes a token.
pub(super) async fn log_in(State(console): State<Arc<Console>>, request: Request) -> Response {
    let (parts, stream) = request.into_parts();
    let Some(Origin::Remote(keys, address)) = parts.extensions.get::<Origin>().cloned() else {
        return Redirect::to("/").into_response();
    };
    if let Err(refused) = refuse_other_sites(&parts) {
        return refused.into_response();
    }
    let delay = keys.attempts.delay(address);
    if !delay.is_zero() {
        sleep(delay).await;
    }
    let body = match Body::from_request(Request::new(stream), &()).await {
        Ok(Body(body)) => body,
        Err(refused) => return refused.into_response(),
    };
    let filled = Filled::parse(&body);
    let token = filled.text("token").trim();
    let Some((name, role)) = keys.tokens.find(token.as_bytes()) else {
        keys.attempts.failed(address, Reason::UnknownToken);
        let page = entrance::page(Some("The token is not known here."));
        return (StatusCode::UNAUTHORIZED, Html(page)).into_response();
    };
    speak(&parts);
    let kept = console.visits.begin(&name, role);
    with_cookie(&kept, LIFE_MAX.as_secs(), keys.is_encrypted)
}

/// `POST /logout`.
pub(super) async fn log_out(
    State(console): State<Arc<Console>>,
    Visit { visitor, .. }: Visit,
    request: Request,
) -> Response {
    let (parts, stream) = request.into_parts();
    let filled = match Body::from_request(Request::new(stream), &()).await {
        Ok(Body(body)) => Filled::parse(&body),
        Err(refused) => return refused.into_response(),
    };
    if let Err(refused) = check_form(&visitor, &filled) {
        return refused.into_response();
    }
    if let Some(kept) = cookie(&parts.headers) {
        console.visits.end(kept);
    }
    with_cookie("", 0, false)
}

fn with_cookie(kept: &str, seconds: u64, is_encrypted: bool) -> Response {
    let secure = if is_encrypted { "; Secure" } else { "" };
    let text =
        format!("{COOKIE}={kept}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
    let cookie = HeaderValue::from_str(&text).expect("hexadecimal digits");
    let mut response = Redirect::to("/").into_response();
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let values = pairs.iter().map(|(name, value)| {
            let value = HeaderValue::from_str(value).expect("a value");
            (header::HeaderName::from_static(name), value)
        });
        values.collect()
    }

    #[test]
    fn only_names_of_the_loopback_need_no_token() {
        let names = |host| names_loopback(&headers(&[("host", host)]), &Uri::default());
        for good in [
            "localhost",
            "localhost:9811",
            "127.0.0.1:1",
            "[::1]:9811",
            "127.8.8.8",
        ] {
            assert!(names(good), "{good}");
        }
        for bad in [
            "evil.example",
            "localhost.evil.example:9811",
            "10.0.0.1",
            "",
            "::1.evil",
        ] {
            assert!(!names(bad), "{bad}");
        }
        assert!(!names_loopback(&HeaderMap::new(), &Uri::default()));
    }

    #[test]
    fn changes_of_other_sites_are_refused() {
        let refused = |method: Method, pairs: &[(&'static str, &str)]| {
            let (mut parts, ()) = axum::http::Request::new(()).into_parts();
            parts.method = method;
            parts.headers = headers(pairs);
            refuse_other_sites(&parts).is_err()
        };
        let host = ("host", "localhost:9811");
        let good = [
            host,
            ("origin", "http://localhost:9811"),
            ("sec-fetch-site", "same-origin"),
        ];
        assert!(!refused(Method::POST, &good));
        assert!(!refused(Method::POST, &[host]), "not a browser");
        for bad in [
            ("origin", "http://evil.example"),
            ("origin", "http://localhost:80"),
            ("origin", "null"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ] {
            assert!(refused(Method::POST, &[host, bad]), "{bad:?}");
            assert!(!refused(Method::GET, &[host, bad]), "{bad:?}");
        }
    }

    #[test]
    fn a_login_is_found_by_its_cookie_until_it_ends() {
        let visits = Visits::new();
        let kept = visits.begin("a", Role::Operator);
        let sent = format!("x=y; {COOKIE}={kept}");
        let headers = headers(&[("cookie", &sent)]);
        let found = cookie(&headers).and_then(|kept| visits.find(kept));
        assert_eq!(found.map(|login| login.name), Some("a".to_owned()));
        assert!(visits.find("").is_none());
        visits.end(&kept);
        assert!(visits.find(&kept).is_none());
        for _ in 0..LOGINS_MAX + 8 {
            visits.begin("b", Role::ReadOnly);
        }
        assert_eq!(visits.logins.lock().len(), LOGINS_MAX);
    }

    #[test]
    fn keys_of_forms_differ_between_visitors_and_starts() {
        let visits = Visits::new();
        assert_eq!(visits.form_key("a"), visits.form_key("a"));
        assert_ne!(visits.form_key("a"), visits.form_key("b"));
        assert_ne!(visits.form_key("a"), Visits::new().form_key("a"));
    }

    #[test]
    fn an_old_login_is_over() {
        let now = Instant::now();
        let login = |since: u64, used: u64| Login {
            name: String::new(),
            role: Role::ReadOnly,
            since: now,
            used: now + Duration::from_secs(used - since),
        };
        let later = |seconds| now + Duration::from_secs(seconds);
        assert!(login(0, 10).is_valid(later(100)));
        assert!(!login(0, 10).is_valid(later(3_700)), "idle");
        assert!(!login(0, 43_000).is_valid(later(43_300)), "long");
    }
}
