//! What the host gives and gets back: a full host costs clients ENOSPC and nothing else, and what
//! clients trim returns to the host.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::clients::{LUN, assert_clean};
use crate::running::TestDir;
use crate::tools::{have, skip};
use crate::waiting::within;
use crate::wire::{Client, ENOSPC};

const MIB_U32: u32 = 1 << 20;
const GIB: u64 = 1 << 30;
const MIB: u64 = MIB_U32 as u64;

/// A small file system of its own, which goes with its image.
pub(crate) struct SmallHost {
    keep: tempfile::TempDir,
}

impl SmallHost {
    /// `None` where this is not allowed, after counting the skip.
    pub(crate) fn new(bytes: u64) -> Option<SmallHost> {
        if !have(&["mkfs.ext4", "mount", "umount"]) {
            return None;
        }
        let keep = tempfile::tempdir().expect("a temporary directory");
        let (image, folder) = (keep.path().join("image"), keep.path().join("mounted"));
        fs::create_dir(&folder).expect("create");
        let file = File::create(&image).expect("create");
        file.set_len(bytes).expect("a sparse file");
        // No blocks kept back for root, which these tests are.
        let made = Command::new("mkfs.ext4")
            .args(["-q", "-m", "0", "-E", "lazy_itable_init=1,nodiscard"])
            .arg(&image)
            .status();
        assert!(made.expect("mkfs.ext4 runs").success());
        // The loop device is made by mount and goes with the umount.
        let mounted = Command::new("mount")
            .args(["-o", "loop"])
            .args([&image, &folder])
            .output();
        let mounted = mounted.expect("mount runs");
        if !mounted.status.success() {
            skip("mounting a loop device is not allowed here");
            return None;
        }
        Some(SmallHost { keep })
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.keep.path().join("mounted")
    }

    pub(crate) fn free_bytes(&self) -> u64 {
        let stat = rustix::fs::statvfs(self.folder()).expect("statvfs");
        stat.f_bavail * stat.f_frsize
    }
}

impl Drop for SmallHost {
    fn drop(&mut self) {
        // Something may still look at it for a moment; the lazy way always works.
        for option in [None, Some("--lazy")] {
            let mut command = Command::new("umount");
            command.args(option).arg(self.folder());
            if command.output().is_ok_and(|output| output.status.success()) {
                return;
            }
        }
        eprintln!("{} stays mounted", self.folder().display());
    }
}

/// Bytes the host has given to the segments of the default device.
pub(crate) fn host_bytes(dir: &TestDir) -> u64 {
    let folder = dir.data_dir().join("aggregates/aggr0/dev0");
    let entries = fs::read_dir(folder).expect("list");
    let blocks = entries.map(|entry| entry.expect("an entry").metadata().expect("it").blocks());
    blocks.sum::<u64>() * 512
}

/// A MiB that nothing can shorten, of its own for each number and round.
pub(crate) fn payload(number: u64, round: u64) -> Vec<u8> {
    let mut state = (number << 32 | round).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut bytes = vec![0; MIB_U32 as usize];
    for word in bytes.chunks_exact_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        word.copy_from_slice(&state.to_le_bytes());
    }
    bytes
}

/// Writes MiB after MiB from `first` on until one is refused, and returns which.
pub(crate) fn write_until_full(client: &mut Client, first: u64, end: u64, round: u64) -> u64 {
    for number in first..end {
        match client.write(number * MIB, &payload(number, round)) {
            Ok(()) => {}
            Err(error) => {
                assert_eq!(error, ENOSPC, "at MiB {number}");
                return number;
            }
        }
    }
    panic!("the host never became full");
}

#[track_caller]
pub(crate) fn assert_reads_back(client: &mut Client, numbers: std::ops::Range<u64>, round: u64) {
    for number in numbers {
        let found = client.read(number * MIB, MIB_U32);
        assert!(found == Ok(payload(number, round)), "MiB {number}");
    }
}

/// Tries again for a while, because space returns in the background.
#[track_caller]
fn eventually(what: &str, condition: impl FnMut() -> bool) {
    within(Duration::from_secs(40), what, condition);
}

#[test]
fn a_full_host_costs_enospc_and_nothing_that_was_stored() {
    let Some(host) = SmallHost::new(GIB) else {
        return;
    };
    let dir = TestDir::within(&host.folder());
    let args = [
        "--lun-size",
        "4GiB",
        "--aggregate-size",
        "8GiB",
        "--cp-interval",
        "1s",
    ];
    let server = dir.serve(&args);
    let (mut client, _) = Client::open(&server.tcp, LUN).expect("opened");
    let full = write_until_full(&mut client, 0, 4096, 1);
    assert!(full > 256, "only {full} of 1,024 MiB could be used");
    client.flush().expect("what was accepted is stored");
    assert_reads_back(&mut client, 0..full, 1);
    assert_eq!(
        client.write(3000 * MIB, &payload(1, 1)),
        Err(ENOSPC),
        "still"
    );
    client.flush().expect("flushed again");

    // A quarter goes, and as much can be written again.
    let gone = full / 4;
    for number in 0..gone {
        client.trim(number * MIB, MIB_U32).expect("trimmed");
    }
    client.flush().expect("flushed");
    let half = gone / 2;
    let mut written = 0;
    eventually("trimmed space can be written again", || {
        while written < half && client.write(written * MIB, &payload(written, 2)).is_ok() {
            written += 1;
        }
        written == half
    });
    client.flush().expect("flushed");
    drop(client);
    server.stop();
    assert_clean(&dir);

    let server = dir.serve(&args);
    let (mut client, _) = Client::open(&server.tcp, LUN).expect("opened");
    assert_reads_back(&mut client, 0..half, 2);
    assert_reads_back(&mut client, gone..full, 1);
    drop(client);
    server.kill();
    assert_clean(&dir);
}

#[test]
fn a_host_that_others_fill_costs_enospc_until_they_leave() {
    let Some(host) = SmallHost::new(GIB + 256 * MIB) else {
        return;
    };
    let dir = TestDir::within(&host.folder());
    let args = [
        "--lun-size",
        "1GiB",
        "--aggregate-size",
        "8GiB",
        "--cp-interval",
        "1s",
    ];
    let server = dir.serve(&args);
    let (mut client, _) = Client::open(&server.tcp, LUN).expect("opened");
    client.write(0, &payload(0, 1)).expect("written");
    client.flush().expect("flushed");

    let squatter = host.folder().join("squatter");
    fill(&squatter);
    let full = write_until_full(&mut client, 1, 1024, 1);
    client.flush().expect("what was accepted is stored");
    assert_reads_back(&mut client, 0..full, 1);

    fs::remove_file(squatter).expect("remove");
    let mut next = full;
    eventually("the host's space can be used again", || {
        while next < full + 32 && client.write(next * MIB, &payload(next, 1)).is_ok() {
            next += 1;
        }
        next == full + 32
    });
    client.flush().expect("flushed");
    assert_reads_back(&mut client, 0..next, 1);
    drop(client);
    server.stop();
    assert_clean(&dir);
    assert!(host.free_bytes() > 0, "the host was not overrun");
}

/// Takes all of the host's space.
fn fill(path: &Path) {
    use std::io::Write;
    let mut file = File::create(path).expect("create");
    let chunk = vec![0xA5; MIB_U32 as usize];
    while file.write_all(&chunk).is_ok() {}
    file.sync_all().expect("a file on a full host");
}

#[test]
fn what_is_trimmed_returns_to_the_host() {
    let dir = TestDir::new();
    let args = [
        "--lun-size",
        "4GiB",
        "--aggregate-size",
        "16GiB",
        "--cp-interval",
        "1s",
    ];
    let server = dir.serve(&args);
    let fresh = host_bytes(&dir);
    assert!(
        fresh < GIB + GIB / 2,
        "a fresh start takes {fresh} bytes of the host"
    );

    let (mut client, _) = Client::open(&server.tcp, LUN).expect("opened");
    let one = payload(7, 7);
    for number in 0..3072 {
        client.write(number * MIB, &one).expect("written");
    }
    client.flush().expect("flushed");
    let most = host_bytes(&dir);
    assert!(most > 3 * GIB, "{most} bytes for three GiB");
    assert!(
        most < 5 * GIB,
        "{most} bytes for three GiB: prepared too far ahead"
    );

    client.trim(0, 3 << 30).expect("trimmed");
    client.flush().expect("flushed");
    // Some areas are kept, because what is soon written again is not worth punching.
    eventually("the host gets its space back", || {
        host_bytes(&dir) < 5 * GIB / 2
    });
    assert_eq!(client.read(GIB, 4096), Ok(vec![0; 4096]));
    drop(client);
    server.stop();
    assert_clean(&dir);
}
