//! Usage errors and exit codes: contracts with scripts (docs/reference/conventions.md#exit-codes).

use crate::running::{TestDir, code, stderr, stdout};

#[test]
fn wrong_usage_is_2_and_goes_to_stderr() {
    let dir = TestDir::new();
    for args in [
        &[][..],
        &["frobnicate"],
        &["serve", "--frobnicate"],
        &["serve", "extra"],
        &["serve", "--memory", "lots"],
        &["serve", "--memory", "1GB"],
        &["serve", "--io", "magic"],
        &["serve", "--pin", "everything"],
        &["serve", "--nbd-tcp", "somewhere"],
        &["serve", "--reactors", "-1"],
        &["serve", "--cp-interval", "soon"],
    ] {
        let output = dir.run(args);
        assert_eq!(code(&output), 2, "{args:?}: {}", stderr(&output));
        assert!(stdout(&output).is_empty(), "{args:?}");
        let said = stderr(&output);
        assert!(said.starts_with("everglade: "), "{args:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{args:?}: {said}");
    }
    assert!(!dir.data_dir().exists(), "wrong usage touches nothing");
}

#[test]
fn help_names_every_verb_and_is_data() {
    let output = TestDir::new().run(&["--help"]);
    assert_eq!(code(&output), 0);
    for word in [
        "serve",
        "aggregate",
        "volume",
        "lun",
        "status",
        "df",
        "check",
        "version",
        "--data-dir",
        "--socket",
        "--yes",
        "--json",
        "--quiet",
    ] {
        assert!(stdout(&output).contains(word), "{word}");
    }
}

#[test]
fn version_says_what_decides_about_compatibility() {
    let dir = TestDir::new();
    let output = dir.run(&["version"]);
    assert_eq!(code(&output), 0);
    assert!(stdout(&output).starts_with(concat!("everglade ", env!("CARGO_PKG_VERSION"))));

    let output = dir.run(&["version", "--json"]);
    let value: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    assert_eq!(value["schema_version"], 1);
    assert_eq!(value["media_format"], 1);
}

#[test]
fn wrong_environment_is_wrong_usage() {
    let dir = TestDir::new();
    let mut command = crate::running::everglade(&dir.data_dir());
    let output = command
        .env("EVERGLADE_MEMORY", "lots")
        .arg("serve")
        .output()
        .expect("runs");
    assert_eq!(code(&output), 2);
    assert!(
        stderr(&output).contains("is not a size"),
        "{}",
        stderr(&output)
    );
}
