//! The kernel's host of NVMe/TCP and `nvme-cli` use our subsystems.
//!
//! `nvme connect-all` is not tried: the guest reaches us by an address that only its emulated
//! network knows, so the addresses of the discovery log page are of no use to it.

use super::machine::Machine;
use super::{FILE_SYSTEMS, MIB, allocated, kernel_for, port, write_initramfs};
use crate::running::{TestDir, code, stderr};

const MODULES: [&str; 4] = ["virtio_pci", "virtio_net", "nvme_tcp", "xfs"];

#[test]
fn a_linux_guest_uses_nvme_over_tcp() {
    let programs: Vec<&str> = FILE_SYSTEMS.iter().copied().chain(["nvme"]).collect();
    let Some(kernel) = kernel_for(&programs) else {
        return;
    };
    let dir = TestDir::new();
    let sizes = ["--lun-size", "512MiB", "--aggregate-size", "4GiB"];
    let server = dir.serve(&[&sizes[..], &["--nvme-tcp", ":0"]].concat());
    let must = |words: &[&str]| {
        let output = dir.run(words);
        assert_eq!(code(&output), 0, "{words:?}: {}", stderr(&output));
    };
    must(&["lun", "create", "vol0/xfs", "--size", "512MiB"]);
    let script = include_bytes!("nvme.sh");
    let initramfs = write_initramfs(&dir, &kernel, &MODULES, &programs, script);
    let mut guest = Machine::start(&kernel.image, &initramfs);
    let address = server.address("nvme");
    let port = port(&address).to_owned();
    let mut server = Some(server);
    let mut heard = Vec::new();
    while let Some(said) = guest.next() {
        let running = server.as_ref().expect("it is running");
        let waits = match said.as_str() {
            "booted" => true,
            "full ext4" => {
                assert!(allocated(running, "vol0/lun0") > 32 * MIB);
                true
            }
            "full xfs" => {
                // The other one has trimmed what it deleted.
                let left = allocated(running, "vol0/lun0");
                assert!((24 * MIB..56 * MIB).contains(&left), "{left}");
                true
            }
            "grow" => {
                must(&["lun", "resize", "vol0/lun0", "--size", "640MiB"]);
                true
            }
            "restart" => {
                server.take().expect("it is running").kill();
                server = Some(dir.serve(&["--nvme-tcp", &format!(":{port}")]));
                true
            }
            _ => false,
        };
        if waits {
            guest.answer(&port);
        }
        heard.push(said);
    }
    let expected = [
        "booted",
        "identified",
        "commanded",
        "full ext4",
        "full xfs",
        "grow",
        "restart",
        "done",
    ];
    assert_eq!(heard, expected, "console:\n{}", guest.console());
    server.expect("it is running").stop();
    must(&["check"]);
}
