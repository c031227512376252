//! Programs of others: where they are, and ending them.

use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use crate::Failure;

/// Nothing that is waited for takes so long, even on a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// Folders with programs of administrators, which are not in everybody's PATH.
const MORE_FOLDERS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Where a program is.
#[must_use]
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(MORE_FOLDERS.map(PathBuf::from));
    folders
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

/// Which of these are not installed.
#[must_use]
pub fn missing<'a>(programs: &[&'a str]) -> Vec<&'a str> {
    let absent = |program: &&&str| find(program).is_none();
    programs.iter().filter(absent).copied().collect()
}

/// Asks again and again until there is an answer.
///
/// # Errors
/// If there is none in time.
pub(crate) fn wait_for<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> Result<T, Failure> {
    let since = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return Ok(answer);
        }
        if since.elapsed() > PATIENCE {
            return Err(Failure::Rig(format!("no {what} within {PATIENCE:?}")));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A child that does not outlive its owner.
pub(crate) struct Owned(pub(crate) Child);

impl Owned {
    pub(crate) fn spawn(command: &mut Command, what: &str) -> Result<Owned, Failure> {
        let child = command.spawn();
        child
            .map(Owned)
            .map_err(|error| Failure::rig(&format!("start {what}"), &error))
    }

    /// SIGKILL, and waits for the end.
    pub(crate) fn kill(&mut self) {
        // Both fail harmlessly when the process has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.0.try_wait(), Ok(None))
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.kill();
    }
}
