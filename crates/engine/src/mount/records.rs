//! Config records and superblocks in the labels of one device.
//!
//! A device has a label at its front and a copy at the end that its record names, which is the end
//! of the device unless the device became larger since. Each label has two slots for records and
//! two for superblocks. All whole ones are returned: which of them count is decided elsewhere
//! ([`super::labels`]).

use everglade_env::{BLOCK_SIZE, DeviceId, Storage};
use everglade_format::config::{CONFIG_BYTES, Uuid};
use everglade_format::damage::Writer;
use everglade_format::label::{CONFIG_OFFSETS, LABEL_BYTES, SUPERBLOCK_OFFSETS, label_offsets};
use everglade_format::{Config, FORMAT_VERSION, Superblock, TagKey};

use crate::mount::refusal::{RESTORE, Refusal, of_another};

/// The whole config records of a device.
pub(crate) struct Records {
    pub(crate) device: DeviceId,
    /// Each once; the highest epoch is not always the one that counts.
    pub(crate) records: Vec<Config>,
    /// Offsets of the labels that were looked at.
    labels: Vec<u64>,
    /// The first slot that was neither a record nor empty.
    complaint: Option<String>,
    /// The first record of an older version of the format.
    older: Option<Refusal>,
}

impl Records {
    /// Returns records that were found elsewhere.
    #[cfg(test)]
    pub(crate) fn of(device: DeviceId, records: Vec<Config>) -> Records {
        Records {
            device,
            records,
            labels: Vec::new(),
            complaint: None,
            older: None,
        }
    }

    /// Reads all labels of a device.
    ///
    /// # Errors
    /// One newer record is enough to refuse a device: the records beside it are older, and an
    /// upgrade may have been interrupted.
    pub(crate) fn read(storage: &dyn Storage, device: DeviceId) -> Result<Records, Refusal> {
        let size = storage.size_bytes(device);
        let mut found = Records {
            device,
            records: Vec::new(),
            labels: Vec::new(),
            complaint: None,
            older: None,
        };
        if size >= 2 * LABEL_BYTES {
            for label in label_offsets(size) {
                found.read_label(storage, label)?;
            }
        }
        // The end that a record names may be before the end of a device that became larger.
        let mut next = 0;
        while let Some(record) = found.records.get(next) {
            next += 1;
            let member = &record.members[record.member_index as usize];
            let [_, end] = label_offsets(member.size_blocks * BLOCK_SIZE as u64);
            if end + LABEL_BYTES <= size {
                found.read_label(storage, end)?;
            }
        }
        Ok(found)
    }

    fn read_label(&mut self, storage: &dyn Storage, label: u64) -> Result<(), Refusal> {
        if self.labels.contains(&label) {
            return Ok(());
        }
        self.labels.push(label);
        let name = || storage.name(self.device);
        for slot in CONFIG_OFFSETS {
            let mut bytes = vec![0; CONFIG_BYTES];
            if let Err(error) = storage.read(self.device, label + slot, &mut bytes) {
                self.complaint
                    .get_or_insert_with(|| format!("device {}: {error}", name()));
                continue;
            }
            match Config::decode(&bytes) {
                Ok(Some(config)) if !self.records.contains(&config) => self.records.push(config),
                Ok(_) => {}
                Err(damage) if damage.writer == Writer::Newer => {
                    return Err(of_another(&name(), &damage));
                }
                Err(damage) if damage.writer == Writer::Older => {
                    self.older
                        .get_or_insert_with(|| of_another(&name(), &damage));
                }
                Err(damage) => {
                    self.complaint
                        .get_or_insert_with(|| format!("device {}: {damage}", name()));
                }
            }
        }
        Ok(())
    }

    /// Returns them if there are any.
    ///
    /// # Errors
    /// The device has no whole record that this build can read.
    pub(crate) fn whole(self, storage: &dyn Storage) -> Result<Records, Refusal> {
        if !self.records.is_empty() {
            return Ok(self);
        }
        Err(self.older.unwrap_or_else(|| {
            let name = storage.name(self.device);
            let found = self
                .complaint
                .unwrap_or_else(|| format!("device {name} has no Everglade label"));
            let expected =
                format!("the label of an Everglade device of format version {FORMAT_VERSION}");
            Refusal::new(found, expected, RESTORE)
        }))
    }
}

/// The whole superblocks of a device.
pub(crate) struct Superblocks {
    pub(crate) found: Vec<Superblock>,
    /// The last place that has none.
    pub(crate) complaint: Option<String>,
}

impl Superblocks {
    /// Reads the superblocks in the labels that `records` found.
    ///
    /// # Errors
    /// A superblock of another version of the format.
    pub(crate) fn read(
        storage: &dyn Storage,
        records: &Records,
        key: &TagKey,
        uuid: &Uuid,
    ) -> Result<Superblocks, Refusal> {
        let (device, name) = (records.device, storage.name(records.device));
        let (mut found, mut complaint) = (Vec::new(), None);
        for label in &records.labels {
            for slot in SUPERBLOCK_OFFSETS {
                let mut block = [0; BLOCK_SIZE];
                if let Err(error) = storage.read(device, label + slot, &mut block) {
                    complaint = Some(format!("device {name}: {error}"));
                    continue;
                }
                match Superblock::decode(&block, key, uuid) {
                    Ok(Some(superblock)) if !found.contains(&superblock) => found.push(superblock),
                    Ok(_) => {}
                    Err(damage) if damage.is_of_another() => {
                        return Err(of_another(&name, &damage));
                    }
                    Err(damage) => complaint = Some(format!("device {name}: {damage}")),
                }
            }
        }
        Ok(Superblocks { found, complaint })
    }
}

/// What the labels of one device say.
pub(crate) struct Read {
    pub(crate) records: Records,
    pub(crate) superblocks: Superblocks,
    /// It may turn out not to be a member.
    pub(crate) is_joining: bool,
}

impl Read {
    /// The device's record of an epoch. If copies differ, one that equals `reference`.
    pub(crate) fn record_of(&self, epoch: u64, reference: Option<&Config>) -> Option<&Config> {
        let mut records = self.records.records.iter().filter(|it| it.epoch == epoch);
        let first = records.clone().next();
        let matches = |it: &&Config| reference.is_some_and(|reference| is_same(it, reference));
        records.find(matches).or(first)
    }
}

/// True if two records differ at most in the member that holds them.
pub(crate) fn is_same(one: &Config, other: &Config) -> bool {
    *one == Config {
        member_index: one.member_index,
        ..other.clone()
    }
}
