//! A guest has two ways to the daemon and uses both as one disk; each of them is cut off in turn.

use super::machine::Machine;
use super::{ISCSI_MODULES, ISCSI_PROGRAMS, kernel_for, port, write_initramfs};
use crate::running::{TestDir, code, stderr};

const MODULES: [&str; 3] = ["nvme_tcp", "dm_multipath", "dm_round_robin"];
const PROGRAMS: [&str; 2] = ["nvme", "dmsetup"];

#[test]
fn a_linux_guest_goes_on_when_one_of_two_ways_is_cut_off() {
    let programs: Vec<&str> = ISCSI_PROGRAMS.into_iter().chain(PROGRAMS).collect();
    let Some(kernel) = kernel_for(&programs) else {
        return;
    };
    let dir = TestDir::new();
    let sizes = ["--lun-size", "256MiB", "--aggregate-size", "4GiB"];
    let server = dir.serve(&[&sizes[..], &["--nvme-tcp", ":0", "--iscsi-tcp", ":0"]].concat());
    let output = dir.run(&["lun", "create", "vol0/other", "--size", "256MiB"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let script = include_bytes!("multipath.sh");
    let modules: Vec<&str> = ISCSI_MODULES.into_iter().chain(MODULES).collect();
    let initramfs = write_initramfs(&dir, &kernel, &modules, &programs, script);
    let mut guest = Machine::start_with(&kernel.image, &initramfs, &["10.0.3.0/24"]);
    let (nvme, iscsi) = (server.address("nvme"), server.address("iscsi"));
    let mut heard = Vec::new();
    while let Some(said) = guest.next() {
        if said == "booted" {
            guest.answer(&format!("{} {}", port(&nvme), port(&iscsi)));
        }
        heard.push(said);
    }
    let expected = ["booted", "nvme", "done"];
    assert_eq!(heard, expected, "console:\n{}", guest.console());
    server.stop();
    let output = dir.run(&["check"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
}
