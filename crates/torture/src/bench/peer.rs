//! What we are compared with: `qemu-storage-daemon`, a raw file, O_DIRECT.

use std::fs::File;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::Failure;
use crate::client::Address;
use crate::rig::programs::{Owned, wait_for};

/// The program, and the export it offers.
pub(super) const PROGRAM: &str = "qemu-storage-daemon";
pub(super) const EXPORT: &str = "raw";

pub(super) struct Peer {
    _process: Owned,
    pub(super) address: Address,
    /// How it does its I/O.
    pub(super) aio: &'static str,
}

impl Peer {
    /// Over a file that has all its blocks. io_uring if this machine allows it.
    pub(super) fn start(folder: &Path, bytes: u64) -> Result<Peer, Failure> {
        let image = folder.join("raw.img");
        let file = File::create(&image).and_then(|file| file.set_len(bytes));
        file.map_err(|error| Failure::at("make", &image, &error))?;
        let with = |aio| start(folder, &image, aio);
        with("io_uring").or_else(|_| with("threads"))
    }
}

fn start(folder: &Path, image: &Path, aio: &'static str) -> Result<Peer, Failure> {
    let socket = folder.join("qemu.sock");
    // Left by an attempt that failed.
    let _ = std::fs::remove_file(&socket);
    let file = format!(
        "driver=file,node-name=file,filename={},cache.direct=on,aio={aio}",
        image.display()
    );
    let server = format!("addr.type=unix,addr.path={}", socket.display());
    let mut command = Command::new(PROGRAM);
    command
        .args(["--blockdev", &file])
        .args(["--blockdev", "driver=raw,node-name=raw,file=file"])
        .args(["--nbd-server", &server])
        .args([
            "--export",
            "type=nbd,id=e,node-name=raw,writable=on,name=raw",
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut process = Owned::spawn(&mut command, PROGRAM)?;
    let outcome = wait_for("socket of qemu-storage-daemon", || {
        if process.has_ended() {
            return Some(false);
        }
        UnixStream::connect(&socket).ok().map(|_| true)
    })?;
    if !outcome {
        return Err(Failure::Rig(format!("{PROGRAM} with aio={aio} ended")));
    }
    Ok(Peer {
        _process: process,
        address: Address::Unix(socket),
        aio,
    })
}
