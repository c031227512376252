//! What the daemon proposes to a person when it is ready: exact commands, which work, and which
//! only read an export that may hold data.

use super::restart::{assert_holds, nbdcopy_in};
use super::{disk_image, ready_for, serve};
use crate::running::{TestDir, stderr};

/// The proposed commands.
fn proposed(banner: &str) -> Vec<&str> {
    let lines = banner.lines();
    lines.filter_map(|line| line.strip_prefix("  ")).collect()
}

/// A person who copied the second line of the banner after a restart lost the disk.
#[test]
fn after_a_restart_every_proposed_command_works_and_writes_nothing() {
    if !ready_for(&["nbdinfo", "nbdcopy", "fio"]) {
        return;
    }
    let dir = TestDir::new();
    let image = disk_image(&dir, 8);
    let mut server = serve(&dir);
    let first = server.banner();
    assert!(first.contains("  nbdcopy disk.img nbd://"), "{first}");
    nbdcopy_in(&server, &image, true);
    server.stop();

    let mut server = serve(&dir);
    let banner = server.banner();
    let commands = proposed(&banner);
    assert!(commands.len() >= 6, "{banner}");
    let with_data_dir = format!("everglade --data-dir {} status", dir.data_dir().display());
    assert!(commands.contains(&with_data_dir.as_str()), "{banner}");
    for command in commands {
        // It needs the kernel's module and its devices.
        if command.starts_with("nbd-client ") {
            assert!(command.starts_with("nbd-client -readonly "), "{command}");
            continue;
        }
        // In another terminal nothing says where the data directory is.
        let mut shell = dir.shell(command);
        let output = shell.env_remove("EVERGLADE_DATA_DIR").output();
        let output = output.expect("timeout is part of every Debian");
        assert!(output.status.success(), "{command}: {}", stderr(&output));
    }
    assert_holds(&dir, &server, &image);
    server.stop();
}
