//! `everglade check`: its exit codes where there is nothing to verify.

use std::fs;

use crate::running::{Place, code, stderr};

#[test]
fn what_cannot_be_read_is_2() {
    let place = Place::new();
    let output = place.run(&["check"]);
    assert_eq!(code(&output), 2, "{}", stderr(&output));

    fs::create_dir(place.data_dir()).expect("create");
    let output = place.run(&["check"]);
    assert_eq!(code(&output), 2);
    assert!(
        stderr(&output).contains("holds no aggregates"),
        "{}",
        stderr(&output)
    );

    fs::write(place.data_dir().join("thesis.tex"), "years of work").expect("write");
    let output = place.run(&["check"]);
    assert_eq!(code(&output), 2);
    assert!(
        stderr(&output).contains("does not belong to everglade"),
        "{}",
        stderr(&output)
    );
    assert_eq!(fs::read_dir(place.data_dir()).expect("list").count(), 1);
}
