//! A cgroup that bounds the page cache of one process. The memory controller charges a page of a
//! file to the group whose process touched it first, so a server in a group of its own has as much
//! page cache as the group may hold, whatever the machine has.
//!
//! The process joins when it runs, so that its own memory is charged elsewhere and the bound is
//! left to the page cache. Version 2 is used where it has the memory controller, and version 1
//! otherwise.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Failure;

/// Where groups with the memory controller are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controller {
    folder: PathBuf,
    version: u32,
}

impl Controller {
    /// The machine's.
    ///
    /// # Errors
    /// Says what the machine lacks.
    pub fn of_machine() -> Result<Controller, String> {
        let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
        let controllers = |folder: &Path| {
            fs::read_to_string(folder.join("cgroup.controllers")).unwrap_or_default()
        };
        let found = Controller::among(&mounts, controllers);
        found.ok_or_else(|| "no cgroup has the memory controller".to_owned())
    }

    fn among(mounts: &str, controllers: impl Fn(&Path) -> String) -> Option<Controller> {
        let mut first = None;
        for line in mounts.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [_, folder, kind, options, ..] = words[..] else {
                continue;
            };
            let folder = PathBuf::from(folder);
            let version = match kind {
                "cgroup2"
                    if controllers(&folder)
                        .split_whitespace()
                        .any(|it| it == "memory") =>
                {
                    2
                }
                "cgroup" if options.split(',').any(|it| it == "memory") => 1,
                _ => continue,
            };
            if version == 2 {
                return Some(Controller { folder, version });
            }
            first = first.or(Some(Controller { folder, version }));
        }
        first
    }

    /// For the page.
    #[must_use]
    pub fn name(&self) -> String {
        format!("cgroup version {}", self.version)
    }
}

/// A group; removed when dropped, which fails while a process is in it.
pub(super) struct Bounded {
    folder: PathBuf,
}

impl Bounded {
    /// Puts a process into a group of its own with so much memory.
    pub(super) fn holding(pid: u32, bytes: u64) -> Result<Bounded, Failure> {
        let controller = Controller::of_machine().map_err(Failure::Rig)?;
        let folder = controller.folder.join(format!("everglade-versus-{pid}"));
        let write = |path: PathBuf, text: String| {
            fs::write(&path, text).map_err(|error| Failure::at("write", &path, &error))
        };
        let bound = match controller.version {
            2 => {
                write(
                    controller.folder.join("cgroup.subtree_control"),
                    "+memory".to_owned(),
                )?;
                "memory.max"
            }
            _ => "memory.limit_in_bytes",
        };
        fs::create_dir(&folder).map_err(|error| Failure::at("make", &folder, &error))?;
        let group = Bounded { folder };
        write(group.folder.join(bound), bytes.to_string())?;
        write(group.folder.join("cgroup.procs"), pid.to_string())?;
        Ok(group)
    }
}

impl Drop for Bounded {
    fn drop(&mut self) {
        // An ended process leaves its group a moment later.
        for _ in 0..50 {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        eprintln!(
            "everglade-versus: {} could not be removed; remove it with rmdir",
            self.folder.display()
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str =
        "cgroup /cg/cpu cgroup rw,cpu 0 0\ncgroup /cg/memory cgroup rw,memory 0 0\n";
    const SECOND: &str = "cgroup2 /cg/unified cgroup2 rw 0 0\n";

    #[test]
    fn version_two_is_preferred_if_it_has_the_controller() {
        let both = format!("{FIRST}{SECOND}");
        let controller = Controller::among(&both, |_| "cpu memory io".to_owned()).unwrap();
        assert_eq!(
            (controller.version, controller.folder),
            (2, "/cg/unified".into())
        );
        let controller = Controller::among(&both, |_| String::new()).unwrap();
        assert_eq!(
            (controller.version, controller.folder),
            (1, "/cg/memory".into())
        );
        assert_eq!(Controller::among(SECOND, |_| "cpu".to_owned()), None);
    }
}
