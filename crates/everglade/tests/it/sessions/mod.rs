//! What becomes of NBD connections: they end with their LUN or aggregate, see a new size, wait
//! their turn, and do not suffer from neighbours that stall (issue 4, item 5).

mod closing;
mod crowds;
mod judges;
mod memory;
mod placing;
mod stalled;
mod tls;

use crate::running::{Server, TestDir, code, stderr};

const MIB: u64 = 1 << 20;
const LUN: &str = "vol0/lun0";

/// A small first start, with more options.
fn serve(dir: &TestDir, options: &[&str]) -> Server {
    let small = ["--lun-size", "256MiB", "--aggregate-size", "2GiB"];
    dir.serve(&[&small, options].concat())
}

/// Runs a verb that must succeed.
#[track_caller]
fn ask(dir: &TestDir, args: &[&str]) {
    let output = dir.run(args);
    assert_eq!(code(&output), 0, "{args:?}: {}", stderr(&output));
}
