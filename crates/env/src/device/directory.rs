//! A directory of segment files: no file-size limit of the host matters, growth is cheap, and
//! punching returns space to the host.
//!
//! The file `DEVICE` has the size of the directory and the size of its segments, which nothing else
//! tells while segments are absent. Its lock keeps other servers out. It is written whole under
//! another name and then renamed, so after a crash it is either complete or absent, and after the
//! crash of a growth (`growth`) it is the old or the new one.

use std::fs::{DirBuilder, File};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::{Access, Device, DeviceKind, OpenError, SIZE_MAX, Segment, claim};
use crate::BLOCK_SIZE;
use crate::lock::{Mutex, MutexGuard};
use crate::transfer::Fault;

const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;
/// Above this, segments are larger, so that their number stays manageable.
const LARGE: u64 = 8 * TIB;
/// Names have eight digits, and every segment costs some memory.
const SEGMENTS_MAX: u64 = 1 << 20;
const CARD: &str = "DEVICE";
const CARD_NEW: &str = "DEVICE.new";
const CARD_TITLE: &str = "everglade directory device 1";
/// Far more than a card has.
const CARD_BYTES_MAX: u64 = 4096;

/// Size of a directory device and of its segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Logical size of the device; the host allocates space only for written blocks.
    pub size_bytes: u64,
    /// Length of a segment file.
    pub segment_bytes: u64,
}

impl Geometry {
    /// Returns the default geometry for a size: segments of 1 GiB, above 8 TiB of 16 GiB.
    #[must_use]
    pub fn of(size_bytes: u64) -> Geometry {
        let segment_bytes = if size_bytes > LARGE { 16 * GIB } else { GIB };
        Geometry {
            size_bytes,
            segment_bytes,
        }
    }

    pub(super) fn segments(&self) -> u64 {
        self.size_bytes.div_ceil(self.segment_bytes)
    }

    /// Returns the length of a segment's file: the last one may be shorter than the others.
    fn length_of(&self, index: usize) -> u64 {
        let before = index as u64 * self.segment_bytes;
        (self.size_bytes - before).min(self.segment_bytes)
    }

    /// Returns the first rule that the geometry breaks, in words.
    pub(super) fn problem(&self) -> Option<&'static str> {
        let block = BLOCK_SIZE as u64;
        match self {
            _ if self.size_bytes == 0 || self.segment_bytes == 0 => Some("a size of zero"),
            _ if !self.size_bytes.is_multiple_of(block) => Some("a size that is not whole blocks"),
            _ if !self.segment_bytes.is_multiple_of(block) => Some("segments not of whole blocks"),
            _ if self.size_bytes > SIZE_MAX => Some("more than 2^40 blocks"),
            _ if self.segments() > SEGMENTS_MAX => Some("more than 2^20 segments"),
            _ => None,
        }
    }

    fn card(&self) -> String {
        let Geometry {
            size_bytes,
            segment_bytes,
        } = self;
        format!("{CARD_TITLE}\nsize_bytes {size_bytes}\nsegment_bytes {segment_bytes}\n")
    }

    fn parse(card: &str) -> Option<Geometry> {
        let mut lines = card.lines();
        if lines.next()? != CARD_TITLE {
            return None;
        }
        let size_bytes = lines.next()?.strip_prefix("size_bytes ")?.parse().ok()?;
        let segment_bytes = lines.next()?.strip_prefix("segment_bytes ")?.parse().ok()?;
        let geometry = Geometry {
            size_bytes,
            segment_bytes,
        };
        (lines.next().is_none() && geometry.problem().is_none()).then_some(geometry)
    }
}

/// The open directory; where segments are found and made.
pub(crate) struct Directory {
    /// The open directory, for relative names, and to make names durable. `None` once the device
    /// was closed: reactors may know the device for longer, and must not keep the host from
    /// unmounting its file system.
    file: Mutex<Option<Arc<File>>>,
    direct: bool,
    access: Access,
    /// Its lock is the claim on the device; `None` once that was given up.
    card: Mutex<Option<File>>,
    /// Segments whose files were shorter than they should be at the opening, and their lengths
    /// ([`super::presence`]).
    short: Vec<(usize, u64)>,
}

/// Makes the directory a device of ours and opens it. The directory may exist, but neither as a
/// device nor with segments in it.
pub(crate) fn create(path: &Path, geometry: Geometry) -> Result<Device, OpenError> {
    if let Some(problem) = geometry.problem() {
        return Err(OpenError::unexpected(path, "a usable device size", problem));
    }
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|error| OpenError::host("create", path, error))?;
    let occupied = |found: &str| OpenError::Occupied {
        path: path.into(),
        found: found.into(),
    };
    if path
        .join(CARD)
        .try_exists()
        .map_err(|error| OpenError::host("stat", path, error))?
    {
        return Err(occupied("a device"));
    }
    if !list(path)?.is_empty() {
        return Err(occupied("segments of another device"));
    }
    drop(write_new_card(path, geometry)?);
    rename_card(path)?;
    sync_card(path)?;
    open(path, Access::Full)
}

/// Opens and locks a directory made by [`create`].
pub(crate) fn open(path: &Path, access: Access) -> Result<Device, OpenError> {
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty())
        .map(File::from)
        .map_err(|errno| match errno {
            Errno::NOTDIR => OpenError::unexpected(path, "a directory", "a file"),
            errno => OpenError::host("open", path, errno),
        })?;
    let card_path = path.join(CARD);
    let card = match claim::open(&card_path, access, OFlags::NOFOLLOW) {
        Err(OpenError::Missing { .. }) => {
            let found = "a directory without one";
            return Err(OpenError::unexpected(
                path,
                "a device with a file DEVICE",
                found,
            ));
        }
        other => other?,
    };
    claim::lock(&card, path, access)?;
    if !is_at(&card, &card_path)? {
        // Another server has replaced the card, so it has the directory.
        return Err(OpenError::Busy {
            path: path.to_path_buf(),
        });
    }
    let geometry = read_card(&card, &card_path)?;
    let (_, direct) = claim::open_direct(&card_path, access, OFlags::NOFOLLOW)?;
    let count = usize::try_from(geometry.segments()).expect("checked to be few");
    let mut segments: Vec<Segment> = (0..count).map(|_| Segment::absent()).collect();
    let mut short = Vec::new();
    for index in list(path)? {
        let Some(segment) = segments.get_mut(index) else {
            let expected = format!("{count} segments");
            return Err(OpenError::unexpected(
                path,
                expected,
                format!("segment {}", name(index)),
            ));
        };
        let stat = rustix::fs::statat(&file, name(index), AtFlags::SYMLINK_NOFOLLOW);
        let stat = stat.map_err(|errno| OpenError::host("stat", &path.join(name(index)), errno))?;
        let length = stat.st_size.cast_unsigned();
        if length > 0 {
            *segment = Segment::existing();
        }
        if length < geometry.length_of(index) {
            short.push((index, length));
        }
    }
    let Geometry {
        size_bytes,
        segment_bytes,
    } = geometry;
    let directory = Directory {
        file: Mutex::new(Some(Arc::new(file))),
        direct,
        access,
        card: Mutex::new(Some(card)),
        short,
    };
    let kind = DeviceKind::Directory;
    Ok(Device::new(
        kind,
        path,
        size_bytes,
        segment_bytes,
        direct,
        segments,
        Some(directory),
    ))
}

impl Directory {
    /// Opens the file of a segment that exists. A segment that became shorter is not repaired:
    /// reads of its missing part fail instead of returning zeroes, and a refused start has changed
    /// nothing.
    pub(super) fn open_segment(&self, index: usize) -> Result<File, Fault> {
        self.open_at(index, OFlags::empty())
    }

    /// Makes the file of a segment, so that it survives a power cut from now on. A file that the
    /// crash of a predecessor left empty is given its length.
    pub(super) fn make_segment(&self, index: usize, length: u64) -> Result<File, Fault> {
        if self.access == Access::ReadOnly {
            return Err(Errno::ROFS.into());
        }
        let file = self.open_at(index, OFlags::CREATE)?;
        if rustix::fs::fstat(&file)?.st_size == 0 {
            rustix::fs::ftruncate(&file, length)?;
        }
        rustix::fs::fsync(&file)?;
        rustix::fs::fsync(&*self.file()?)?;
        Ok(file)
    }

    /// Returns the segments whose files were too short at the opening, with their lengths.
    pub(super) fn short(&self) -> &[(usize, u64)] {
        &self.short
    }

    /// Returns the path of a segment's file in the device at `path`.
    pub(super) fn segment_path(&self, path: &Path, index: usize) -> PathBuf {
        path.join(name(index))
    }

    /// Gives up the claim, and closes the directory when the last call in flight has ended. Returns
    /// the directory, unless it was closed before.
    pub(super) fn close(&self) -> Option<Weak<File>> {
        *self.card() = None;
        let file = self.file.lock().take();
        file.as_ref().map(Arc::downgrade)
    }

    /// Returns the open directory, unless the device was closed.
    fn file(&self) -> Result<Arc<File>, Errno> {
        self.file.lock().clone().ok_or(Errno::BADF)
    }

    /// Returns the claimed card; `None` once the claim was given up.
    pub(super) fn card(&self) -> MutexGuard<'_, Option<File>> {
        self.card.lock()
    }

    /// Replaces the card, whose lock the caller has, without ever giving up the claim. On an error
    /// the card is the old or the new one.
    pub(super) fn replace_card(
        &self,
        path: &Path,
        card: &mut Option<File>,
        geometry: Geometry,
    ) -> Result<(), OpenError> {
        let new = write_new_card(path, geometry)?;
        claim::lock(&new, path, Access::Full)?;
        rename_card(path)?;
        *card = Some(new);
        sync_card(path)
    }

    /// Gives the file of a segment that exists its new length, durably.
    pub(super) fn lengthen(
        &self,
        path: &Path,
        index: usize,
        old: u64,
        new: u64,
    ) -> Result<(), OpenError> {
        let path = path.join(name(index));
        let host = |verb| {
            let path = &path;
            move |errno: Errno| OpenError::host(verb, path, errno)
        };
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let directory = self.file().map_err(host("open"))?;
        let file = rustix::fs::openat(&*directory, name(index), flags, Mode::empty())
            .map_err(host("open"))?;
        let length = rustix::fs::fstat(&file).map_err(host("stat"))?.st_size;
        let length = length.cast_unsigned();
        if length >= new {
            return Ok(());
        }
        if length < old {
            let expected = format!("a file of {old} bytes");
            return Err(OpenError::unexpected(
                &path,
                expected,
                format!("{length} bytes"),
            ));
        }
        rustix::fs::ftruncate(&file, new).map_err(host("lengthen"))?;
        rustix::fs::fsync(&file).map_err(host("sync"))
    }

    fn open_at(&self, index: usize, extra: OFlags) -> Result<File, Fault> {
        let direct = if self.direct {
            OFlags::DIRECT
        } else {
            OFlags::empty()
        };
        let flags = self.access.flag() | OFlags::CLOEXEC | OFlags::NOFOLLOW | direct | extra;
        let mode = Mode::RUSR | Mode::WUSR;
        let directory = self.file()?;
        let file = rustix::fs::openat(&*directory, name(index), flags, mode)?;
        Ok(File::from(file))
    }
}

/// Returns the file name of a segment.
fn name(index: usize) -> String {
    format!("{index:08}.seg")
}

/// Returns the indices of all segment files in the directory.
fn list(path: &Path) -> Result<Vec<usize>, OpenError> {
    let failed = |error| OpenError::host("list", path, error);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path).map_err(failed)? {
        let file_name = entry.map_err(failed)?.file_name();
        let index = file_name
            .to_str()
            .and_then(|name| name.strip_suffix(".seg"));
        if let Some(digits) = index
            && digits.len() == 8
            && let Ok(index) = digits.parse::<usize>()
        {
            found.push(index);
        }
    }
    Ok(found)
}

/// Writes the next card beside the present one, durably.
fn write_new_card(path: &Path, geometry: Geometry) -> Result<File, OpenError> {
    let new = path.join(CARD_NEW);
    let write = || -> std::io::Result<File> {
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&new)?;
        file.write_all(geometry.card().as_bytes())?;
        file.sync_all()?;
        Ok(file)
    };
    write().map_err(|error| OpenError::host("write", &new, error))
}

/// Makes the next card the present one.
fn rename_card(path: &Path) -> Result<(), OpenError> {
    std::fs::rename(path.join(CARD_NEW), path.join(CARD))
        .map_err(|error| OpenError::host("replace", &path.join(CARD), error))
}

/// Makes the name of the card durable.
fn sync_card(path: &Path) -> Result<(), OpenError> {
    let sync = || -> std::io::Result<()> {
        File::open(path)?.sync_all()?;
        // The directory itself may be new too.
        let parent = path.canonicalize()?.parent().map(Path::to_path_buf);
        File::open(parent.unwrap_or_else(|| PathBuf::from("/")))?.sync_all()
    };
    sync().map_err(|error| OpenError::host("sync", path, error))
}

/// Returns whether the name still leads to this open file.
pub(super) fn is_at(file: &File, path: &Path) -> Result<bool, OpenError> {
    let stat = |error| OpenError::host("stat", path, error);
    let opened = file.metadata().map_err(stat)?;
    match std::fs::symlink_metadata(path) {
        Ok(named) => Ok((opened.dev(), opened.ino()) == (named.dev(), named.ino())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(stat(error)),
    }
}

fn read_card(card: &File, path: &Path) -> Result<Geometry, OpenError> {
    let mut text = String::new();
    let mut limited = card.take(CARD_BYTES_MAX);
    match limited.read_to_string(&mut text) {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => text.clear(),
        Err(error) => return Err(OpenError::host("read", path, error)),
    }
    Geometry::parse(&text).ok_or_else(|| {
        let found = format!("{:?}", text.lines().next().unwrap_or_default());
        OpenError::unexpected(
            path,
            format!("a file that begins with {CARD_TITLE:?}"),
            found,
        )
    })
}

/// Returns the name of a file type.
pub(super) fn describe(kind: std::fs::FileType) -> &'static str {
    match kind {
        _ if kind.is_dir() => "a directory",
        _ if kind.is_file() => "a regular file",
        _ if kind.is_block_device() => "a block device",
        _ if kind.is_char_device() => "a character device",
        _ if kind.is_socket() => "a socket",
        _ if kind.is_fifo() => "a pipe",
        _ => "something else",
    }
}
