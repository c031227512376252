//! The kernel's host of NVMe/TCP and `nvme-cli` use our subsystems.
//!
//! `nvme connect-all` is not tried: the guest reaches us by an address that only its emulated
//! network knows, so the addresses of the discovery log page are of no use to it.

use super::initramfs::Kernel;
use super::machine::Machine;
use super::{FILE_SYSTEMS, MIB, allocated, write_initramfs};
use crate::running::{Server, TestDir, code, stderr};
use crate::tools::{have, skip};

const MODULES: [&str; 4] = ["virtio_pci", "virtio_net", "nvme_tcp", "xfs"];

/// Port of NVMe/TCP in the ready line.
fn port(server: &Server) -> String {
    let field = |word: &str| word.strip_prefix("nvme=").map(str::to_owned);
    let address = server.ready.split(' ').find_map(field).expect("it is on");
    address.rsplit(':').next().expect("a port").to_owned()
}

#[test]
fn a_linux_guest_uses_nvme_over_tcp() {
    if !have(&["qemu-system-x86_64", "busybox", "ldd", "nbdinfo", "nvme"]) || !have(&FILE_SYSTEMS) {
        return;
    }
    if !cfg!(target_arch = "x86_64") {
        return skip("the guest runs programs of this machine, which are not for its processor");
    }
    let Some(kernel) = Kernel::find() else {
        return skip("no kernel for a guest");
    };
    let dir = TestDir::new();
    let sizes = ["--lun-size", "512MiB", "--aggregate-size", "4GiB"];
    let server = dir.serve(&[&sizes[..], &["--nvme-tcp", ":0"]].concat());
    let must = |words: &[&str]| {
        let output = dir.run(words);
        assert_eq!(code(&output), 0, "{words:?}: {}", stderr(&output));
    };
    must(&["lun", "create", "vol0/xfs", "--size", "512MiB"]);
    let programs: Vec<&str> = FILE_SYSTEMS.iter().copied().chain(["nvme"]).collect();
    let script = include_bytes!("nvme.sh");
    let initramfs = write_initramfs(&dir, &kernel, &MODULES, &programs, script);
    let mut guest = Machine::start(&kernel.image, &initramfs);
    let port = port(&server);
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
