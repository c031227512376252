//! A small durable file of the data directory, whose replacement needs no space of the host.
//!
//! ```text
//! NAME         what readers see
//! NAME.spare   a file of the same length beside it, never read, whose blocks are allocated
//! ```
//!
//! The next contents are written over the spare in place and synced; then the two files exchange
//! their names in one step (`RENAME_EXCHANGE`), and the folder is synced. Nothing is allocated: the
//! spare has its blocks, and both names are in the folder already. So a host without a free byte
//! replaces the file as any other does.
//!
//! ```text
//! absent --prepare()--> only the spare --replace()--> only the file --prepare()--> both
//! both --replace()--> both
//! ```
//!
//! 1. Power loss leaves the old contents or the new ones, whole. Before the exchange is durable the
//!    spare may hold anything; after it, the spare holds what was replaced.
//! 2. Contents are text that may end with spaces and a line end (TOML, JSON). The file is padded
//!    with these to whole blocks, so that its length and its blocks never change: a shorter file
//!    would free blocks that the next replacement needs. [`SmallFile::read`] removes the padding.
//! 3. Blocks are *written* when the spare is made, not only reserved: writing into a reservation
//!    may need a block for the host's own metadata.
//! 4. A file leaves at least `ROOM` bytes for contents that become longer on a full host. Beyond
//!    that it grows in steps of whole blocks, which needs space.
//! 5. A missing spare is not an error: a directory of an earlier version has none, and the host may
//!    be full. Then a replacement makes the spare first. If that fails, the replacement fails and
//!    the old file stays.
//!
//! Where the host cannot exchange names (some network file systems), the spare replaces the file by
//! `rename`, which needs no space either, and a new spare is made afterwards. A host that never
//! overwrites in place (Btrfs, ZFS) needs space for every change; there a replacement succeeds only
//! while the host has a reserve of its own.

use std::fs::{self, File, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::{DataDirError, atomic};

/// Ending of the second file's name. Reserved in the data directory.
pub const SPARE: &str = ".spare";
/// Lengths are multiples of this: the block of most hosts.
const STEP: usize = 4096;
/// The bytes by which contents may grow before the file needs another block.
const ROOM: usize = 512;

/// A small durable file. It is named by its path; nothing is kept open.
#[derive(Clone, Debug)]
pub struct SmallFile {
    path: PathBuf,
    mode: u32,
}

impl SmallFile {
    /// Returns the file at `path`. It has `mode`, whatever the umask is.
    #[must_use]
    pub fn new(path: PathBuf, mode: u32) -> SmallFile {
        SmallFile { path, mode }
    }

    /// Returns the path that readers open.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the contents without padding, but with a last line end; `None` if there is no file.
    /// Of a file longer than `bytes_max`, it returns just enough to show that the file is too long.
    ///
    /// # Errors
    /// The system refused.
    pub fn read(&self, bytes_max: u64) -> Result<Option<Vec<u8>>, DataDirError> {
        let read = || {
            let mut bytes = Vec::new();
            let file = File::open(&self.path)?;
            file.take(bytes_max + 1).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        match read() {
            Ok(bytes) if bytes.len() as u64 > bytes_max => Ok(Some(bytes)),
            Ok(bytes) => Ok(Some(trimmed(bytes))),
            Err(error) if io::Error::kind(&error) == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(DataDirError::io("read", &self.path, error)),
        }
    }

    /// Sets space aside for the next replacement, if that was not done yet.
    ///
    /// # Errors
    /// The system refused; the file is untouched, and a replacement will try again.
    pub fn prepare(&self) -> Result<(), DataDirError> {
        let length = match fs::metadata(&self.path) {
            Ok(metadata) => usize::try_from(metadata.len()).unwrap_or(usize::MAX / 2),
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(DataDirError::io("look at", &self.path, error)),
        };
        // A file of ours is as long as its spare has to be; one of an earlier version is shorter.
        let wanted = length.max(1).next_multiple_of(STEP);
        match fs::metadata(self.spare()) {
            Ok(metadata) if metadata.len() >= wanted as u64 => Ok(()),
            _ => self.write_spare(b"", wanted),
        }
    }

    /// Returns whether the next replacement needs no space.
    #[must_use]
    pub fn is_prepared(&self) -> bool {
        let length = |path: &Path| fs::metadata(path).map_or(0, |metadata| metadata.len());
        length(&self.spare()) >= length(&self.path).max(1).next_multiple_of(STEP as u64)
    }

    /// Replaces the contents, durably. Sets space aside for the next replacement if the host has
    /// any.
    ///
    /// # Errors
    /// The system refused; the old contents stay.
    ///
    /// # Panics
    /// If `contents` do not end with a line end: then padding would change them.
    pub fn replace(&self, contents: &[u8]) -> Result<(), DataDirError> {
        assert!(
            contents.ends_with(b"\n"),
            "a small file ends with a line end"
        );
        // Without room for more, rather than not at all.
        let wanted = (contents.len() + ROOM).next_multiple_of(STEP);
        self.write_spare(contents, wanted)
            .or_else(|_| self.write_spare(contents, contents.len()))?;
        self.exchange()?;
        sync_parent(&self.path)?;
        if let Err(error) = self.prepare() {
            tracing::debug!("no space is set aside for {}: {error}", self.path.display());
        }
        Ok(())
    }

    /// Removes the file; its space stays set aside.
    ///
    /// # Errors
    /// The system refused.
    pub fn remove(&self) -> Result<(), DataDirError> {
        let removed = if self.spare().exists() {
            fs::remove_file(&self.path)
        } else {
            fs::rename(&self.path, self.spare())
        };
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(DataDirError::io("remove", &self.path, error))
            }
            _ => Ok(()),
        }
    }

    fn spare(&self) -> PathBuf {
        let mut name = self.path.as_os_str().to_owned();
        name.push(SPARE);
        PathBuf::from(name)
    }

    /// Writes `contents` over the spare and fills it up to `wanted` bytes, or to its length if that
    /// is more. A spare that the host refuses to make or to lengthen is as long as before.
    fn write_spare(&self, contents: &[u8], wanted: usize) -> Result<(), DataDirError> {
        let spare = self.spare();
        let failed = |error| DataDirError::io("write", &spare, error);
        let file = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(self.mode)
            .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
            .open(&spare)
            .map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if metadata.mode() & 0o777 != self.mode {
            let mode = Permissions::from_mode(self.mode);
            file.set_permissions(mode).map_err(failed)?;
        }
        let before = metadata.len();
        let length = wanted.max(usize::try_from(before).unwrap_or(0));
        let mut bytes = contents.to_vec();
        bytes.resize(length.max(contents.len()), b' ');
        if let Some(last) = bytes.last_mut() {
            *last = b'\n';
        }
        let written = file.write_all_at(&bytes, 0).and_then(|()| file.sync_all());
        if let Err(error) = written {
            let shortened = match before {
                0 => fs::remove_file(&spare),
                _ => file.set_len(before),
            };
            if let Err(error) = shortened {
                tracing::warn!("{} cannot be shortened: {error}", spare.display());
            }
            return Err(failed(error));
        }
        if before == 0 {
            sync_parent(&spare)?;
        }
        Ok(())
    }

    /// Exchanges the names of the file, if there is one, and the spare.
    fn exchange(&self) -> Result<(), DataDirError> {
        let spare = self.spare();
        let exchanged = renameat_with(CWD, &spare, CWD, &self.path, RenameFlags::EXCHANGE);
        let renamed = match exchanged {
            Err(Errno::NOENT | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                fs::rename(&spare, &self.path)
            }
            other => other.map_err(io::Error::from),
        };
        renamed.map_err(|error| DataDirError::io("replace", &self.path, error))
    }
}

fn sync_parent(path: &Path) -> Result<(), DataDirError> {
    path.parent().map_or(Ok(()), atomic::sync_dir)
}

/// Takes the filling off, and leaves one line end if there was any.
fn trimmed(mut bytes: Vec<u8>) -> Vec<u8> {
    let is_filling = |byte: &u8| matches!(byte, b' ' | b'\n');
    let end = bytes.iter().rposition(|byte| !is_filling(byte));
    let end = end.map_or(0, |last| last + 1);
    let has_line_end = bytes[end..].contains(&b'\n');
    bytes.truncate(end);
    if has_line_end && end > 0 {
        bytes.push(b'\n');
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(folder: &tempfile::TempDir) -> SmallFile {
        SmallFile::new(folder.path().join("state"), 0o600)
    }

    fn temp_dir() -> tempfile::TempDir {
        tempfile::tempdir().expect("a temporary directory")
    }

    fn read(file: &SmallFile) -> Option<String> {
        let bytes = file.read(1 << 20).expect("readable");
        bytes.map(|bytes| String::from_utf8(bytes).expect("text"))
    }

    /// Returns the inode numbers of the file and its spare.
    fn inodes(file: &SmallFile) -> [u64; 2] {
        [file.path.clone(), file.spare()].map(|path| fs::metadata(path).expect("there").ino())
    }

    #[test]
    fn what_was_written_is_read_back_without_the_filling() {
        let folder = temp_dir();
        let file = file(&folder);
        assert_eq!(read(&file), None);
        for text in ["a\n", "\n", "two\nlines\n", &"x".repeat(5000), ""] {
            let text = format!("{text}\n");
            file.replace(text.as_bytes()).expect("replaced");
            let kept = match text.trim_end_matches('\n') {
                "" => String::new(),
                text => format!("{text}\n"),
            };
            assert_eq!(read(&file), Some(kept));
            let length = fs::metadata(&file.path).expect("there").len();
            assert!(length.is_multiple_of(STEP as u64), "{length}");
        }
        assert_eq!(
            fs::metadata(&file.path).expect("there").mode() & 0o777,
            0o600
        );
    }

    #[test]
    fn a_replacement_takes_the_two_files_that_are_there() {
        let folder = temp_dir();
        let file = file(&folder);
        file.prepare().expect("prepared");
        assert_eq!(read(&file), None, "a spare is not the file");
        file.replace(b"1\n").expect("replaced");
        let [first, second] = inodes(&file);
        let blocks = fs::metadata(&file.path).expect("there").blocks();
        assert!(blocks > 0);
        for round in 2..6 {
            file.replace(format!("{round}\n").as_bytes())
                .expect("replaced");
            let expected = match round % 2 {
                0 => [second, first],
                _ => [first, second],
            };
            assert_eq!(
                inodes(&file),
                expected,
                "names are exchanged, no file is made"
            );
            assert_eq!(fs::metadata(&file.path).expect("there").blocks(), blocks);
        }
        assert_eq!(fs::read_dir(folder.path()).expect("list").count(), 2);
    }

    #[test]
    fn contents_may_grow_by_some_without_another_block() {
        let folder = temp_dir();
        let file = file(&folder);
        file.replace(&[b"x".repeat(STEP - ROOM - 1), b"\n".to_vec()].concat())
            .expect("replaced");
        let [before, _] =
            [&file.path, &file.spare()].map(|path| fs::metadata(path).expect("it").len());
        assert_eq!(before, STEP as u64);
        file.replace(&[b"x".repeat(STEP - 1), b"\n".to_vec()].concat())
            .expect("grown");
        file.replace(b"small again\n").expect("replaced");
        let lengths = [&file.path, &file.spare()].map(|path| fs::metadata(path).expect("it").len());
        assert_eq!(lengths, [2 * STEP as u64; 2], "what was taken is kept");
        assert_eq!(read(&file).as_deref(), Some("small again\n"));
    }

    #[test]
    fn a_file_of_an_earlier_version_is_taken_over() {
        let folder = temp_dir();
        let file = file(&folder);
        fs::write(&file.path, "old\n").expect("written");
        assert_eq!(read(&file).as_deref(), Some("old\n"));
        file.prepare().expect("prepared");
        assert_eq!(read(&file).as_deref(), Some("old\n"));
        for text in ["new\n", "newer\n"] {
            file.replace(text.as_bytes()).expect("replaced");
            assert_eq!(read(&file).as_deref(), Some(text));
        }
    }

    #[test]
    fn a_replacement_cut_short_is_the_old_contents() {
        let folder = temp_dir();
        let file = file(&folder);
        file.replace(b"old\n").expect("replaced");
        // Power fails while the spare is written.
        fs::write(file.spare(), "version = 0\n[[aggr").expect("torn");
        assert_eq!(read(&file).as_deref(), Some("old\n"));
        file.prepare().expect("prepared");
        assert_eq!(read(&file).as_deref(), Some("old\n"));
        file.replace(b"new\n").expect("replaced");
        assert_eq!(read(&file).as_deref(), Some("new\n"));
    }

    #[test]
    fn what_is_removed_keeps_its_space() {
        let folder = temp_dir();
        let file = file(&folder);
        file.remove().expect("nothing to remove");
        file.prepare().expect("prepared");
        let inode = fs::metadata(file.spare()).expect("there").ino();
        for _ in 0..3 {
            file.replace(b"here\n").expect("replaced");
            file.remove().expect("removed");
            assert_eq!(read(&file), None);
            assert!(file.spare().exists());
        }
        fs::remove_file(file.spare()).expect("removed");
        fs::write(&file.path, "old\n").expect("written");
        file.remove().expect("removed");
        assert_eq!(read(&file), None);
        assert!(file.spare().exists(), "of inode {inode} or another");
    }

    #[test]
    fn a_link_in_the_place_of_the_spare_is_not_followed() {
        let folder = temp_dir();
        let file = file(&folder);
        let precious = folder.path().join("precious");
        fs::write(&precious, "mine").expect("written");
        std::os::unix::fs::symlink(&precious, file.spare()).expect("linked");
        let error = file.replace(b"x\n").expect_err("a refusal").to_string();
        assert!(error.contains("cannot write"), "{error}");
        assert_eq!(fs::read_to_string(precious).expect("there"), "mine");
    }
}
