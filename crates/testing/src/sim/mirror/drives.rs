//! What media say of the drives of mirrors, read with nothing of the engine.

use everglade_env::BLOCK_SIZE;
use everglade_format::config::CONFIG_BYTES;
use everglade_format::label::{CONFIG_OFFSETS, LABEL_BLOCKS, SUPERBLOCK_OFFSETS, label_offsets};
use everglade_format::{Config, Seat, Superblock, TagKey};

use crate::engine::EngineMaker;
use crate::system::Maker;
use crate::world::Images;

const BLOCK: u64 = BLOCK_SIZE as u64;

/// What the newest superblock of the drives that are there says, and the record that it names.
/// Among superblocks of one consistency point the one of the higher epoch is the newest: another
/// one is on a drive that was cut off in the commit, and the others went on without it.
#[derive(Clone, Debug)]
pub(super) struct Standing {
    /// Number of the consistency point.
    pub(super) cp: u64,
    /// Epoch of the record.
    pub(super) epoch: u64,
    seats: Vec<Seat>,
    is_there: Vec<bool>,
    /// Epochs of the newest superblock of each drive.
    epochs: Vec<u64>,
}

impl Standing {
    /// Reads the labels; `None` if no drive has a superblock, or none has the record that it names:
    /// a drive that catches up gets new records before a superblock.
    pub(super) fn read(maker: &EngineMaker, images: &Images) -> Option<Standing> {
        let labels = labels(maker, images);
        let newest = labels.iter().flatten().max_by_key(|label| label.superblock);
        let newest = newest?;
        let (cp, epoch) = newest.superblock?;
        // Another drive may have a record of this epoch that a change left which was cut.
        let rest = labels.iter().flatten();
        let mut records = [newest].into_iter().chain(rest).flat_map(|it| &it.records);
        let record = records.find(|record| record.epoch == epoch)?;
        let epoch_of = |label: &Option<Label>| label.as_ref()?.superblock.map(|(_, epoch)| epoch);
        Some(Standing {
            cp,
            epoch,
            seats: record.members.iter().map(|member| member.seat).collect(),
            is_there: labels.iter().map(Option::is_some).collect(),
            epochs: labels.iter().map(|it| epoch_of(it).unwrap_or(0)).collect(),
        })
    }

    /// Drives: all of them, in the order of the members.
    pub(super) fn drives(&self) -> usize {
        self.seats.len()
    }

    /// Returns the group of a drive.
    pub(super) fn group(&self, drive: usize) -> u16 {
        self.seats[drive].group
    }

    /// True if the record says that a drive is behind.
    pub(super) fn is_behind(&self, drive: usize) -> bool {
        !self.seats[drive].is_current()
    }

    /// True if a drive is there.
    pub(super) fn is_there(&self, drive: usize) -> bool {
        self.is_there[drive]
    }

    /// True if a drive is there, and is not behind.
    pub(super) fn is_usable(&self, drive: usize) -> bool {
        self.is_there(drive) && !self.is_behind(drive)
    }

    /// Returns the drives that are behind, and have a superblock that says so.
    pub(super) fn contradictions(&self) -> Vec<usize> {
        let drives = 0..self.drives();
        let behind = drives.filter(|drive| self.is_behind(*drive));
        behind
            .filter(|drive| self.epochs[*drive] >= self.epoch)
            .collect()
    }

    /// Returns the usable drives of a group.
    pub(super) fn usable_in(&self, group: u16) -> Vec<usize> {
        let drives = 0..self.drives();
        let of_group = drives.filter(|drive| self.group(*drive) == group);
        of_group.filter(|drive| self.is_usable(*drive)).collect()
    }

    /// Returns the groups.
    pub(super) fn groups(&self) -> Vec<u16> {
        let mut groups: Vec<u16> = self.seats.iter().map(|seat| seat.group).collect();
        groups.sort_unstable();
        groups.dedup();
        groups
    }

    /// Returns the drives that are away, and are not known to be behind.
    pub(super) fn missed(&self) -> Vec<usize> {
        let drives = 0..self.drives();
        let away = drives.filter(|drive| !self.is_there(*drive));
        away.filter(|drive| !self.is_behind(*drive)).collect()
    }

    /// True if each mirror has a drive that can be used.
    pub(super) fn suffices(&self) -> bool {
        let mut groups = self.groups().into_iter();
        groups.all(|group| !self.usable_in(group).is_empty())
    }

    /// True if a start uses the drives that are there without being told to (decision 0041, rule
    /// 8; nothing is remembered here).
    pub(super) fn opens(&self) -> bool {
        let (missed, drives) = (self.missed().len(), 0..self.drives());
        let usable = drives.filter(|drive| self.is_usable(*drive)).count();
        self.suffices() && (missed == 0 || usable > missed)
    }

    /// True if this is not older than another one.
    pub(super) fn is_as_new_as(&self, other: &Standing) -> bool {
        (self.cp, self.epoch) >= (other.cp, other.epoch)
    }
}

/// The newest epoch that all drives know which are usable by its record. A start from any of them
/// finds this epoch or a later one.
pub(super) fn certain_epoch(maker: &EngineMaker, images: &Images) -> u64 {
    let labels = labels(maker, images);
    let knows = |drive: usize, epoch: u64| {
        let label = labels[drive].as_ref();
        let newest = label.and_then(|label| label.superblock);
        newest.is_none_or(|(_, known)| known >= epoch) || images.is_away(drive)
    };
    let is_certain = |label: &Label, epoch: u64| {
        let record = label.records.iter().find(|record| record.epoch == epoch);
        record.is_some_and(|record| {
            let mut members = record.members.iter().enumerate();
            members.all(|(drive, member)| !member.seat.is_current() || knows(drive, epoch))
        })
    };
    let all = labels.iter().flatten();
    let named = all.flat_map(|label| label.epochs.iter().map(move |epoch| (label, *epoch)));
    let certain = named.filter(|(label, epoch)| is_certain(label, *epoch));
    certain.map(|(_, epoch)| epoch).max().unwrap_or(0)
}

/// What the labels of a drive have.
struct Label {
    /// Consistency point and epoch of the newest superblock.
    superblock: Option<(u64, u64)>,
    /// Epochs of all superblocks.
    epochs: Vec<u64>,
    records: Vec<Config>,
}

/// Returns the labels of each drive that is there.
fn labels(maker: &EngineMaker, images: &Images) -> Vec<Option<Label>> {
    let plan = maker.plan();
    let key = TagKey::new(&plan.secret);
    let read = |drive: usize| {
        if images.is_away(drive) {
            return None;
        }
        let image = images.image(drive);
        let labels = label_offsets(images.spec(drive).size_bytes);
        let places = |slots: [u64; 2]| {
            let labels = labels.into_iter();
            labels.flat_map(move |label| slots.map(|slot| (label + slot) / BLOCK))
        };
        let superblocks = places(SUPERBLOCK_OFFSETS).filter_map(|place| {
            let found = Superblock::decode(&image.read(place), &key, &plan.uuid);
            let superblock = found.ok()??;
            Some((superblock.cp.0, superblock.epoch))
        });
        let records = places(CONFIG_OFFSETS).filter_map(|place| {
            let blocks = CONFIG_BYTES as u64 / BLOCK;
            let pages = (place..place + blocks).map(|block| image.read(block));
            let bytes: Vec<u8> = pages.flat_map(|page| page[..].to_vec()).collect();
            Config::decode(&bytes).ok()?
        });
        let superblocks: Vec<(u64, u64)> = superblocks.collect();
        Some(Label {
            superblock: superblocks.iter().max().copied(),
            epochs: superblocks.iter().map(|(_, epoch)| *epoch).collect(),
            records: records.collect(),
        })
    };
    (0..images.devices()).map(read).collect()
}

/// Returns the first block behind the front label and the journal of a drive, if it has one.
pub(super) fn first_data_block(maker: &EngineMaker, drive: usize) -> u64 {
    match drive < maker.copies {
        true => maker.promises().journal_blocks.end.max(LABEL_BLOCKS),
        false => LABEL_BLOCKS,
    }
}
