//! `everglade check`: its exit codes where there is nothing to verify.

use std::fs;

use crate::host_space::SmallHost;
use crate::running::{TestDir, code, stderr, stdout};
use crate::tools::must;

#[test]
fn what_cannot_be_read_is_2() {
    let dir = TestDir::new();
    let output = dir.run(&["check"]);
    assert_eq!(code(&output), 2, "{}", stderr(&output));

    fs::create_dir(dir.data_dir()).expect("create");
    let output = dir.run(&["check"]);
    assert_eq!(code(&output), 2);
    assert!(
        stderr(&output).contains("holds no aggregates"),
        "{}",
        stderr(&output)
    );

    fs::write(dir.data_dir().join("thesis.tex"), "years of work").expect("write");
    let output = dir.run(&["check"]);
    assert_eq!(code(&output), 2);
    assert!(
        stderr(&output).contains("does not belong to everglade"),
        "{}",
        stderr(&output)
    );
    assert_eq!(fs::read_dir(dir.data_dir()).expect("list").count(), 1);
}

/// A copy that nobody may change is the one that most needs a look.
#[test]
fn what_can_only_be_read_is_verified() {
    let Some(host) = SmallHost::new(1300 << 20) else {
        return;
    };
    let dir = TestDir::within(&host.folder());
    let args = ["--lun-size", "64MiB", "--aggregate-size", "1GiB"];
    dir.serve(&args).stop();
    let folder = host.folder();
    let folder = folder.to_str().expect("UTF-8");
    must("mount", &["-o", "remount,ro", folder]);
    let checked = dir.run(&["check"]);
    let refused = dir.serve_in_vain(&args);
    must("mount", &["-o", "remount,rw", folder]);
    assert_eq!(
        code(&checked),
        0,
        "{}{}",
        stdout(&checked),
        stderr(&checked)
    );
    assert_eq!(code(&refused), 1);
    assert!(
        stderr(&refused).contains("Read-only file system"),
        "{}",
        stderr(&refused)
    );
    dir.serve(&args).stop();
}
