//! The command line asks a daemon on another machine: an endpoint, a token, and whom to trust.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Output;

use super::remote::{LOOKER, WORKER, certificates, serve};
use crate::running::{TestDir, code, everglade, stderr, stdout};
use crate::tools::have;

fn token_file(dir: &TestDir, name: &str, token: &str) -> PathBuf {
    let path = dir.file(name);
    fs::write(&path, format!("{token}\n")).expect("write");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("chmod");
    path
}

#[test]
fn verbs_work_from_afar_with_a_token_and_an_authority() {
    if !have(&["openssl"]) {
        return;
    }
    let dir = TestDir::new();
    let folder = certificates(&dir);
    let (server, address) = serve(
        &dir,
        &["--api-tls-certificates", folder.to_str().expect("UTF-8")],
    );
    // Another machine has no data directory of the daemon.
    let elsewhere = TestDir::new();
    let endpoint = format!("https://{address}");
    let worker = token_file(&elsewhere, "worker", WORKER);
    let looker = token_file(&elsewhere, "looker", LOOKER);
    let ca = folder.join("server-cert.pem");
    let run = |given: &[&str], args: &[&str]| -> Output { elsewhere.run(&[given, args].concat()) };
    let text = |path: &PathBuf| path.to_str().expect("UTF-8").to_owned();
    let (worker, looker, ca) = (text(&worker), text(&looker), text(&ca));
    let as_worker = [
        "--endpoint",
        &endpoint,
        "--token-file",
        &worker,
        "--ca",
        &ca,
    ];
    let as_looker = [
        "--endpoint",
        &endpoint,
        "--token-file",
        &looker,
        "--ca",
        &ca,
    ];

    let made = run(&as_worker, &["volume", "create", "far"]);
    assert_eq!(code(&made), 0, "{}", stderr(&made));
    let deleted = run(&as_worker, &["volume", "delete", "far", "--yes", "--wait"]);
    assert_eq!(code(&deleted), 0, "{}", stderr(&deleted));
    let shown = run(&as_looker, &["volume", "show", "--json"]);
    assert!(stdout(&shown).contains("vol0"), "{}", stderr(&shown));
    let refused = run(&as_looker, &["volume", "create", "far"]);
    assert!(
        stderr(&refused).contains("EVG-1010"),
        "{}",
        stderr(&refused)
    );

    // Nobody vouches for the daemon.
    let stranger = run(
        &["--endpoint", &endpoint, "--token-file", &worker],
        &["status"],
    );
    assert_eq!(code(&stranger), 3, "{}", stderr(&stranger));
    assert!(stderr(&stranger).contains("--ca"), "{}", stderr(&stranger));
    // A wrong token.
    let wrong = token_file(&elsewhere, "wrong", "0123456789abcdefghij");
    let wrong = [
        "--endpoint",
        &endpoint,
        "--token-file",
        &text(&wrong),
        "--ca",
        &ca,
    ];
    let refused = run(&wrong, &["status"]);
    assert!(
        stderr(&refused).contains("EVG-1009"),
        "{}",
        stderr(&refused)
    );

    for (given, part) in [
        (&["--endpoint", &endpoint][..], "needs --token-file"),
        (
            &["--endpoint", "http://10.0.0.1", "--token-file", &worker],
            "in clear",
        ),
        (&["--token-file", &worker], "which is missing"),
        (&["--endpoint", &endpoint, "--socket", "/s"], "two daemons"),
    ] {
        let refused = run(given, &["status"]);
        assert_eq!(code(&refused), 2, "{}", stderr(&refused));
        assert!(stderr(&refused).contains(part), "{}", stderr(&refused));
    }
    server.stop();
    let gone = run(&as_worker, &["status"]);
    assert_eq!(code(&gone), 3, "{}", stderr(&gone));
}

#[test]
fn a_profile_has_a_name() {
    let dir = TestDir::new();
    let (_server, address) = serve(&dir, &[]);
    let elsewhere = TestDir::new();
    let looker = token_file(&elsewhere, "looker", LOOKER);
    let home = elsewhere.file("home");
    fs::create_dir_all(home.join("everglade")).expect("create");
    let profiles = format!("[store]\nendpoint = \"http://{address}\"\ntoken_file = {looker:?}\n");
    fs::write(home.join("everglade/profiles.toml"), profiles).expect("write");
    let run = |profile: &str| {
        let mut command = everglade(&elsewhere.data_dir());
        command
            .env("XDG_CONFIG_HOME", &home)
            .args(["--profile", profile, "volume", "show"]);
        command.output().expect("it runs")
    };
    let shown = run("store");
    assert!(stdout(&shown).contains("vol0"), "{}", stderr(&shown));
    let unknown = run("stare");
    assert_eq!(code(&unknown), 2);
    assert!(
        stderr(&unknown).contains("it has store"),
        "{}",
        stderr(&unknown)
    );
}

#[test]
fn codes_are_explained_without_a_daemon() {
    let dir = TestDir::new();
    let page = dir.run(&["explain", "4003"]);
    assert!(stdout(&page).starts_with("EVG-4003: the host is short of space\n"));
    let all = dir.run(&["explain", "--json"]);
    let all: serde_json::Value = serde_json::from_str(&stdout(&all)).expect("JSON");
    assert_eq!(all["codes"][0]["code"], "EVG-1001");
    assert_eq!(code(&dir.run(&["explain", "EVG-1"])), 4);
}
