//! The bytes of the default directory device, while no server has it.

use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use everglade_format::config::CONFIG_BYTES;
use everglade_format::label::CONFIG_OFFSETS;
use everglade_format::{Config, Geometry, Pvbn};
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

use super::BLOCK;
use crate::running::TestDir;

const SEGMENT_BYTES: u64 = 1 << 30;

pub(super) struct Medium {
    directory: PathBuf,
    pub(super) size_bytes: u64,
    /// Where the journal is: after an orderly end nothing there counts.
    journal: Range<u64>,
    geometry: Option<Geometry>,
}

impl Medium {
    pub(super) fn of(dir: &TestDir) -> Medium {
        let directory = dir.data_dir().join("aggregates/aggr0/dev0");
        let card = fs::read_to_string(directory.join("DEVICE")).expect("a card");
        let size = card
            .lines()
            .find_map(|line| line.strip_prefix("size_bytes "))
            .expect("a size");
        let mut medium = Medium {
            size_bytes: size.parse().expect("a number"),
            directory,
            journal: 0..0,
            geometry: None,
        };
        let records = CONFIG_OFFSETS.map(|slot| medium.read(slot, CONFIG_BYTES));
        let config = records
            .iter()
            .find_map(|record| Config::decode(record).ok().flatten());
        if let Some(config) = config {
            let first = config.journal.first.0 * BLOCK as u64;
            medium.journal = first..first + config.journal.blocks * BLOCK as u64;
            medium.geometry = config.geometry().ok();
        }
        medium
    }

    /// Where a block of the aggregate is.
    pub(super) fn locate(&self, pvbn: Pvbn) -> u64 {
        let geometry = self.geometry.as_ref().expect("a label");
        let run = geometry.locate(pvbn).expect("a block of the aggregate");
        run.dbn.0 * BLOCK as u64
    }

    fn segment(&self, offset: u64) -> (File, u64) {
        let name = format!("{:08}.seg", offset / SEGMENT_BYTES);
        let path = self.directory.join(name);
        let file = File::options().read(true).write(true).open(path);
        (file.expect("a segment"), offset % SEGMENT_BYTES)
    }

    pub(super) fn read(&self, offset: u64, length: usize) -> Vec<u8> {
        let (file, within) = self.segment(offset);
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, within).expect("read");
        bytes
    }

    pub(super) fn write(&self, offset: u64, bytes: &[u8]) {
        let (file, within) = self.segment(offset);
        file.write_all_at(bytes, within).expect("write");
    }

    /// Zeroes the range; returns what was there.
    pub(super) fn wipe(&self, offset: u64, length: usize) -> Vec<u8> {
        let before = self.read(offset, length);
        self.write(offset, &vec![0; length]);
        before
    }

    /// Flips one bit of a block. Doing it twice repairs it.
    pub(super) fn flip(&self, offset: u64) {
        let mut block = self.read(offset, BLOCK);
        block[BLOCK / 2] ^= 0x10;
        self.write(offset, &block);
    }

    /// Where blocks are that look like this, outside the journal. Holes of the segment files are
    /// passed over.
    pub(super) fn find(&self, looks: impl Fn(&[u8]) -> bool) -> Vec<u64> {
        let mut found = Vec::new();
        let block_bytes = BLOCK as u64;
        for start in (0..self.size_bytes.div_ceil(SEGMENT_BYTES)).map(|index| index * SEGMENT_BYTES)
        {
            let path = self
                .directory
                .join(format!("{:08}.seg", start / SEGMENT_BYTES));
            let Ok(file) = File::open(path) else {
                continue;
            };
            let mut block = vec![0; BLOCK];
            let mut at = 0;
            loop {
                at = match seek(&file, SeekFrom::Data(at)) {
                    Ok(data) => data / block_bytes * block_bytes,
                    Err(Errno::NXIO) => break,
                    Err(error) => panic!("seek: {error}"),
                };
                let hole = seek(&file, SeekFrom::Hole(at)).expect("every file ends in a hole");
                while at < hole {
                    file.read_exact_at(&mut block, at).expect("read");
                    if !self.journal.contains(&(start + at)) && looks(&block) {
                        found.push(start + at);
                    }
                    at += block_bytes;
                }
            }
        }
        found
    }
}
