//! What media say of the drives of mirrors, read with nothing of the engine.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use everglade_env::BLOCK_SIZE;
use everglade_format::config::{CONFIG_BYTES, Uuid};
use everglade_format::label::{CONFIG_OFFSETS, LABEL_BLOCKS, SUPERBLOCK_OFFSETS, label_offsets};
use everglade_format::{Config, Role, Seat, Superblock, TagKey};

use crate::engine::EngineMaker;
use crate::system::Maker;
use crate::world::Images;

const BLOCK: u64 = BLOCK_SIZE as u64;

/// What the newest superblock of the drives that are there says, and the record that it names.
/// Among superblocks of one consistency point the one of the higher epoch is the newest: another
/// one is on a drive that was cut off in the commit, and the others went on without it.
///
/// A superblock is *overruled* if another drive that is there has a record of a later epoch which
/// says that the drive with the superblock is behind. Whoever wrote that record was about to use
/// blocks that nothing it knew was in; the superblock may need them. So it does not count beside
/// others. If all are overruled, drives were opened by hand without each other, and the newest one
/// counts.
///
/// A drive is known by its UUID, and not by its number: another drive may get the seat of one that
/// is behind. A record that names another UUID for a drive's seat overrules the superblocks of that
/// drive, too. A drive that has no seat is no member: it was replaced, or was about to get one.
///
/// In a parity group, such a record says more: parity may have been written without the drive
/// since, in a consistency point that was cut. So the drive is astray, too.
///
/// A drive is *astray* if it has a commit that is not the newest one or an older one: it is of a
/// number that does not count, or another one of the same number. A start of this drive alone would
/// find that commit, so the others go on without the drive until it has caught up.
#[derive(Clone, Debug)]
pub(super) struct Standing {
    /// Number of the consistency point.
    pub(super) cp: u64,
    /// Epoch of the record.
    pub(super) epoch: u64,
    seats: Vec<Seat>,
    /// The number of the drive of each seat, whether it is there or not.
    drives: Vec<Option<usize>>,
    is_there: Vec<bool>,
    is_astray: Vec<bool>,
    /// Drives that have a superblock which goes with a record of their own that says that they are
    /// behind.
    contradictions: Vec<usize>,
}

impl Standing {
    /// Reads the labels; `None` if no drive has a superblock, or none has the record that it names:
    /// a drive that catches up gets new records before a superblock.
    pub(super) fn read(maker: &EngineMaker, images: &Images) -> Option<Standing> {
        let labels = labels(maker, images);
        let found = (0..).zip(&labels).flat_map(|(drive, label)| {
            let superblocks = label.iter().flat_map(|label| &label.superblocks);
            superblocks.map(move |superblock| (drive, superblock))
        });
        let found: Vec<(usize, &Superblock)> = found.collect();
        let counts = |(drive, it): &(usize, &Superblock)| !is_overruled(&labels, *drive, it.epoch);
        let copies = |one: &Superblock| {
            let all = found.iter().filter(|other| counts(other) && other.1 == one);
            all.map(|(drive, _)| drive).collect::<BTreeSet<_>>().len()
        };
        let newest = found.iter().max_by_key(|one| {
            let (cp, epoch) = number_of(one.1);
            (counts(one), cp, epoch, copies(one.1))
        });
        let (newest, superblock) = *newest?;
        let is_split = !found.iter().any(counts);
        let (cp, epoch) = number_of(superblock);
        let newest = labels[newest].as_ref()?;
        // Another drive may have a record of this epoch that a change left which was cut.
        let rest = labels.iter().flatten();
        let mut records = [newest].into_iter().chain(rest).flat_map(|it| &it.records);
        let record = records.find(|record| record.epoch == epoch)?;
        let contradictions = (0..labels.len()).filter(|drive| {
            let label = labels[*drive].as_ref();
            label.is_some_and(Label::contradicts)
        });
        let identities = all_labels(maker, images);
        let identities: Vec<Option<Uuid>> = identities.iter().map(Label::uuid).collect();
        let members = record.members.iter();
        let drives = members.map(|member| {
            let mut identities = identities.iter();
            identities.position(|uuid| *uuid == Some(member.uuid))
        });
        Some(Standing {
            cp,
            epoch,
            seats: record.members.iter().map(|member| member.seat).collect(),
            drives: drives.collect(),
            is_there: labels.iter().map(Option::is_some).collect(),
            is_astray: labels
                .iter()
                .enumerate()
                .map(|(drive, label)| {
                    let uuid = label.as_ref().and_then(Label::uuid);
                    let mut members = record.members.iter().zip(0..);
                    let seat = members.find(|(member, _)| Some(member.uuid) == uuid);
                    let has_parity =
                        seat.is_some_and(|(_, seat)| record.parity_group_of(seat).is_some());
                    let is_left_out = has_parity && is_overruled(&labels, drive, epoch);
                    let label = label.as_ref();
                    is_left_out || label.is_some_and(|it| it.is_astray(superblock, is_split))
                })
                .collect(),
            contradictions: contradictions.collect(),
        })
    }

    /// Drives: all of them, also those that are no members.
    pub(super) fn drives(&self) -> usize {
        self.is_there.len()
    }

    /// Returns the drive of a seat, if it has a label.
    pub(super) fn drive_of(&self, seat: usize) -> Option<usize> {
        self.drives[seat]
    }

    /// Returns a seat whose drive has no label, there or away: nobody could recognise it.
    pub(super) fn unlabelled(&self) -> Option<usize> {
        self.drives.iter().position(Option::is_none)
    }

    /// Returns the number of a drive's seat; `None` if the drive is no member.
    pub(super) fn seat_of(&self, drive: usize) -> Option<usize> {
        self.drives.iter().position(|known| *known == Some(drive))
    }

    fn seat(&self, drive: usize) -> Option<Seat> {
        self.seat_of(drive).map(|seat| self.seats[seat])
    }

    /// Returns the group of a drive; 0 if it is no member.
    pub(super) fn group(&self, drive: usize) -> u16 {
        self.seat(drive).map_or(0, |seat| seat.group)
    }

    /// True if a drive is a member, and the record says that it is behind.
    pub(super) fn is_behind(&self, drive: usize) -> bool {
        self.seat(drive).is_some_and(|seat| !seat.is_current())
    }

    /// True if a drive is a member, and the record says that it is current.
    fn is_current(&self, drive: usize) -> bool {
        self.seat(drive).is_some_and(Seat::is_current)
    }

    /// True if a drive is there, and has come by then.
    pub(super) fn is_there(&self, drive: usize) -> bool {
        self.is_there.get(drive).is_some_and(|there| *there)
    }

    /// True if a drive is a member, there, not behind and not astray.
    pub(super) fn is_usable(&self, drive: usize) -> bool {
        self.is_there(drive) && self.is_current(drive) && !self.is_astray[drive]
    }

    /// Returns the drives that have a superblock which says that they are behind.
    pub(super) fn contradictions(&self) -> &[usize] {
        &self.contradictions
    }

    /// Returns the seats of a group.
    pub(super) fn seats_of(&self, group: u16) -> Vec<usize> {
        let seats = 0..self.seats.len();
        seats
            .filter(|seat| self.seats[*seat].group == group)
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

    /// Returns the seats whose drives are away, and are not known to be behind.
    pub(super) fn missed(&self) -> Vec<usize> {
        let seats = 0..self.seats.len();
        let is_away = |seat: &usize| self.drives[*seat].is_none_or(|drive| !self.is_there(drive));
        let away = seats.filter(is_away);
        away.filter(|seat| self.seats[*seat].is_current()).collect()
    }

    /// Drives that a group needs: one of a mirror, and as many as there are data columns if there
    /// is parity.
    pub(super) fn needed_in(&self, group: u16) -> usize {
        let seats = self.seats_of(group).into_iter();
        let data = seats.filter(|seat| self.seats[*seat].role == Role::Data);
        data.count()
    }

    /// True if each group has the drives that it needs, and they can be used.
    pub(super) fn suffices(&self) -> bool {
        let mut groups = self.groups().into_iter();
        groups.all(|group| self.usable_in(group).len() >= self.needed_in(group))
    }

    /// True if a start uses the drives that are there without being told to (decision 0041, rule
    /// 7; nothing is remembered here). A drive that is astray is there: no other part of the pool
    /// has it.
    pub(super) fn opens(&self) -> bool {
        let (missed, mut drives) = (self.missed().len(), 0..self.drives());
        let is_counted = |drive: &usize| self.is_there(*drive) && self.is_current(*drive);
        let there = drives.by_ref().filter(is_counted).count();
        self.suffices() && (missed == 0 || there > missed)
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
    // Of a member, by its UUID; one that is away cannot be the only one that is started.
    let knows = |uuid: Uuid, epoch: u64| {
        let mut there = labels.iter().flatten();
        let label = there.find(|label| label.uuid() == Some(uuid));
        let newest = label.and_then(|label| label.superblocks.iter().map(number_of).max());
        newest.is_none_or(|(_, known)| known >= epoch)
    };
    let is_certain = |label: &Label, epoch: u64| {
        let record = label.records.iter().find(|record| record.epoch == epoch);
        record.is_some_and(|record| {
            let mut members = record.members.iter();
            members.all(|member| !member.seat.is_current() || knows(member.uuid, epoch))
        })
    };
    let all = labels.iter().flatten();
    let named = all.flat_map(|label| label.superblocks.iter().map(move |it| (label, it.epoch)));
    let certain = named.filter(|(label, epoch)| is_certain(label, *epoch));
    certain.map(|(_, epoch)| epoch).max().unwrap_or(0)
}

/// What the labels of a drive have.
struct Label {
    superblocks: Vec<Superblock>,
    records: Vec<Config>,
}

impl Label {
    /// Who the drive is, as its records say: its seat and its UUID.
    fn identity(&self) -> Option<(usize, Uuid)> {
        let record = self.records.first()?;
        let seat = record.member_index as usize;
        Some((seat, record.members[seat].uuid))
    }

    fn uuid(&self) -> Option<Uuid> {
        self.identity().map(|(_, uuid)| uuid)
    }

    /// True if the record that goes with the newest superblock says that the drive is behind.
    fn contradicts(&self) -> bool {
        let newest = self.superblocks.iter().map(number_of).max();
        let epoch = newest.map(|(_, epoch)| epoch);
        let mut own = self.records.iter().filter(|it| Some(it.epoch) == epoch);
        own.any(|record| {
            !record.members[record.member_index as usize]
                .seat
                .is_current()
        })
    }

    /// See [`Standing`]. `is_split` says that all superblocks are overruled.
    fn is_astray(&self, newest: &Superblock, is_split: bool) -> bool {
        let has_newest = self.superblocks.contains(newest);
        // The same commit may have been written with two epochs.
        let same = |it: &Superblock| Superblock {
            epoch: 0,
            ..it.clone()
        };
        self.superblocks
            .iter()
            .any(|it| match it.cp.cmp(&newest.cp) {
                Ordering::Greater => true,
                Ordering::Equal => !has_newest && same(it) != same(newest),
                Ordering::Less => !has_newest && is_split,
            })
    }
}

/// Consistency point and epoch.
fn number_of(superblock: &Superblock) -> (u64, u64) {
    (superblock.cp.0, superblock.epoch)
}

/// See [`Standing`].
fn is_overruled(labels: &[Option<Label>], drive: usize, epoch: u64) -> bool {
    let Some((seat, uuid)) = labels[drive].as_ref().and_then(Label::identity) else {
        return false;
    };
    let all = labels.iter().enumerate();
    let others = all.filter(|(other, _)| *other != drive);
    let mut records = others
        .filter_map(|(_, it)| it.as_ref())
        .flat_map(|it| &it.records);
    records.any(|record| {
        let member = &record.members[seat];
        record.epoch > epoch && (member.uuid != uuid || !member.seat.is_current())
    })
}

/// Returns the labels of each drive that is there.
fn labels(maker: &EngineMaker, images: &Images) -> Vec<Option<Label>> {
    let all = all_labels(maker, images).into_iter().enumerate();
    let there = all.map(|(drive, label)| (!images.is_away(drive)).then_some(label));
    there.collect()
}

/// Returns the labels of each drive, whether it is there or not.
fn all_labels(maker: &EngineMaker, images: &Images) -> Vec<Label> {
    let plan = maker.plan();
    let key = TagKey::new(&plan.secret);
    let read = |drive: usize| {
        let image = images.image(drive);
        let labels = label_offsets(images.spec(drive).size_bytes);
        let places = |slots: [u64; 2]| {
            let labels = labels.into_iter();
            labels.flat_map(move |label| slots.map(|slot| (label + slot) / BLOCK))
        };
        let superblocks = places(SUPERBLOCK_OFFSETS).filter_map(|place| {
            let found = Superblock::decode(&image.read(place), &key, &plan.uuid);
            found.ok()?
        });
        let records = places(CONFIG_OFFSETS).filter_map(|place| {
            let blocks = CONFIG_BYTES as u64 / BLOCK;
            let pages = (place..place + blocks).map(|block| image.read(block));
            let bytes: Vec<u8> = pages.flat_map(|page| page[..].to_vec()).collect();
            Config::decode(&bytes).ok()?
        });
        let records = records.filter(|record| record.uuid == plan.uuid);
        Label {
            superblocks: superblocks.collect(),
            records: records.collect(),
        }
    };
    (0..images.devices()).map(read).collect()
}

/// Returns the first block behind the front label and the journal of a drive, if it has one.
pub(super) fn first_data_block(maker: &EngineMaker, drive: usize) -> u64 {
    match drive < maker.drives_together() {
        true => maker.promises().journal_blocks.end.max(LABEL_BLOCKS),
        false => LABEL_BLOCKS,
    }
}
