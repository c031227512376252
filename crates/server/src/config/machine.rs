//! The memory of the machine, and of the control group that this process is in.

use std::fs;
use std::path::Path;

use crate::Size;

/// Where the groups of the second version of control groups are mounted.
const GROUPS: &str = "/sys/fs/cgroup";

/// Returns the memory of the machine; `None` if the kernel does not say.
#[must_use]
pub fn memory() -> Option<Size> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    total(&text)
}

/// Returns the least memory that a control group of this process may use; `None` without a limit.
#[must_use]
pub fn group_memory() -> Option<Size> {
    let text = fs::read_to_string("/proc/self/cgroup").ok()?;
    let group = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let root = Path::new(GROUPS);
    let own = root.join(group);
    let groups = own.ancestors().take_while(|path| path.starts_with(root));
    let limits = groups.filter_map(|path| fs::read_to_string(path.join("memory.max")).ok());
    limits.filter_map(|text| limit(&text)).min()
}

/// Reads `MemTotal:       24596480 kB`.
fn total(meminfo: &str) -> Option<Size> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024).map(Size)
}

/// Reads a number of bytes; `max` means that there is no limit.
fn limit(text: &str) -> Option<Size> {
    text.trim().parse().ok().map(Size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_of_the_kernel_are_understood() {
        let text = "MemTotal:       24596480 kB\nMemFree:         1000 kB\n";
        assert_eq!(total(text), Some(Size(24_596_480 * 1024)));
        assert_eq!(total("MemFree: 7 kB\n"), None);
        assert_eq!(total("MemTotal: much\n"), None);
        assert_eq!(limit("536870912\n"), Some(Size::mib(512)));
        assert_eq!(limit("max\n"), None);
        assert!(memory().is_some_and(|memory| memory > Size::mib(64)));
    }
}
