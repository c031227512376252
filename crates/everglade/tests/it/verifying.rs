//! `everglade check`: its exit codes where there is nothing to verify.

use std::fs;

use crate::running::{TestDir, code, stderr};

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
