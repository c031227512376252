//! Real clients against the real daemon (issue 2, item 8), and clients that misbehave.
//!
//! The disk is small, because a client without block status reads all of a thin disk to copy it.

mod banner;
mod hostile;
mod iscsi;
mod nbdcopy;
mod qemu;
mod reserving;
mod restart;
mod verify;

use std::fs;
use std::path::{Path, PathBuf};

use crate::running::{Server, TestDir};

/// The LUN of a first start.
pub(crate) const LUN: &str = "vol0/lun0";
const LUN_BYTES: u64 = 64 << 20;
const SERVE: [&str; 4] = ["--lun-size", "64MiB", "--aggregate-size", "2GiB"];

/// Whether the calling test can run.
fn ready_for(programs: &[&str]) -> bool {
    crate::tools::have(programs)
}

fn serve(dir: &TestDir) -> Server {
    dir.serve(&SERVE)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary paths are UTF-8")
}

/// A file as long as the LUN: one half noise that nothing can compress or deduplicate, then zeroes,
/// then a pattern, so that both whole and sparse areas are copied.
fn disk_image(dir: &TestDir, seed: u64) -> PathBuf {
    let length = usize::try_from(LUN_BYTES).expect("64 bits");
    let mut bytes = vec![0u8; length];
    let mut state = seed | 1;
    for word in bytes[..length / 2].chunks_exact_mut(8) {
        // xorshift64, by Marsaglia; any stream without repetition would do.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        word.copy_from_slice(&state.to_le_bytes());
    }
    for (index, byte) in bytes[length * 3 / 4..].iter_mut().enumerate() {
        *byte = u8::try_from(index / 4096 % 251).expect("below 251");
    }
    let path = dir.file(&format!("disk-{seed}.img"));
    fs::write(&path, bytes).expect("write");
    path
}

/// Equal, without printing 64 MiB when not.
#[track_caller]
fn assert_same(a: &Path, b: &Path) {
    let (a_bytes, b_bytes) = (fs::read(a).expect("read"), fs::read(b).expect("read"));
    assert_eq!(
        a_bytes.len(),
        b_bytes.len(),
        "{} and {}: lengths",
        a.display(),
        b.display()
    );
    let differ = a_bytes.iter().zip(&b_bytes).position(|(a, b)| a != b);
    assert_eq!(
        differ,
        None,
        "{} and {}: first difference",
        a.display(),
        b.display()
    );
}

/// `everglade check` finds nothing wrong.
#[track_caller]
pub(crate) fn assert_clean(dir: &TestDir) {
    let output = dir.run(&["check"]);
    let (out, err) = (
        crate::running::stdout(&output),
        crate::running::stderr(&output),
    );
    assert_eq!(crate::running::code(&output), 0, "{out}{err}");
}
