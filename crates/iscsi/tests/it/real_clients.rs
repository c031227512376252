//! Clients that others wrote. The suite of libiscsi against the whole daemon is among the tests of
//! crate `everglade`; here it runs against the model, in seconds.

use std::io::Write as _;
use std::process::Command;

use everglade_iscsi::Settings;
use everglade_target::model::Model;

use crate::host::Host;

/// Counts the calling test as skipped.
fn skip(reason: &str) {
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    let line = format!("iscsi {test}: {reason}\n");
    eprint!("skipped {line}");
    if let Some(path) = std::env::var_os("EVERGLADE_SKIPS") {
        let file = std::fs::File::options()
            .append(true)
            .create(true)
            .open(path);
        file.and_then(|mut file| file.write_all(line.as_bytes()))
            .unwrap();
    }
}

#[test]
fn the_suite_of_libiscsi_fails_only_where_it_contradicts_the_standard() {
    if Command::new("iscsi-test-cu")
        .arg("--list")
        .output()
        .is_err()
    {
        return skip("not installed: iscsi-test-cu");
    }
    let model = Model::with_lun("vol0/lun0", 64 << 20);
    let host = Host::start(model, Settings::default());
    let url = host.url("vol0/lun0");
    let mut suite = Command::new("timeout");
    suite.args(["--kill-after=5", "120", "iscsi-test-cu"]);
    suite.args(["--dataloss", "--normal", "--test", "ALL", &url, &url]);
    let output = suite.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let failed = said.lines().filter(|line| line.ends_with("had failures:"));
    // The tests of crate `everglade` say what is wrong with these two.
    let expected = [
        "Suite GetLBAStatus, Test UnmapSingle had failures:",
        "Suite WriteSame10, Test UnmapUntilEnd had failures:",
    ];
    assert_eq!(failed.collect::<Vec<_>>(), expected, "{said}");
    assert!(said.contains("Run Summary"), "it came to its end: {said}");
    assert_eq!(host.stop().open_handles(), 0);
}
