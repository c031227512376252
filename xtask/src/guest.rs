//! The kernel of the guest that uses our exports as disks: Debian's for clouds, fetched once and
//! unpacked below the build folder, because installing it would change how this machine boots.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::step::{begin, end};
use crate::tally::Tally;
use crate::{place, tools};

/// The variable that tells tests where it is.
pub(crate) const VARIABLE: &str = "EVERGLADE_GUEST_KERNEL";
/// A package that only names the newest one.
const NEWEST: &str = "linux-image-cloud-amd64";

/// Part of `test`. Where it is, or nothing after counting a skip.
pub(crate) fn fetch(tally: &mut Tally) -> Option<PathBuf> {
    if let Some(given) = std::env::var_os(VARIABLE) {
        return Some(given.into());
    }
    let folder = place::target().join("guest-kernel");
    if is_there(&folder) {
        return Some(folder);
    }
    let begun = begin("fetching a kernel for the guest");
    // A fresh machine has no lists of packages yet.
    let fetched = download(&folder) || (tools::update() && download(&folder));
    end("fetching a kernel for the guest", begun, fetched);
    if fetched {
        return Some(folder);
    }
    tally.skip(format!("not fetched: {NEWEST}"));
    None
}

fn is_there(folder: &Path) -> bool {
    folder.join("boot").is_dir() && folder.join("lib/modules").is_dir()
}

/// Downloads and unpacks the package; true if all went well. Works without being root.
fn download(folder: &Path) -> bool {
    let Some(package) = newest() else {
        return false;
    };
    if fs::create_dir_all(folder).is_err() {
        return false;
    }
    let mut command = Command::new("apt-get");
    command.args(["download", "--quiet=2", &package]);
    let downloaded = command.current_dir(folder).status();
    if !downloaded.is_ok_and(|status| status.success()) {
        return false;
    }
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let archive = files
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"));
    let Some(archive) = archive else {
        return false;
    };
    let mut command = Command::new("dpkg-deb");
    let unpacked = command.arg("-x").arg(&archive).arg(folder).status();
    // It is of no use any more.
    let _ = fs::remove_file(&archive);
    unpacked.is_ok_and(|status| status.success()) && is_there(folder)
}

/// The package that [`NEWEST`] depends on.
fn newest() -> Option<String> {
    let mut command = Command::new("apt-cache");
    let output = command.args(["depends", NEWEST]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let package = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("Depends: "))?;
    Some(package.to_owned())
}
