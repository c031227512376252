//! axe-core, which checks pages of the console by the rules for accessible pages (WCAG): fetched
//! once from the npm registry, because it is larger than all our pages and scripts together.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::place;
use crate::step::{begin, end};
use crate::tally::Tally;

/// The variable that tells tests where it is.
pub(crate) const VARIABLE: &str = "EVERGLADE_AXE";
/// Another version may have other rules, so pages are changed with it.
const PACKAGE: &str = "axe-core@4.14.1";
const ARCHIVE: &str = "axe-core-4.14.1.tgz";

/// Part of `test`. Where it is, or nothing after counting a skip.
pub(crate) fn fetch(tally: &mut Tally) -> Option<PathBuf> {
    if let Some(given) = std::env::var_os(VARIABLE) {
        return Some(given.into());
    }
    let folder = place::target().join("axe");
    let script = folder.join("package/axe.min.js");
    if script.is_file() {
        return Some(script);
    }
    let begun = begin("fetching axe-core");
    download(&folder);
    end("fetching axe-core", begun, script.is_file());
    if script.is_file() {
        return Some(script);
    }
    tally.skip(format!("not fetched: {PACKAGE}"));
    None
}

/// What failed shows in what is missing afterwards. `npm pack` compares the archive with the hash
/// that the registry has of it.
fn download(folder: &Path) {
    if fs::create_dir_all(folder).is_err() {
        return;
    }
    for words in [&["npm", "pack", PACKAGE][..], &["tar", "-xzf", ARCHIVE]] {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).current_dir(folder);
        let ended = command.stdin(Stdio::null()).stdout(Stdio::null()).status();
        if !ended.is_ok_and(|status| status.success()) {
            return;
        }
    }
}
