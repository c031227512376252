//! Shells complete verbs, options and the names of what there is.

use crate::manage::{ask, serve};
use crate::running::{TestDir, everglade, stderr, stdout};

/// What bash offers for the last of these words.
fn offered(dir: &TestDir, words: &[&str]) -> Vec<String> {
    let mut command = everglade(&dir.data_dir());
    let last = words.len().to_string();
    command
        .env("EVERGLADE_COMPLETE", "bash")
        .env("_CLAP_COMPLETE_INDEX", last)
        .env("_CLAP_COMPLETE_COMP_TYPE", "9")
        .env("_CLAP_IFS", "\n")
        .args(["--", "everglade"])
        .args(words);
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{words:?}: {}", stderr(&output));
    stdout(&output).lines().map(str::to_owned).collect()
}

#[test]
fn a_shell_offers_verbs_options_and_names() {
    let dir = TestDir::new();
    let server = serve(&dir);
    ask(&dir, &["volume", "create", "web"]);
    ask(&dir, &["lun", "create", "web/disk", "--size", "64MiB"]);
    ask(&dir, &["snapshot", "create", "web@monday"]);
    assert!(offered(&dir, &["vol"]).contains(&"volume".to_owned()));
    assert!(offered(&dir, &["lun", "create", "--s"]).contains(&"--size".to_owned()));
    assert_eq!(offered(&dir, &["volume", "delete", "w"]), ["web"]);
    assert_eq!(
        offered(&dir, &["volume", "delete", ""])[..2],
        ["vol0", "web"]
    );
    assert_eq!(offered(&dir, &["lun", "resize", "web/"]), ["web/disk"]);
    assert_eq!(offered(&dir, &["lun", "resize", "v"]), ["vol0/lun0"]);
    assert_eq!(
        offered(&dir, &["snapshot", "restore", "web@"]),
        ["web@monday"]
    );
    assert_eq!(
        offered(&dir, &["volume", "create", "x", "--aggregate", ""])[..1],
        ["aggr0"]
    );
    // The daemon that the words name, which is not there.
    let elsewhere = ["--socket", "/nix", "volume", "delete", "w"];
    assert_eq!(offered(&dir, &elsewhere), Vec::<String>::new());
    server.stop();
    assert_eq!(
        offered(&dir, &["volume", "delete", "w"]),
        Vec::<String>::new()
    );
}
