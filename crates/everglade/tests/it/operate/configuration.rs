//! `config check|show`, manual pages and completion.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::manage::serve;
use crate::running::{TestDir, code, stderr, stdout};

#[test]
fn a_configuration_is_checked_without_a_start() {
    let dir = TestDir::new();
    let file = dir.file("e.toml");
    let path = file.to_str().expect("UTF-8");
    let check = |text: &str| {
        fs::write(&file, text).expect("write");
        dir.run(&["config", "check", "--config", path])
    };
    assert_eq!(
        code(&check("memory = '2GiB'\n[journal]\nhalf_size = '64MiB'\n")),
        0
    );
    for (text, part) in [
        ("memroy = '2GiB'", "did you mean 'memory'?"),
        ("memory = 'lots'", "e.toml:1: 'memory'"),
        ("memory = '1MiB'", "at least 256.0 MiB"),
        ("[metrics]\ntcp = 'somewhere'", "e.toml:2: 'metrics.tcp'"),
        ("[journal]\nhalf_size = '1MiB'", "journal.half_size"),
        ("[nbd", "not TOML"),
    ] {
        let output = check(text);
        assert_eq!(code(&output), 1, "{text}");
        let said = stderr(&output);
        assert!(said.contains(part), "{text}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    assert!(!dir.data_dir().exists(), "nothing was made");
}

#[test]
fn what_is_shown_says_the_same_when_it_is_the_file() {
    let dir = TestDir::new();
    let shown = dir.run(&[
        "config",
        "show",
        "--memory",
        "512MiB",
        "--cp-interval",
        "3s",
        "--nbd-tcp",
        "off",
    ]);
    assert_eq!(code(&shown), 0, "{}", stderr(&shown));
    let text = stdout(&shown);
    assert!(
        text.contains("memory = \"536870912\"") && text.contains("interval = \"3s\""),
        "{text}"
    );
    let file = dir.file("shown.toml");
    fs::write(&file, &text).expect("write");
    let again = dir.run(&["config", "show", "--config", file.to_str().expect("UTF-8")]);
    assert_eq!(stdout(&again), text);
    let json = dir.run(&["config", "show", "--json"]);
    let value: serde_json::Value = serde_json::from_str(&stdout(&json)).expect("JSON");
    assert_eq!(value["schema_version"], 1);
}

#[test]
fn there_is_a_page_for_every_verb_and_a_script_for_every_shell() {
    let dir = TestDir::new();
    let folder = dir.file("man");
    let path = folder.to_str().expect("UTF-8");
    assert_eq!(code(&dir.run(&["man", "--dir", path])), 0);
    for page in [
        "everglade.1",
        "everglade-serve.1",
        "everglade-lun-create.1",
        "everglade-config-show.1",
    ] {
        let text = fs::read_to_string(folder.join(page)).expect(page);
        assert!(text.contains(".TH ") && text.contains("NAME"), "{page}");
    }
    assert!(
        !folder.join("everglade-reference.1").exists(),
        "it is hidden"
    );
    assert!(stdout(&dir.run(&["man"])).contains(".TH everglade 1"));
    for shell in ["bash", "zsh", "fish"] {
        let script = dir.run(&["completion", shell]);
        assert!(stdout(&script).contains("everglade"), "{shell}");
    }
    assert_eq!(code(&dir.run(&["completion", "tcsh"])), 2);
}

/// `config check --data-dir /etc` said that all was good, and `serve` refused the directory.
#[test]
fn a_data_directory_is_refused_by_the_check_with_the_words_of_the_start() {
    let dir = TestDir::new();
    let place = dir.data_dir();
    let refused = |part: &str| {
        let checked = dir.run(&["config", "check"]);
        let started = dir.serve_in_vain(&[]);
        assert_eq!((code(&checked), code(&started)), (1, 1), "{part}");
        assert_eq!(stderr(&checked), stderr(&started), "{part}");
        assert!(
            stderr(&checked).contains(part),
            "{part}: {}",
            stderr(&checked)
        );
    };
    let good = || {
        let checked = dir.run(&["config", "check"]);
        assert_eq!(code(&checked), 0, "{}", stderr(&checked));
        assert_eq!(stderr(&checked), "");
    };
    good();
    fs::write(&place, "a file").expect("written");
    refused("is not a directory");
    fs::remove_file(&place).expect("removed");
    fs::create_dir(&place).expect("made");
    fs::set_permissions(&place, fs::Permissions::from_mode(0o777)).expect("chmod");
    refused("chmod go-w");
    fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).expect("chmod");
    good();
    fs::write(place.join("hosts"), "127.0.0.1 localhost\n").expect("written");
    refused("does not belong to everglade");
    assert_eq!(
        fs::read_dir(&place).expect("list").count(),
        1,
        "nothing was made"
    );
    fs::remove_file(place.join("hosts")).expect("removed");

    let server = serve(&dir);
    good();
    server.stop();
    good();
    let state = fs::read(place.join("state.toml")).expect("read");
    fs::write(place.join("state.toml"), &state[..40]).expect("torn");
    refused("state.toml");
}

#[test]
fn settings_that_can_have_no_effect_are_refused_or_told() {
    let dir = TestDir::new();
    let memory = ["--memory", "1PiB"];
    let checked = dir.run(&[&["config", "check"], &memory[..]].concat());
    let started = dir.serve_in_vain(&memory);
    for refused in [&checked, &started] {
        assert_eq!(code(refused), 1);
        let said = stderr(refused);
        assert!(
            said.contains("memory is 1.0 PiB; expected at most"),
            "{said}"
        );
        assert!(said.contains("the memory of this machine"), "{said}");
    }
    serve(&dir).stop();
    let warning = "--aggregate-size 4.0 GiB has no effect, because it is for the first start only, \
        and aggregate aggr0 exists on a directory of 2.0 GiB";
    let size = ["--aggregate-size", "4GiB"];
    let checked = dir.run(&[&["config", "check", "--json"], &size[..]].concat());
    assert_eq!(code(&checked), 0);
    assert_eq!(stderr(&checked), "", "with --json the document has it");
    let value: Value = serde_json::from_str(&stdout(&checked)).expect("JSON");
    let warnings = value["warnings"].as_array().expect("a list");
    let said = warnings[0].as_str().expect("a text");
    assert!(warnings.len() == 1 && said.contains(warning), "{value}");
    let server = dir.serve(&size);
    assert!(
        server.log().contains(&format!("WARN {warning}")),
        "{}",
        server.log()
    );
    server.stop();
    let server = serve(&dir);
    let count = server.log().matches("has no effect").count();
    assert_eq!(
        count,
        1,
        "the right size is not worth a line: {}",
        server.log()
    );
    // The remedy works.
    assert_eq!(
        code(&dir.run(&["aggregate", "resize", "aggr0", "--size", "4GiB"])),
        0
    );
    server.stop();
    assert_eq!(
        stderr(&dir.run(&[&["config", "check"], &size[..]].concat())),
        ""
    );
}
