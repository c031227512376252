//! A device becomes larger while reactors use it.
//!
//! A directory is given its size, which its card has; files and block devices have the size that
//! the host says. Nothing becomes smaller, and no byte moves.
//!
//! old size --last segment file longer, fsync--> same size --new card--> larger size --> in use
//!
//! 1. The last segment's file becomes longer before the card says so. If power fails between the
//!    two, the file is longer than it needs to be, which nobody notices. The other order would
//!    leave a file that is too short, which counts as damaged.
//! 2. Nobody opens or makes that file meanwhile (its *turn* is held), so a file is never made with
//!    the old length after the device has the new size.
//! 3. The card is the claim on the directory. The new one is locked before it takes the name of the
//!    old one, whose lock is released afterwards. So whoever opens the name finds a locked file. A
//!    server that opened the old card before the exchange, and locks it after, finds that the name
//!    leads to another file, and leaves (`directory::open`).
//! 4. The size is published last: whoever reads it can use all of it.

use rustix::io::Errno;

use super::{Budget, Device, DeviceKind, Directory, Geometry, OpenError, SIZE_MAX, block};
use crate::BLOCK_SIZE;

impl Device {
    /// Gives a directory the size; or gives a file or block device the size that the host says, if
    /// that is larger. Returns the size.
    pub(crate) fn grow(&self, size_bytes: Option<u64>, budget: &Budget) -> Result<u64, OpenError> {
        match (&self.directory, size_bytes) {
            (Some(directory), Some(size_bytes)) => self.grow_directory(directory, size_bytes)?,
            (Some(_), None) => {}
            (None, None) => self.publish_size(self.host_size(budget)?),
            (None, Some(_)) => {
                let found = match self.kind {
                    DeviceKind::Block => "a block device",
                    DeviceKind::File | DeviceKind::Directory => "a regular file",
                };
                let expected = "a directory, which can be given a size";
                return Err(OpenError::unexpected(&self.path, expected, found));
            }
        }
        self.measure_host();
        Ok(self.size_bytes())
    }

    /// Returns the size that the host says, in whole blocks.
    fn host_size(&self, budget: &Budget) -> Result<u64, OpenError> {
        let path = &self.path;
        let host = |verb| move |error: std::io::Error| OpenError::host(verb, path, error);
        let file = self.segment(0).handle(budget);
        let file = file.ok_or_else(|| host("grow")(Errno::NODEV.into()))?;
        let bytes = match self.kind {
            DeviceKind::Block => {
                block::size(&file).map_err(|errno| host("ask the size of")(errno.into()))?
            }
            DeviceKind::File | DeviceKind::Directory => {
                file.metadata().map_err(host("stat"))?.len()
            }
        };
        if bytes > SIZE_MAX {
            let (expected, found) = (
                format!("at most {SIZE_MAX} bytes"),
                format!("{bytes} bytes"),
            );
            return Err(OpenError::unexpected(path, expected, found));
        }
        Ok(bytes - bytes % BLOCK_SIZE as u64)
    }

    fn grow_directory(&self, directory: &Directory, size_bytes: u64) -> Result<(), OpenError> {
        let (path, segment_bytes) = (&self.path, self.segment_bytes);
        // Held to the end, so that a device grows once at a time.
        let mut card = directory.card();
        if card.is_none() {
            return Err(OpenError::host("grow", path, Errno::NODEV));
        }
        let before = self.size_bytes();
        if size_bytes == before {
            return Ok(());
        }
        if size_bytes < before {
            let expected = format!("a size of at least {before} bytes");
            return Err(OpenError::unexpected(
                path,
                expected,
                format!("{size_bytes} bytes"),
            ));
        }
        let geometry = Geometry {
            size_bytes,
            segment_bytes,
        };
        if let Some(problem) = geometry.problem() {
            return Err(OpenError::unexpected(path, "a usable device size", problem));
        }
        let last = usize::try_from((before - 1) / segment_bytes).expect("segments are few");
        let segment = self.segment(last);
        let _turn = segment.turn();
        if segment.is_lost() {
            let file = directory.segment_path(path, last);
            let expected = format!("a file of {} bytes", self.segment_length(last));
            let found = "a file that is missing or too short";
            return Err(OpenError::unexpected(&file, expected, found));
        }
        if segment.exists() {
            let old = self.segment_length(last);
            let new = (size_bytes - last as u64 * segment_bytes).min(segment_bytes);
            directory.lengthen(path, last, old, new)?;
        }
        directory.replace_card(path, &mut card, geometry)?;
        let count = usize::try_from(geometry.segments()).expect("checked to be few");
        self.segments.grow_to(count);
        self.publish_size(size_bytes);
        Ok(())
    }
}
