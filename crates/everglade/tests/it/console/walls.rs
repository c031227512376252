//! The walls of the console: who is let in, and what other sites cannot do.

use crate::manage::ask_json;
use crate::operate::http::{self, Answer};
use crate::operate::remote;
use crate::running::{Server, TestDir, code, stderr};

const SCRUB: &str = "/do/aggregate-scrub/aggr0";
const FORM: &str = "Content-Type: application/x-www-form-urlencoded\r\n";

/// What a page's forms carry.
#[track_caller]
fn form_key(page: &Answer) -> String {
    let (_, rest) = page
        .body
        .split_once("name=\"form_key\" value=\"")
        .expect("a form");
    rest.split('"').next().expect("a key").to_owned()
}

fn loopback(dir: &TestDir, role: &str) -> (Server, String) {
    let size = ["--lun-size", "64MiB", "--aggregate-size", "2GiB"];
    let more = ["--api-tcp", ":0", "--console-loopback", role];
    let server = dir.serve(&[size, more].concat());
    let address = server.address("api-tcp");
    (server, address)
}

#[test]
fn a_visitor_from_elsewhere_gives_a_token_and_may_what_its_role_may() {
    let dir = TestDir::new();
    let (_server, address) = remote::serve(&dir, &[]);
    let get =
        |path: &str, headers: &str| http::at_host((&address, "store"), "GET", path, headers, "");
    let post = |path: &str, headers: &str, body: &str| {
        http::at_host(
            (&address, "store"),
            "POST",
            path,
            &format!("{FORM}{headers}"),
            body,
        )
    };
    let nobody = get("/", "");
    assert_eq!(
        (nobody.status, nobody.header("location")),
        (303, Some("/login"))
    );
    assert_eq!(
        get("/volumes", "Cookie: everglade-console=00\r\n").status,
        303
    );
    assert_eq!(get("/login", "").status, 200);
    assert_eq!(post("/login", "", "token=x").status, 401);
    assert_eq!(post("/do/volume-create", "", "name=v").status, 401);

    let log_in = |token: &str| {
        let answer = post("/login", "", &format!("token={token}"));
        assert_eq!(answer.status, 303, "{answer:?}");
        let cookie = answer.header("set-cookie").expect("a cookie");
        for part in ["HttpOnly", "SameSite=Strict", "Path=/"] {
            assert!(cookie.contains(part), "{cookie}");
        }
        format!("Cookie: {}\r\n", cookie.split(';').next().expect("a value"))
    };
    let looker = log_in(remote::LOOKER);
    let page = get("/volumes/vol0", &looker);
    assert_eq!(page.status, 200);
    assert!(
        page.body.contains("token looker (read-only)"),
        "{}",
        page.body
    );
    assert!(
        !page.body.contains("/do/"),
        "no change is offered: {}",
        page.body
    );
    assert_eq!(get("/do/volume-create", &looker).status, 403);
    let create = format!("name=v&aggregate=aggr0&form_key={}", form_key(&page));
    assert_eq!(post("/do/volume-create", &looker, &create).status, 403);

    let worker = log_in(remote::WORKER);
    let page = get("/do/volume-create", &worker);
    let mine = form_key(&page);
    let create = |key: &str| {
        format!("name=v&aggregate=aggr0&sync=standard&snapshot_policy=none&form_key={key}")
    };
    // The key of another visitor, or none.
    for key in ["", &form_key(&get("/volumes", &looker))] {
        assert_eq!(post("/do/volume-create", &worker, &create(key)).status, 403);
    }
    let elsewhere = format!("{worker}Origin: http://evil.example\r\n");
    assert_eq!(
        post("/do/volume-create", &elsewhere, &create(&mine)).status,
        403
    );
    let made = post("/do/volume-create", &worker, &create(&mine));
    assert_eq!(
        made.header("location"),
        Some("/volumes?done=created"),
        "{made:?}"
    );
    let history = ask_json(&dir, &["history"]).to_string();
    assert!(history.contains("token worker"), "{history}");

    let out = post("/logout", &worker, &format!("form_key={mine}"));
    assert_eq!(out.status, 303);
    assert_eq!(get("/", &worker).status, 303, "the login is over");
}

#[test]
fn the_loopback_needs_no_token_if_that_is_configured_but_the_right_name() {
    let dir = TestDir::new();
    let (_server, address) = loopback(&dir, "operator");
    let ask = |host: &str, method: &str, path: &str, headers: &str, body: &str| {
        http::at_host((&address, host), method, path, headers, body)
    };
    let page = ask("localhost", "GET", "/do/snapshot-create/vol0", "", "");
    assert_eq!(page.status, 200);
    let policy = page.header("content-security-policy").expect("a policy");
    assert!(policy.starts_with("default-src 'none'"), "{policy}");
    // A site that lets its name point to this machine.
    assert_eq!(ask("evil.example", "GET", "/", "", "").status, 403);
    // A proxy at this machine, whose clients may be anywhere.
    let proxied = ask("localhost", "GET", "/", "X-Forwarded-For: 10.0.0.1\r\n", "");
    assert_eq!(proxied.header("location"), Some("/login"), "{proxied:?}");
    // The REST interface asks for a token all the same.
    assert_eq!(ask("localhost", "GET", "/v1/status", "", "").status, 401);

    let (key, send) = (form_key(&page), "/do/snapshot-create/vol0");
    let body = format!("name=s&form_key={key}&key=once");
    assert_eq!(ask("localhost", "POST", send, FORM, "name=s").status, 403);
    let cross = format!("{FORM}Sec-Fetch-Site: cross-site\r\n");
    assert_eq!(ask("localhost", "POST", send, &cross, &body).status, 403);
    // A button that is pressed twice makes one change, and both answers say so.
    for _ in 0..2 {
        assert_eq!(ask("localhost", "POST", send, FORM, &body).status, 303);
    }
    let other = format!("name=s&form_key={key}&key=other");
    let again = ask("localhost", "POST", send, FORM, &other);
    assert_eq!(again.status, 409);
    assert!(again.body.contains("EVG-"), "{}", again.body);

    // An object that has changed since the form was opened is left alone.
    let form = ask("localhost", "GET", "/do/lun-resize/vol0/lun0", "", "");
    let (_, rest) = form
        .body
        .split_once("name=\"tag\" value=\"")
        .expect("a tag");
    let tag = rest
        .split('"')
        .next()
        .expect("a tag")
        .replace("&quot;", "%22");
    let resize = |size: &str| {
        let body = format!("size={size}&tag={tag}&form_key={key}");
        ask("localhost", "POST", "/do/lun-resize/vol0/lun0", FORM, &body).status
    };
    assert_eq!(resize("128MiB"), 303);
    assert_eq!(resize("256MiB"), 412);
    assert_eq!(resize("large"), 422);
}

#[test]
fn a_volume_is_changed_in_a_form() {
    let dir = TestDir::new();
    let (_server, address) = loopback(&dir, "operator");
    let at = (address.as_str(), "localhost");
    let form = http::at_host(at, "GET", "/do/volume-modify/vol0", "", "");
    let body = format!(
        "sync=always&snapshot_policy=default&comment=a+test&form_key={}",
        form_key(&form)
    );
    let changed = http::at_host(at, "POST", "/do/volume-modify/vol0", FORM, &body);
    let next = changed.header("location");
    assert_eq!(next, Some("/volumes/vol0?done=modified"), "{changed:?}");
    let volume = ask_json(&dir, &["volume", "show", "vol0"]);
    let found = (volume["sync"].as_str(), volume["snapshot_policy"].as_str());
    assert_eq!(found, (Some("always"), Some("default")), "{volume}");
    assert_eq!(volume["comment"], "a test", "{volume}");

    // Its limit, with the rates that it has now.
    let path = "/do/volume-limit/vol0";
    let form = http::at_host(at, "GET", path, "", "");
    let key = form_key(&form);
    let set = format!("policy=none&iops=700&bandwidth=50MiB&form_key={key}");
    let changed = http::at_host(at, "POST", path, FORM, &set);
    assert_eq!(changed.status, 303, "{changed:?}");
    let limits = ask_json(&dir, &["qos", "show"]);
    assert_eq!(limits["limits"][0]["iops"], 700, "{limits}");
    let form = http::at_host(at, "GET", path, "", "");
    assert!(form.body.contains("value=\"50 MiB\""), "{}", form.body);
    let bad = format!("policy=none&iops=0&form_key={key}");
    let refused = http::at_host(at, "POST", path, FORM, &bad);
    assert!(refused.body.contains("use a whole number"), "{refused:?}");
    let clear = format!("policy=none&iops=&form_key={key}");
    assert_eq!(http::at_host(at, "POST", path, FORM, &clear).status, 303);
    let limits = ask_json(&dir, &["qos", "show"]);
    assert_eq!(limits["limits"], serde_json::json!([]));

    // Aggregates are for administrators.
    let page = http::at_host(at, "GET", "/aggregates/aggr0", "", "");
    assert!(!page.body.contains(SCRUB), "{}", page.body);
    let begun = http::at_host(at, "POST", SCRUB, FORM, &format!("form_key={key}"));
    assert_eq!(begun.status, 403, "{begun:?}");
}

#[test]
fn an_administrator_begins_a_scrub_in_a_form() {
    let dir = TestDir::new();
    let (_server, address) = loopback(&dir, "admin");
    let at = (address.as_str(), "localhost");
    let page = http::at_host(at, "GET", "/aggregates/aggr0", "", "");
    assert!(page.body.contains(SCRUB), "{}", page.body);
    let form = http::at_host(at, "GET", SCRUB, "", "");
    let body = format!("form_key={}", form_key(&form));
    let begun = http::at_host(at, "POST", SCRUB, FORM, &body);
    assert_eq!(
        begun.header("location"),
        Some("/jobs?done=begun"),
        "{begun:?}"
    );
    let history = ask_json(&dir, &["history", "--where", "what=scrub start"]);
    assert_eq!(history["changes"][0]["object"], "aggr0", "{history}");
}

#[test]
fn who_may_only_look_at_the_loopback_changes_nothing() {
    let dir = TestDir::new();
    let (_server, address) = loopback(&dir, "read-only");
    let get = |path: &str| http::at_host((&address, "[::1]:80"), "GET", path, "", "");
    assert_eq!(get("/volumes/vol0").status, 200);
    assert_eq!(get("/do/volume-delete/vol0").status, 403);
}

#[test]
fn the_console_is_there_at_the_unix_socket_for_tunnels() {
    let dir = TestDir::new();
    let _server = crate::manage::serve(&dir);
    let stream = http::open(&dir);
    let page = http::over_as(stream, "localhost:8080", "GET", "/volumes/vol0");
    assert_eq!(page.status, 200);
    assert!(page.body.contains("(admin)"), "{}", page.body);
}

#[test]
fn a_console_that_could_not_be_reached_is_refused() {
    let dir = TestDir::new();
    let refused = dir.serve_in_vain(&["--console-loopback", "operator", "--api-tcp", "off"]);
    assert_ne!(code(&refused), 0);
    let said = stderr(&refused);
    assert!(said.contains("api.tcp, which is off"), "{said}");
    let refused = dir.serve_in_vain(&["--console-loopback", "owner"]);
    assert!(
        stderr(&refused).contains("read-only, operator or admin"),
        "{}",
        stderr(&refused)
    );
}
