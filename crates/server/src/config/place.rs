//! Default places (docs/reference/conventions.md#data-directory).

use std::env;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::ConfigError;

/// Returns the default place of the data directory.
///
/// # Errors
/// Not root, and the environment names no home.
pub fn data_dir() -> Result<PathBuf, ConfigError> {
    if is_root() {
        return Ok(PathBuf::from("/var/lib/everglade"));
    }
    home_based("XDG_DATA_HOME", ".local/share").ok_or(ConfigError::NoHome)
}

/// Returns the default place of a configuration file.
#[must_use]
pub fn config_file() -> Option<PathBuf> {
    if is_root() {
        return Some(PathBuf::from("/etc/everglade/everglade.toml"));
    }
    home_based("XDG_CONFIG_HOME", ".config").map(|home| home.join("everglade.toml"))
}

/// Returns the folder `everglade` below the folder that `variable` names, or below `fallback` in
/// the home folder. A relative value is ignored, as the XDG specification demands.
fn home_based(variable: &str, fallback: &str) -> Option<PathBuf> {
    let named = env::var_os(variable)
        .map(PathBuf::from)
        .filter(|path| path.is_absolute());
    let home = || {
        env::var_os("HOME")
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let base = named.or_else(|| home().map(|home| home.join(fallback)))?;
    Some(base.join("everglade"))
}

/// Returns whether this process acts as root, by the owner of its own entry in /proc.
fn is_root() -> bool {
    Path::new("/proc/self")
        .metadata()
        .is_ok_and(|metadata| metadata.uid() == 0)
}

/// Returns the path as one word of a shell's command.
#[must_use]
pub fn quoted(path: &Path) -> String {
    everglade_api::shell_word(&path.display().to_string())
}

/// Makes `path` absolute without checking whether it exists.
///
/// # Errors
/// The path is empty, or it is relative and the current directory is gone.
pub fn absolute(path: PathBuf) -> Result<PathBuf, ConfigError> {
    std::path::absolute(&path).map_err(|source| ConfigError::NoCurrentDir { path, source })
}
