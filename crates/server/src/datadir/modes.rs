//! The modes of the data directory and of its files.
//!
//! A user who can write to the directory can replace `state.toml` and `FORMAT`, and so decide what
//! the daemon opens. Therefore only the owner may write: if the group or everybody can write to the
//! directory, the daemon refuses to start. The group counts, too, because the daemon does not know
//! its members.
//!
//! | what | mode | because |
//! | --- | --- | --- |
//! | `aggregates`, `log` | 0700 | the pool's bytes; who did what |
//! | `run` | 0755 | clients look there for sockets, which have modes of their own |
//! | `state.toml`, and what is replaced like it | 0600 | where the devices are |
//! | `tokens.toml` | 0600 | who may come in |
//! | `LOCK` | 0600 | who can open it can hold it, and keep the daemon from starting |
//! | `FORMAT`, `run/endpoints.json` | 0644 | no secrets |
//!
//! Files get these modes whatever the umask is. If a file of an earlier version has a wider mode,
//! the start corrects it, and the log says so.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::DataDirError;

/// Mode of files for the owner alone.
pub const FILE_PRIVATE: u32 = 0o600;
/// Mode of files that everybody may read.
pub const FILE_OPEN: u32 = 0o644;
/// Permission for others than the owner to change something.
const OTHERS_WRITE: u32 = 0o022;

/// Refuses a directory that others than its owner can write to.
///
/// # Errors
/// [`DataDirError::Writable`], or the system refused.
pub fn check(directory: &Path) -> Result<(), DataDirError> {
    let unreadable = |error| DataDirError::io("look at", directory, error);
    let mode = fs::metadata(directory)
        .map_err(unreadable)?
        .permissions()
        .mode();
    if mode & OTHERS_WRITE == 0 {
        return Ok(());
    }
    Err(DataDirError::Writable {
        path: directory.to_owned(),
        mode: mode & 0o7777,
        who: match mode & 0o002 {
            0 => "its group",
            _ => "everybody",
        },
    })
}

/// Removes permissions that files of earlier versions give to others. `expected` has names below
/// the directory, and their widest modes.
pub fn correct(directory: &Path, expected: &[(&str, u32)]) {
    for &(name, allowed) in expected {
        let path = directory.join(name);
        match correct_one(&path, allowed) {
            Ok(None) => {}
            Ok(Some(found)) => tracing::warn!(
                "{} had mode {found:04o}, which lets others do too much; it has {:04o} now",
                path.display(),
                found & allowed
            ),
            Err(error) => tracing::warn!(
                "{} lets others do too much, and its mode cannot be changed: {error}; \
                 set it to {allowed:04o}",
                path.display()
            ),
        }
    }
}

/// Returns the mode that was found, if it allowed too much.
fn correct_one(path: &Path, allowed: u32) -> io::Result<Option<u32>> {
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let found = metadata.permissions().mode() & 0o777;
    // The target of a link is not changed.
    if metadata.is_symlink() || found & !allowed == 0 {
        return Ok(None);
    }
    fs::set_permissions(path, Permissions::from_mode(found & allowed))?;
    Ok(Some(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path)
            .expect("it is there")
            .permissions()
            .mode()
            & 0o777
    }

    fn set(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("chmod");
    }

    #[test]
    fn a_directory_that_others_can_write_to_is_refused() {
        let place = tempfile::tempdir().expect("a directory");
        for (mode, is_good) in [
            (0o700, true),
            (0o755, true),
            (0o750, true),
            (0o770, false),
            (0o775, false),
            (0o757, false),
            (0o1777, false),
        ] {
            set(place.path(), mode);
            let checked = check(place.path());
            assert_eq!(checked.is_ok(), is_good, "{mode:o}");
            if let Err(error) = checked {
                let said = error.to_string();
                assert!(said.contains("chmod go-w"), "{said}");
            }
        }
        set(place.path(), 0o700);
    }

    #[test]
    fn modes_that_allow_too_much_are_corrected_and_stricter_ones_stay() {
        let place = tempfile::tempdir().expect("a directory");
        let path = |name: &str| place.path().join(name);
        fs::create_dir(path("run")).expect("made");
        let expected = [
            ("secret", FILE_PRIVATE),
            ("known", FILE_OPEN),
            ("run", 0o755),
            ("missing", 0),
        ];
        for name in ["secret", "known"] {
            fs::write(path(name), "x").expect("written");
            set(&path(name), 0o666);
        }
        set(&path("run"), 0o777);
        correct(place.path(), &expected);
        assert_eq!(mode(&path("secret")), 0o600);
        assert_eq!(mode(&path("known")), 0o644);
        assert_eq!(mode(&path("run")), 0o755);
        set(&path("known"), 0o400);
        correct(place.path(), &expected);
        assert_eq!(mode(&path("known")), 0o400);
    }
}
