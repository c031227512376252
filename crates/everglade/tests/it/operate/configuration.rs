//! `config check|show`, manual pages and completion.

use std::fs;

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
        ("[api]\ntcp = ':0'", "api.tokens"),
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
