//! Programs of others that tests talk to: found, else installed where that is possible, else named.
//!
//! Debian or its children, as root: apt-get. Anywhere else nothing is installed; the tests that
//! need a missing program skip themselves, are counted, and this says what to install. When
//! everything is there, which is the usual case, no package manager is even asked.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::step::{begin, end};
use crate::tally::Tally;

/// A program and the Debian package it is in.
const WANTED: &[(&str, &str)] = &[
    ("chromium", "chromium"),
    ("fio", "fio"),
    ("nbdcopy", "libnbd-bin"),
    ("nbdfuse", "libnbd-bin"),
    ("nbdinfo", "libnbd-bin"),
    ("nbdkit", "nbdkit"),
    ("nbdsh", "python3-libnbd"),
    ("qemu-img", "qemu-utils"),
    ("qemu-io", "qemu-utils"),
    ("e2fsck", "e2fsprogs"),
    ("mkfs.ext4", "e2fsprogs"),
    ("mkfs.xfs", "xfsprogs"),
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("busybox", "busybox-static"),
    ("nbd-client", "nbd-client"),
    ("iscsi-inq", "libiscsi-bin"),
    ("iscsi-ls", "libiscsi-bin"),
    ("iscsi-test-cu", "libiscsi-bin"),
    ("iscsiadm", "open-iscsi"),
    ("iscsid", "open-iscsi"),
    // QEMU's initiator is a module, which is found by its whole path.
    (
        "/usr/lib/x86_64-linux-gnu/qemu/block-iscsi.so",
        "qemu-block-extra",
    ),
    ("nvme", "nvme-cli"),
    ("openssl", "openssl"),
    ("valgrind", "valgrind"),
];

/// Folders with programs of administrators, which are not in everybody's PATH.
const MORE_FOLDERS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Part of `test`.
pub(crate) fn install(tally: &mut Tally) {
    if missing().is_empty() {
        return;
    }
    let begun = begin("installing what tests need");
    let packages = packages_of(&missing());
    if is_root() && find("apt-get").is_some() {
        apt(&packages);
    }
    let still = missing();
    end("installing what tests need", begun, still.is_empty());
    if !still.is_empty() {
        let packages = packages_of(&still).join(" ");
        println!(
            "missing: {}; tests that need them are skipped",
            still.join(", ")
        );
        println!("on Debian, as root: apt-get install --no-install-recommends {packages}");
        tally.skip(format!("not installed: {}", still.join(", ")));
    }
}

fn missing() -> Vec<&'static str> {
    WANTED
        .iter()
        .map(|(program, _)| *program)
        .filter(|program| find(program).is_none())
        .collect()
}

fn packages_of(programs: &[&str]) -> Vec<&'static str> {
    let mut packages: Vec<_> = WANTED
        .iter()
        .filter(|(program, _)| programs.contains(program))
        .map(|(_, package)| *package)
        .collect();
    packages.sort_unstable();
    packages.dedup();
    packages
}

/// Where a program is.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(MORE_FOLDERS.map(PathBuf::from));
    folders
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

/// Failures show in what is still missing afterwards. A package that is in no list must not keep
/// the others from being installed, so after a failure each is tried alone.
fn apt(packages: &[&str]) {
    update();
    let install = ["install", "--yes", "--quiet=2", "--no-install-recommends"];
    if !run_apt(&[&install[..], packages].concat()) {
        for package in packages {
            run_apt(&[&install[..], &[package]].concat());
        }
    }
}

/// Fetches the lists of packages; true if that was possible.
pub(crate) fn update() -> bool {
    is_root() && find("apt-get").is_some() && run_apt(&["update", "--quiet=2"])
}

fn run_apt(words: &[&str]) -> bool {
    println!("apt-get {}", words.join(" "));
    let mut command = Command::new("apt-get");
    // A fresh machine may still be updating itself.
    command.args(["-o", "DPkg::Lock::Timeout=120"]).args(words);
    command
        .stdin(Stdio::null())
        .env("DEBIAN_FRONTEND", "noninteractive");
    command.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_named_once() {
        assert_eq!(
            packages_of(&["nbdinfo", "nbdcopy", "fio"]),
            ["fio", "libnbd-bin"]
        );
        assert!(packages_of(&[]).is_empty());
    }

    #[test]
    fn programs_are_found_by_path() {
        assert!(find("sh").is_some());
        assert!(find("no-such-program-of-everglade").is_none());
    }
}
