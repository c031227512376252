//! `LOCK`: one daemon at a time, or any number of offline readers.
//!
//! The lock is a flock on the open file: the kernel releases it when the process ends, so a crash
//! never leaves a lock, and the pid in the file proves nothing. The pid is there only so that a
//! refusal can name the holder, after a comparison with `/proc/locks`. It overwrites the old pid in
//! place, which needs no space; the daemon starts even if it cannot write it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use super::{DataDirError, modes};

/// Name of the file.
pub const NAME: &str = "LOCK";
/// A pid and a line end fit well. The file always has this length.
const BYTES: usize = 32;

/// A held lock.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock alone, for the daemon.
    ///
    /// # Errors
    /// [`DataDirError::InUse`], or the system refused.
    pub fn exclusive(directory: &Path) -> Result<Lock, DataDirError> {
        let path = directory.join(NAME);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(modes::FILE_PRIVATE)
            .open(&path)
            .map_err(|error| DataDirError::io("open", &path, error))?;
        held(file.try_lock(), &file, directory)?;
        if let Err(error) = write_pid(&file) {
            tracing::warn!("{} will not name this process: {error}", path.display());
        }
        Ok(Lock { _file: file })
    }

    /// Shares the lock with other readers, and writes nothing. Returns `None` if no daemon ever
    /// ran.
    ///
    /// # Errors
    /// [`DataDirError::InUse`], or the system refused.
    pub fn shared(directory: &Path) -> Result<Option<Lock>, DataDirError> {
        let path = directory.join(NAME);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(DataDirError::io("open", &path, error)),
        };
        held(file.try_lock_shared(), &file, directory)?;
        Ok(Some(Lock { _file: file }))
    }
}

fn held(
    outcome: Result<(), TryLockError>,
    file: &File,
    directory: &Path,
) -> Result<(), DataDirError> {
    match outcome {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(DataDirError::InUse {
            path: directory.to_owned(),
            holder: holder(file),
        }),
        Err(TryLockError::Error(error)) => {
            Err(DataDirError::io("lock", &directory.join(NAME), error))
        }
    }
}

fn write_pid(file: &File) -> io::Result<()> {
    let pid = format!("{:<width$}\n", std::process::id(), width = BYTES - 1);
    file.write_all_at(pid.as_bytes(), 0)
}

/// Returns the holder of the lock, as far as this machine can tell.
fn holder(file: &File) -> String {
    let Some(pid) = listed_holder(file).or_else(|| written_holder(file)) else {
        return "another process".to_owned();
    };
    match fs::read_to_string(format!("/proc/{pid}/comm")) {
        Ok(name) => format!("process {pid} ({})", name.trim_end()),
        Err(_) => format!("process {pid}"),
    }
}

/// Returns the pid that the kernel lists for the lock. The list has lines like
/// `1: FLOCK ADVISORY WRITE 4711 fe:00:262150 0 EOF`. Some file systems list another device number
/// than `stat` gives, so the inode alone decides; pid 0 is another container's.
fn listed_holder(file: &File) -> Option<u32> {
    let inode = file.metadata().ok()?.ino().to_string();
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let pid = |line: &str| -> Option<u32> {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_ours = *fields.get(1)? == "FLOCK" && fields.get(5)?.rsplit(':').next()? == inode;
        let pid = fields.get(4)?.parse().ok()?;
        (is_ours && pid != 0).then_some(pid)
    };
    locks.lines().find_map(pid)
}

/// Returns the pid that the last daemon wrote, if that process exists.
fn written_holder(file: &File) -> Option<u32> {
    let mut text = String::new();
    let mut file = file;
    file.rewind().ok()?;
    file.take(BYTES as u64).read_to_string(&mut text).ok()?;
    let pid: u32 = text.trim().parse().ok()?;
    Path::new(&format!("/proc/{pid}")).exists().then_some(pid)
}
