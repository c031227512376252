//! Tells the program the commit that it is built from, for `everglade version`.

use std::path::Path;
use std::process::Command;

fn main() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    // Each commit and each switch of a branch adds a line.
    let log = repository.join(".git/logs/HEAD");
    println!("cargo::rerun-if-changed=build.rs");
    if !log.is_file() {
        return;
    }
    println!("cargo::rerun-if-changed={}", log.display());
    let mut git = Command::new("git");
    let asked = git
        .args(["rev-parse", "--short=12", "HEAD"])
        .current_dir(&repository);
    if let Ok(answer) = asked.output()
        && answer.status.success()
    {
        let commit = String::from_utf8_lossy(&answer.stdout);
        println!("cargo::rustc-env=EVERGLADE_COMMIT={}", commit.trim());
    }
}
