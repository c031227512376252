//! Copies: the places where a device may have labels, and the contents of these places.

use std::collections::BTreeSet;

use everglade_env::{DeviceId, DiskError, Storage};
use everglade_format::config::{CONFIG_BYTES, Uuid};
use everglade_format::damage::Writer;
use everglade_format::label::{CONFIG_OFFSETS, LABEL_BYTES, SUPERBLOCK_OFFSETS, label_offsets};
use everglade_format::{BLOCK_SIZE, Config, Damage, Superblock, TagKey};

use crate::unreadable::Unreadable;

/// The place of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Site {
    pub(crate) device: DeviceId,
    /// First byte of the label on the device: 0 at the front.
    pub(crate) label: u64,
    /// Byte on the device.
    pub(crate) offset: u64,
    /// 0 or 1 by epoch or consistency point.
    pub(crate) slot: usize,
}

/// The contents of a site.
#[derive(Debug)]
pub(crate) enum Copy<T> {
    Absent,
    Damaged(Damage),
    Failed(DiskError),
    Valid(T),
}

impl<T> Copy<T> {
    fn of(decoded: Result<Option<T>, Damage>) -> Self {
        match decoded {
            Ok(Some(value)) => Copy::Valid(value),
            Ok(None) => Copy::Absent,
            Err(damage) => Copy::Damaged(damage),
        }
    }

    pub(crate) fn valid(&self) -> Option<&T> {
        match self {
            Copy::Valid(value) => Some(value),
            _ => None,
        }
    }

    pub(crate) fn trouble(&self) -> String {
        match self {
            Copy::Absent => "nothing".into(),
            Copy::Damaged(damage) => damage.to_string(),
            Copy::Failed(error) => error.to_string(),
            Copy::Valid(_) => "a valid copy".into(),
        }
    }
}

/// The config records of one device.
pub(super) struct Records {
    pub(super) device: DeviceId,
    size_bytes: u64,
    pub(super) copies: Vec<(Site, Copy<Config>)>,
}

fn sites(device: DeviceId, label: u64, offsets: [u64; 2]) -> [Site; 2] {
    [0, 1].map(|slot| Site {
        device,
        label,
        offset: label + offsets[slot],
        slot,
    })
}

/// The label at the end that a record names for the member that holds it.
fn end_named_by(record: &Config) -> Option<u64> {
    let own = record.members.get(record.member_index as usize)?;
    Some(label_offsets(own.size_blocks * BLOCK_SIZE as u64)[1])
}

impl Records {
    /// Reads the labels at the device's front and end, then those at the ends that their records
    /// name: a device may have become larger since the record was written. A device that is too
    /// small for labels has none.
    pub(super) fn read(storage: &dyn Storage, device: DeviceId) -> Result<Records, Unreadable> {
        let size_bytes = storage.size_bytes(device);
        let mut records = Records {
            device,
            size_bytes,
            copies: Vec::new(),
        };
        if size_bytes < 2 * LABEL_BYTES {
            return Ok(records);
        }
        for label in label_offsets(size_bytes) {
            records.read_label(storage, label);
        }
        let named: BTreeSet<u64> = records
            .whole()
            .filter_map(|(_, record)| end_named_by(record))
            .collect();
        let known = records.labels();
        for label in named {
            if !known.contains(&label) && label + LABEL_BYTES <= size_bytes {
                records.read_label(storage, label);
            }
        }
        records.refuse_other_versions()?;
        Ok(records)
    }

    fn read_label(&mut self, storage: &dyn Storage, label: u64) {
        let mut bytes = vec![0; CONFIG_BYTES];
        for site in sites(self.device, label, CONFIG_OFFSETS) {
            let copy = match storage.read(self.device, site.offset, &mut bytes) {
                Ok(()) => Copy::of(Config::decode(&bytes)),
                Err(error) => Copy::Failed(error),
            };
            self.copies.push((site, copy));
        }
    }

    /// Places of the labels that were read.
    fn labels(&self) -> BTreeSet<u64> {
        self.copies.iter().map(|(site, _)| site.label).collect()
    }

    /// The records that can be read.
    pub(super) fn whole(&self) -> impl Iterator<Item = (&Site, &Config)> {
        let copies = self.copies.iter();
        copies.filter_map(|(site, copy)| copy.valid().map(|config| (site, config)))
    }

    /// One newer record is enough: the records beside it are older, and an upgrade may have been
    /// interrupted. An older record counts only if no other can be read.
    fn refuse_other_versions(&self) -> Result<(), Unreadable> {
        let is_readable = self.whole().next().is_some();
        for (_, copy) in &self.copies {
            if let Copy::Damaged(damage) = copy
                && match damage.writer {
                    Writer::Newer => true,
                    Writer::Older => !is_readable,
                    Writer::Same => false,
                }
            {
                return Err(Unreadable::Version {
                    device: self.device,
                    expected: format!("{} {}", damage.what, damage.expected),
                    found: format!("{} {}", damage.what, damage.found),
                });
            }
        }
        Ok(())
    }

    /// Why the device has no whole record.
    pub(super) fn trouble(&self) -> Unreadable {
        let (device, size_bytes) = (self.device, self.size_bytes);
        if size_bytes < 2 * LABEL_BYTES {
            return Unreadable::TooSmall { device, size_bytes };
        }
        for (site, copy) in &self.copies {
            if let Copy::Failed(error) = copy {
                return Unreadable::Disk {
                    device,
                    offset: site.offset,
                    error: *error,
                };
            }
        }
        let found = self
            .copies
            .iter()
            .find(|(_, copy)| !matches!(copy, Copy::Absent))
            .map_or_else(|| "nothing".into(), |(_, copy)| copy.trouble());
        Unreadable::NoLabel { device, found }
    }

    /// Reads the superblocks of all labels of the device.
    pub(super) fn superblocks(
        &self,
        storage: &dyn Storage,
        key: &TagKey,
        uuid: &Uuid,
    ) -> Vec<(Site, Copy<Superblock>)> {
        let mut block = [0; BLOCK_SIZE];
        let mut read = |site: Site| match storage.read(self.device, site.offset, &mut block) {
            Ok(()) => (site, Copy::of(Superblock::decode(&block, key, uuid))),
            Err(error) => (site, Copy::Failed(error)),
        };
        let labels = self.labels().into_iter();
        let sites = labels.flat_map(|label| sites(self.device, label, SUPERBLOCK_OFFSETS));
        sites.map(&mut read).collect()
    }
}
