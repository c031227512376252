//! Devices on hosts of all kinds: block devices, full file systems, those that refuse O_DIRECT.
//! Needs root for loop devices and mounts; what cannot be made is skipped and said.
//!
//! These tests run programs. Until such a process is another program it holds what every thread of
//! the tests has open: locks of devices that were closed, sockets whose peers wait for their end.
//! So they are not among the other tests, and one at a time.
#![expect(clippy::unwrap_used, reason = "tests")]
#![expect(
    clippy::cast_possible_truncation,
    reason = "small numbers, on 64-bit hosts"
)]

#[expect(dead_code, reason = "the other tests need all of it")]
#[path = "../it/rig.rs"]
mod rig;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use everglade_env::lock::Mutex;
use everglade_env::{DeviceId, DeviceKind, DiskError, Geometry, Op, OpenError, Storage, World};

use crate::rig::Storage::Disk;
use crate::rig::{BLOCK, Rig, pattern};

/// A test on every way to reach a disk, while no other one runs.
fn everywhere(test: impl Fn(Rig)) {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock();
    rig::everywhere(Disk, test);
}

/// Runs a tool; `None`, with a reason printed, if it is missing or fails.
fn tool(command: &str, arguments: &[&str]) -> Option<String> {
    match Command::new(command).args(arguments).output() {
        Ok(output) if output.status.success() => {
            Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        }
        Ok(output) => {
            println!(
                "skipped: {command}: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            );
            None
        }
        Err(error) => {
            println!("skipped: {command}: {error}");
            None
        }
    }
}

/// Reserves a range, which the host must have room for.
fn allocate(rig: &mut Rig, device: DeviceId, offset: u64, length: u64) {
    let reserved = rig.run(Op::Allocate {
        device,
        offset,
        length,
    });
    reserved.result.unwrap();
}

/// Gives a range back to the host.
fn punch(rig: &mut Rig, device: DeviceId, offset: u64, length: u64) {
    let given = rig.run(Op::Punch {
        device,
        offset,
        length,
    });
    given.result.unwrap();
}

/// A loop device over a sparse file.
struct Loop(String);

impl Loop {
    fn attach(backing: &Path, bytes: u64) -> Option<Loop> {
        File::create(backing).unwrap().set_len(bytes).unwrap();
        tool("losetup", &["--find", "--show", backing.to_str().unwrap()]).map(Loop)
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        tool("losetup", &["--detach", &self.0]);
    }
}

/// A mounted file system.
struct Mounted(PathBuf);

impl Mounted {
    fn new(rig: &Rig, kind: &str, options: &str, source: &str) -> Option<Mounted> {
        let at = rig.path(&format!("{kind}-mount"));
        std::fs::create_dir(&at).unwrap();
        let arguments = ["-t", kind, "-o", options, source, at.to_str().unwrap()];
        tool("mount", &arguments).map(|_| Mounted(at))
    }

    fn path(&self) -> PathBuf {
        self.0.join("device")
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        tool("umount", &["--lazy", self.0.to_str().unwrap()]);
    }
}

#[test]
fn a_block_device_is_a_device() {
    everywhere(|mut rig| {
        let Some(attached) = Loop::attach(&rig.path("backing"), 8 << 20) else {
            return;
        };
        let path = Path::new(&attached.0);
        let device = rig.world.open(path).unwrap();
        let info = rig.world.info(device).unwrap();
        assert_eq!((info.kind, info.size_bytes), (DeviceKind::Block, 8 << 20));
        assert_eq!(info.host_free_bytes, None);
        let second = World::new(&rig.options).unwrap();
        assert!(matches!(second.open(path), Err(OpenError::Busy { .. })));
        rig.write(device, BLOCK, &pattern(3, 1 << 20)).unwrap();
        rig.flush(device).unwrap();
        assert_eq!(
            rig.read(device, BLOCK, 1 << 20).unwrap(),
            pattern(3, 1 << 20)
        );
        allocate(&mut rig, device, 0, 1 << 20);
        punch(&mut rig, device, 0, 1 << 20);
        let kept = pattern(3, 1 << 20)[255 * BLOCK as usize..].to_vec();
        assert_eq!(rig.read(device, 1 << 20, BLOCK as usize).unwrap(), kept);
        rig.world.close(device);
        drop(rig);
        second.open(path).unwrap();
    });
}

#[test]
fn a_mounted_block_device_is_refused() {
    everywhere(|rig| {
        let Some(attached) = Loop::attach(&rig.path("backing"), 16 << 20) else {
            return;
        };
        if tool("mkfs.ext4", &["-q", &attached.0]).is_none() {
            return;
        }
        let Some(_mounted) = Mounted::new(&rig, "ext4", "defaults", &attached.0) else {
            return;
        };
        let opened = rig.world.open(Path::new(&attached.0));
        assert!(matches!(opened, Err(OpenError::Busy { .. })), "{opened:?}");
    });
}

fn free_bytes(path: &Path) -> u64 {
    let stat = rustix::fs::statvfs(path).unwrap();
    stat.f_bavail * stat.f_frsize
}

/// Fills a device whose host has about `host_bytes`, and checks that stored data stays readable and
/// freed space is usable.
fn fill(rig: &mut Rig, path: &Path, host_bytes: u64) {
    let unit = 1 << 20;
    let geometry = Geometry {
        size_bytes: 8 * host_bytes,
        segment_bytes: unit,
    };
    let device = rig.world.create_directory(path, geometry).unwrap();
    println!("direct: {}", rig.world.info(device).unwrap().direct);
    rig.write(device, 0, &pattern(0, unit as usize)).unwrap();
    // An allocation is atomic: the space that the host gave before it was full would be its last.
    let before = free_bytes(path);
    let too_much = rig.run(Op::Allocate {
        device,
        offset: unit,
        length: 2 * host_bytes,
    });
    assert_eq!(too_much.result, Err(DiskError::NoSpace));
    let after = free_bytes(path);
    assert!(after + unit / 2 >= before, "{after} of {before} are left");
    let mut written = 1;
    loop {
        match rig.write(device, written * unit, &pattern(written, unit as usize)) {
            Ok(()) => written += 1,
            Err(DiskError::NoSpace) => break,
            Err(other) => panic!("{other}"),
        }
        assert!(written * unit < 2 * host_bytes, "the host never fills up");
    }
    assert!(written > 1);
    let give_up = Instant::now() + Duration::from_secs(5);
    while rig.world.host_free_bytes(device).unwrap() > unit {
        assert!(
            Instant::now() < give_up,
            "the host's free space is not measured"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    for at in 0..written {
        let read = rig.read(device, at * unit, unit as usize).unwrap();
        assert!(read == pattern(at, unit as usize), "unit {at}");
    }
    punch(rig, device, unit, unit);
    rig.flush(device).unwrap();
    rig.write(device, unit, &pattern(77, unit as usize / 2))
        .unwrap();
    rig.flush(device).unwrap();
    rig.world.close(device);
}

#[test]
fn a_full_host_says_no_space_and_keeps_what_is_there() {
    everywhere(|mut rig| {
        if let Some(mounted) = Mounted::new(&rig, "tmpfs", "size=6m", "tmpfs") {
            fill(&mut rig, &mounted.path(), 6 << 20);
        }
        let Some(attached) = Loop::attach(&rig.path("backing"), 16 << 20) else {
            return;
        };
        if tool("mkfs.ext4", &["-q", "-m", "0", &attached.0]).is_none() {
            return;
        }
        if let Some(mounted) = Mounted::new(&rig, "ext4", "defaults", &attached.0) {
            fill(&mut rig, &mounted.path(), 16 << 20);
        }
    });
}

#[test]
fn a_host_that_refuses_direct_io_is_used_buffered_and_says_so() {
    everywhere(|mut rig| {
        // ramfs has neither O_DIRECT nor reservations nor holes.
        let Some(mounted) = Mounted::new(&rig, "ramfs", "defaults", "ramfs") else {
            return;
        };
        let geometry = Geometry {
            size_bytes: 8 << 20,
            segment_bytes: 256 << 10,
        };
        let device = rig
            .world
            .create_directory(&mounted.path(), geometry)
            .unwrap();
        assert!(!rig.world.info(device).unwrap().direct);
        let bytes = pattern(6, 1 << 20);
        rig.write(device, BLOCK, &bytes).unwrap();
        rig.flush(device).unwrap();
        assert_eq!(rig.read(device, BLOCK, 1 << 20).unwrap(), bytes);
        allocate(&mut rig, device, 0, 1 << 20);
        assert!(!rig.world.info(device).unwrap().preallocates);
        punch(&mut rig, device, 4 << 20, 1 << 20);
        rig.world.write(device, 3 << 20, &bytes).unwrap();
        rig.world.flush(device).unwrap();
        assert_eq!(rig.read(device, 3 << 20, 1 << 20).unwrap(), bytes);
        rig.world.close(device);
    });
}
