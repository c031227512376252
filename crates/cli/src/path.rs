//! Paths on the command line, as the daemon needs them.

use std::path::{Path, PathBuf};

use crate::failure::{Failure, exit};

/// Returns an absolute path, because the daemon has another current directory. Links are not
/// resolved.
pub(crate) fn absolute(path: &Path, option: &str) -> Result<String, Failure> {
    let refuse = |why: &dyn std::fmt::Display| {
        Failure::new(exit::USAGE, format!("{option}: {}: {why}", path.display()))
    };
    let path: PathBuf = std::path::absolute(path).map_err(|error| refuse(&error))?;
    let text = path.into_os_string().into_string();
    text.map_err(|_| refuse(&"not UTF-8; give it a name in UTF-8"))
}
