//! Administration over TCP: tokens, roles, and nothing without them.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::http;
use crate::manage::{ask, ask_json};
use crate::running::{Server, TestDir, code, stderr, stdout};
use crate::tools::{have, must};

pub(crate) const LOOKER: &str = "looker-0123456789abcdef";
pub(crate) const WORKER: &str = "worker-0123456789abcdef";
const ROOT: &str = "adminn-0123456789abcdef";

fn tokens(dir: &TestDir) -> PathBuf {
    let path = dir.file("tokens");
    let text = format!(
        "# NAME ROLE TOKEN\nlooker read-only {LOOKER}\nworker operator {WORKER}\nroot admin \
        {ROOT}\n"
    );
    fs::write(&path, text).expect("write");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("chmod");
    path
}

pub(crate) fn serve(dir: &TestDir, more: &[&str]) -> (Server, String) {
    let tokens = tokens(dir);
    let args = [
        "--aggregate-size",
        "2GiB",
        "--lun-size",
        "64MiB",
        "--api-tcp",
        ":0",
        "--api-tokens",
        tokens.to_str().expect("UTF-8"),
    ];
    let server = dir.serve(&[&args, more].concat());
    let address = server.address("api-tcp");
    (server, address)
}

#[test]
fn a_token_says_who_asks_and_its_role_what_they_may() {
    let dir = TestDir::new();
    let (server, address) = serve(&dir, &[]);
    let ask_as = |token: &str, method: &str, path: &str| {
        http::tcp(
            &address,
            method,
            path,
            &format!("Authorization: Bearer {token}\r\n"),
        )
    };
    for headers in [
        "",
        "Authorization: Basic YTpi\r\n",
        "Authorization: Bearer\r\n",
        "Authorization: Bearer x\r\n",
    ] {
        let answer = http::tcp(&address, "GET", "/v1/status", headers);
        assert_eq!(
            (answer.status, &answer.json()["code"]),
            (401, &"EVG-1009".into()),
            "{headers}"
        );
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
        // A stranger does not even learn which paths there are.
        assert_eq!(http::tcp(&address, "GET", "/nix", headers).status, 401);
    }
    for token in [LOOKER, WORKER, ROOT] {
        assert_eq!(
            ask_as(token, "GET", "/v1/status").json()["health"],
            "healthy"
        );
    }
    let lun = "/v1/volumes/vol0/luns/lun0";
    let refused = ask_as(LOOKER, "DELETE", lun);
    assert_eq!(
        (refused.status, &refused.json()["code"]),
        (403, &"EVG-1010".into())
    );
    assert_eq!(
        ask_as(WORKER, "POST", "/v1/aggregates").json()["code"],
        "EVG-1010"
    );
    assert_eq!(
        ask_as(ROOT, "POST", "/v1/aggregates").json()["code"],
        "EVG-1001"
    );
    assert_eq!(ask_as(WORKER, "DELETE", lun).status, 202);
    // The socket needs none, and the history knows who it was.
    let history = ask_json(&dir, &["history", "--where", "what=lun delete"]);
    assert_eq!(history["changes"][0]["who"], "token worker");
    ask(&dir, &["status"]);
    for token in [LOOKER, WORKER, ROOT] {
        assert!(!server.log().contains(token), "tokens stay out of the log");
    }
    server.stop();
}

#[test]
fn tokens_that_others_can_read_refuse_the_start() {
    let dir = TestDir::new();
    let path = tokens(&dir);
    let text = path.to_str().expect("UTF-8");
    let args = ["--api-tcp", ":0", "--api-tokens", text];
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("chmod");
    let refused = dir.serve_in_vain(&args);
    assert_eq!(code(&refused), 1);
    assert!(
        stderr(&refused).contains("chmod 600"),
        "{}",
        stderr(&refused)
    );
    assert!(
        !dir.data_dir().join("state.toml").exists(),
        "nothing was made"
    );
    // The check of the configuration says the same without a start.
    let checked = dir.run(&["config", "check", "--api-tcp", ":0", "--api-tokens", text]);
    assert_eq!(code(&checked), 1);
    assert!(
        stderr(&checked).contains("chmod 600"),
        "{}",
        stderr(&checked)
    );
}

/// Asks through TLS as openssl does it.
fn ask_encrypted(address: &str, authority: &Path) -> String {
    let mut client = Command::new("openssl")
        .args([
            "s_client",
            "-quiet",
            "-verify_return_error",
            "-connect",
            address,
        ])
        .arg("-CAfile")
        .arg(authority)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("openssl runs");
    let request =
        format!("GET /v1/status HTTP/1.1\r\nHost: e\r\nAuthorization: Bearer {LOOKER}\r\n\r\n");
    let mut stdin = client.stdin.take().expect("a pipe");
    // It may have refused the certificate by now.
    let _ = stdin.write_all(request.as_bytes());
    let output = client.wait_with_output().expect("it ends");
    stdout(&output)
}

/// A folder with a certificate of this machine, which vouches for itself.
pub(crate) fn certificates(dir: &TestDir) -> PathBuf {
    let folder = dir.file("tls");
    fs::create_dir(&folder).expect("create");
    let file = |name: &str| folder.join(name).to_str().expect("UTF-8").to_owned();
    let (key, certificate) = (file("server-key.pem"), file("server-cert.pem"));
    let new = [
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
    ];
    let rest = [
        "-nodes",
        "-days",
        "30",
        "-subj",
        "/CN=e",
        "-addext",
        "subjectAltName=IP:127.0.0.1",
    ];
    must(
        "openssl",
        &[&new[..], &rest, &["-keyout", &key, "-out", &certificate]].concat(),
    );
    folder
}

#[test]
fn with_certificates_the_port_is_encrypted_and_nothing_else() {
    if !have(&["openssl"]) {
        return;
    }
    let dir = TestDir::new();
    let folder = certificates(&dir);
    let file = |name: &str| folder.join(name).to_str().expect("UTF-8").to_owned();
    let (key, certificate) = (file("server-key.pem"), file("server-cert.pem"));
    let text = folder.to_str().expect("UTF-8").to_owned();
    let (server, address) = serve(&dir, &["--api-tls-certificates", &text]);
    let answer = ask_encrypted(&address, Path::new(&certificate));
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.contains("healthy"),
        "{answer}"
    );
    let bearer = format!("Authorization: Bearer {LOOKER}\r\n");
    let plain = http::tcp(&address, "GET", "/v1/status", &bearer);
    assert_eq!(plain.status, 0, "{plain:?}");
    // Half a handshake costs others nothing.
    let silent: Vec<_> = (0..8)
        .map(|_| std::net::TcpStream::connect(&address).expect("a connection"))
        .collect();
    let answer = ask_encrypted(&address, Path::new(&certificate));
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    drop(silent);
    server.stop();

    fs::remove_file(&key).expect("remove");
    let tokens = dir.file("tokens");
    let args = [
        "--api-tcp",
        ":0",
        "--api-tls-certificates",
        &text,
        "--api-tokens",
    ];
    let args = [&args[..], &[tokens.to_str().expect("UTF-8")]].concat();
    let refused = dir.serve_in_vain(&args);
    assert_eq!(code(&refused), 1);
    assert!(
        stderr(&refused).contains("server-key.pem"),
        "{}",
        stderr(&refused)
    );
    let checked = dir.run(&[&["config", "check"], &args[..]].concat());
    assert_eq!(code(&checked), 1, "the check says so too");
}

#[test]
fn tokens_are_made_and_revoked_while_the_daemon_runs() {
    let dir = TestDir::new();
    let args = ["--aggregate-size", "2GiB", "--api-tcp", ":0"];
    let server = dir.serve(&args);
    let said = server.log();
    assert!(said.contains("everglade token create NAME"), "{said}");
    let status = |server: &Server, token: &str| {
        let header = format!("Authorization: Bearer {token}\r\n");
        http::tcp(&server.address("api-tcp"), "GET", "/v1/status", &header).status
    };
    let token = ask(&dir, &["token", "create", "backup", "--role", "operator"]);
    let token = token.trim();
    assert!(token.len() >= 32, "{token}");
    assert_eq!(status(&server, token), 200);
    // Who has the role of an operator makes no tokens.
    let header = format!("Authorization: Bearer {token}\r\n");
    let refused = http::tcp(&server.address("api-tcp"), "POST", "/v1/tokens", &header);
    assert_eq!(refused.json()["code"], "EVG-1010");
    let listed = ask_json(&dir, &["token", "list"]);
    assert_eq!(listed["tokens"][0]["role"], "operator", "{listed}");
    assert!(!listed.to_string().contains(token), "{listed}");
    refused_as_taken(&dir);
    // It outlives the daemon, and neither files nor logs have it.
    assert!(!server.log().contains(token));
    server.stop();
    let kept = fs::read_to_string(dir.data_dir().join("tokens.toml")).expect("kept");
    assert!(!kept.contains(token), "{kept}");
    let server = dir.serve(&args);
    assert_eq!(status(&server, token), 200);
    ask(&dir, &["token", "revoke", "backup"]);
    assert_eq!(status(&server, token), 401);
    let history = ask_json(&dir, &["history", "--where", "object=backup"]);
    let what = |index: usize| history["changes"][index]["what"].clone();
    assert_eq!(
        (what(0), what(1)),
        ("token create".into(), "token revoke".into())
    );
    server.stop();
}

fn refused_as_taken(dir: &TestDir) {
    let create = ["token", "create", "backup", "--role", "admin"];
    crate::manage::refused(dir, &create, 5, &["token backup exists", "EVG-2002"]);
    let create = ["token", "create", "other", "--role", "root"];
    crate::manage::refused(dir, &create, 2, &["is not a role"]);
    crate::manage::refused(dir, &["token", "revoke", "nix"], 4, &["no token nix"]);
}
