//! Who may read and write what is in the data directory.
//!
//! Under a umask of 0 `state.toml` and `endpoints.json` had mode 0666, and a data directory that
//! everybody can write to was served.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::manage::ask;
use crate::running::{TestDir, code, stderr};

const SMALL: [&str; 4] = ["--aggregate-size", "2GiB", "--lun-size", "64MiB"];

fn mode(path: &Path) -> u32 {
    let metadata = fs::symlink_metadata(path);
    let metadata = metadata.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    metadata.permissions().mode() & 0o7777
}

fn set(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("chmod");
}

/// All files and folders below a path.
fn all(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            all(&path, found);
        }
        found.push(path);
    }
}

#[test]
fn modes_do_not_depend_on_the_umask() {
    for umask in ["0", "077"] {
        let dir = TestDir::new();
        let script = format!("umask {umask} && exec \"$0\" \"$@\"");
        let server = dir.try_serve_through(&["sh", "-c", &script], &SMALL);
        let server = server.unwrap_or_else(|output| panic!("{}", stderr(&output)));
        ask(&dir, &["volume", "create", "v"]);
        let at = |name: &str| mode(&dir.data_dir().join(name));
        for name in ["state.toml", "LOCK", "log/history.jsonl"] {
            assert_eq!(at(name), 0o600, "{name} under umask {umask}");
        }
        for name in ["run/endpoints.json", "FORMAT"] {
            assert_eq!(at(name), 0o644, "{name} under umask {umask}");
        }
        let mut found = Vec::new();
        all(&dir.data_dir(), &mut found);
        assert!(found.len() > 8, "{found:?}");
        for path in found {
            assert_eq!(mode(&path) & 0o022, 0, "{}", path.display());
        }
        server.stop();
    }
}

#[test]
fn a_data_directory_that_others_can_write_to_is_refused() {
    let dir = TestDir::new();
    let path = dir.data_dir();
    for mode in [0o777, 0o1777, 0o775, 0o770] {
        fs::create_dir_all(&path).expect("made");
        set(&path, mode);
        let refused = dir.serve_in_vain(&SMALL);
        assert_eq!(code(&refused), 1, "{mode:o}");
        let remedy = format!("chmod go-w {}", path.display());
        assert!(stderr(&refused).contains(&remedy), "{}", stderr(&refused));
        assert_eq!(fs::read_dir(&path).expect("a folder").count(), 0);
    }
    // The remedy works.
    set(&path, 0o770 & !0o022);
    let server = dir.serve(&SMALL);
    server.stop();
    set(&path, 0o777);
    let refused = dir.serve_in_vain(&SMALL);
    assert_eq!(code(&refused), 1, "also one that was served before");
}

#[test]
fn files_of_an_earlier_version_lose_what_others_may_do() {
    let dir = TestDir::new();
    dir.serve(&SMALL).stop();
    let loose = [("state.toml", 0o666), ("LOCK", 0o644), ("run", 0o777)];
    for (name, mode) in loose {
        set(&dir.data_dir().join(name), mode);
    }
    let server = dir.serve(&SMALL);
    let at = |name: &str| mode(&dir.data_dir().join(name));
    assert_eq!(
        (at("state.toml"), at("LOCK"), at("run")),
        (0o600, 0o600, 0o755)
    );
    assert!(
        server.log().contains("state.toml had mode 0666"),
        "{}",
        server.log()
    );
    server.stop();
}
