//! Snapshots as an operator and a client see them (issue 6, items 1 to 3 and 5): command line, REST
//! and NBD against the real binary.

mod clones;
mod diff;
mod images;
mod large;
mod lun_clones;
mod luns;
mod policies;
mod refusals;
mod scans;
mod splits;
mod splitting;
mod verbs;

use serde_json::Value;

use crate::manage::ask_json;
use crate::running::TestDir;

/// Names of a volume's snapshots, in order of creation.
#[track_caller]
pub(crate) fn names(dir: &TestDir, volume: &str) -> Vec<String> {
    let shown = ask_json(dir, &["snapshot", "show", volume]);
    let list = shown["snapshots"].as_array().expect("a list").clone();
    let name = |snapshot: &Value| snapshot["name"].as_str().expect("a name").to_owned();
    list.iter().map(name).collect()
}
