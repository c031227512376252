//! Comparison of copies with the newest superblock and with the record that it goes with.

use everglade_format::label::{config_slot, superblock_slot};
use everglade_format::{Config, Superblock};

use super::{Copy, Labels, Placed, Site, Trouble};
use crate::findings::Findings;
use crate::problem::{Kind, Object, ProblemPlace};

impl Labels {
    pub(super) fn compare_records(&self, findings: &mut Findings) {
        for (site, copy) in &self.records {
            self.compare_record(site, copy, findings);
        }
        if self.superblock.epoch != self.config.epoch {
            let expected = format_args!("a config record of epoch {}", self.superblock.epoch);
            let found = format_args!("epoch {}", self.config.epoch);
            let (object, place) = (Object::Aggregate, ProblemPlace::NONE);
            findings.add(Kind::EpochAhead, &object, place, expected, found);
        }
    }

    fn compare_record(&self, site: &Site, copy: &Copy<Config>, findings: &mut Findings) {
        let epoch = self.config.epoch;
        // What a change leaves elsewhere has no meaning.
        let Some(member) = self
            .member_of(site.device)
            .filter(|_| self.is_in_place(site))
        else {
            return;
        };
        let is_in_its_slot = site.slot == config_slot(epoch);
        let object = Object::Device(site.device);
        let place = ProblemPlace::at_offset(site.offset);
        let expected = format_args!("config record of epoch {epoch}");
        match copy {
            Copy::Valid(record) if config_slot(record.epoch) != site.slot => {
                let slot = config_slot(record.epoch);
                let found = format_args!("slot {}", site.slot);
                let expected = format_args!("epoch {} in slot {slot}", record.epoch);
                findings.add(Kind::LabelSlot, &object, place, expected, found);
            }
            Copy::Valid(record) if record.epoch > epoch => {
                // A change after one that was cut gets an epoch beyond those that were seen, if
                // there are groups or if members are removed.
                let has_removals = self.config.has_removals() || record.has_removals();
                let skips = self.config.has_groups() || has_removals;
                let kind = match record.epoch - epoch {
                    1 => Kind::ChangeCut,
                    _ if skips && !is_in_its_slot => Kind::ChangeCut,
                    _ => Kind::EpochBehind,
                };
                let expected = format_args!("config records up to epoch {epoch}");
                let found = format_args!("epoch {}, which no superblock names", record.epoch);
                findings.add(kind, &object, place, expected, found);
            }
            Copy::Valid(record) if record.epoch == epoch => {
                let mut same = self.config.clone();
                same.member_index = member;
                if same != *record {
                    let expected = format_args!("{same:?}");
                    let found = format_args!("{record:?}");
                    findings.add(Kind::LabelCopiesDiffer, &object, place, expected, found);
                }
            }
            Copy::Valid(record) if is_in_its_slot => {
                let found = format_args!("epoch {}", record.epoch);
                findings.add(Kind::LabelStale, &object, place, expected, found);
            }
            Copy::Valid(_) => {}
            Copy::Absent if !is_in_its_slot => {}
            // The slot of the next epoch.
            Copy::Damaged(_) if !is_in_its_slot => {
                let expected = format_args!("a whole config record, or none");
                findings.add(Kind::ChangeCut, &object, place, expected, copy.trouble());
            }
            Copy::Absent | Copy::Damaged(_) | Copy::Failed(_) => {
                let expected = format_args!("a config record in slot {}", site.slot);
                findings.add(Kind::LabelDamaged, &object, place, expected, copy.trouble());
            }
        }
    }

    pub(super) fn compare_superblocks(&self, findings: &mut Findings) {
        for (site, copy) in &self.superblocks {
            if self.is_in_place(site) {
                self.compare_superblock(site, copy, findings);
            }
        }
    }

    fn compare_superblock(&self, site: &Site, copy: &Copy<Superblock>, findings: &mut Findings) {
        let newest = self.superblock.cp;
        let object = Object::Device(site.device);
        let place = ProblemPlace::at_offset(site.offset);
        let is_in_its_slot = site.slot == superblock_slot(newest);
        let expected = format_args!("superblock of consistency point {newest}");
        match copy {
            Copy::Valid(it) if superblock_slot(it.cp) != site.slot => {
                let slot = superblock_slot(it.cp);
                let found = format_args!("slot {}", site.slot);
                let expected = format_args!("consistency point {} in slot {slot}", it.cp);
                findings.add(Kind::SuperblockSlot, &object, place, expected, found);
            }
            // The commit was written again with a later epoch, because a drive was lost meanwhile.
            Copy::Valid(it)
                if it.epoch < self.superblock.epoch && it.is_same_commit(&self.superblock) =>
            {
                let found = format_args!("the same of epoch {}", it.epoch);
                findings.add(Kind::SuperblockStale, &object, place, expected, found);
            }
            Copy::Valid(it) if it.cp == newest => {
                if *it != self.superblock {
                    let kind = Kind::SuperblockCopiesDiffer;
                    let expected = format_args!("{:?}", self.superblock);
                    findings.add(kind, &object, place, expected, format_args!("{it:?}"));
                }
            }
            Copy::Valid(it) if is_in_its_slot => {
                let found = format_args!("consistency point {}", it.cp);
                findings.add(Kind::SuperblockStale, &object, place, expected, found);
            }
            Copy::Valid(_) => {}
            Copy::Absent if !is_in_its_slot => {}
            Copy::Absent => {
                findings.add(Kind::SuperblockStale, &object, place, expected, "nothing");
            }
            Copy::Damaged(_) | Copy::Failed(_) => {
                let kind = Kind::SuperblockDamaged;
                let expected = format_args!("a superblock in slot {}", site.slot);
                findings.add(kind, &object, place, expected, copy.trouble());
            }
        }
    }

    /// A power cut leaves the superblocks of two members at most one consistency point apart. A
    /// member has none at all only if it joined with the newest consistency point: then no
    /// superblock of this epoch is older, and the record of the epoch before does not name it. That
    /// record proves nothing if it is nowhere, because the next change overwrites it. A member of a
    /// group that was behind in it may have caught up with that consistency point, and have any
    /// older one: it got the record of this epoch when it had all of its blocks. Members that are
    /// not read are named.
    pub(super) fn check_members(&self, findings: &mut Findings) {
        for stranger in &self.strangers {
            let object = Object::Device(stranger.device);
            let expected = format_args!("a member in epoch {}", self.config.epoch);
            let (place, found) = (ProblemPlace::NONE, &stranger.found);
            findings.add(Kind::NoMember, &object, place, expected, found);
        }
        let newest = self.superblock.cp;
        let valid = || {
            let all = self.superblocks.iter();
            all.filter_map(|(site, copy)| copy.valid().map(|it| (site.device, it)))
        };
        let is_earlier = |it: &Superblock| it.epoch == self.superblock.epoch && it.cp < newest;
        // A device that is no member may have one that is left over.
        let mut members = valid().filter(|(device, _)| self.member_of(*device).is_some());
        let is_first = !members.any(|(_, it)| is_earlier(it));
        for (member, placed) in (0..).zip(&self.members) {
            let own = valid().filter(|(at, _)| Some(*at) == placed.device);
            let own = own.map(|(_, it)| it).max_by_key(|it| it.cp);
            let Some(device) = placed.device.filter(|_| placed.trouble.is_none()) else {
                self.name_unread(member, placed, own, findings);
                continue;
            };
            let has_groups = self.config.has_groups();
            let before = self.record_before_of(has_groups.then_some(member));
            let then = before.map(|record| record.members.get(member as usize));
            let is_new = then.is_none_or(|then| then.is_none());
            let was_current = then.flatten().is_some_and(|then| then.seat.is_current());
            let may_return = has_groups && !was_current;
            let is_first = is_first && self.superblock.epoch > 1;
            let has_joined = is_first && is_new;
            let found = match own.map(|it| it.cp) {
                Some(cp) if cp.next() >= newest || is_first && may_return => continue,
                None if is_first && may_return => continue,
                None if has_joined => continue,
                Some(cp) => format!("consistency point {cp}"),
                None => "no superblock".to_owned(),
            };
            let expected = format_args!("consistency point {newest}, or the one before");
            let (object, place) = (Object::Device(device), ProblemPlace::NONE);
            findings.add(Kind::MemberBehind, &object, place, expected, found);
        }
    }

    /// True if the superblock of a member that is behind goes with a record in which every member
    /// that is current here is behind, and none of these caught up since. If one is current in both
    /// records, that superblock would have been on it, too; so the commit was cut.
    fn is_split(&self, member: u32, placed: &Placed, own: &Superblock) -> bool {
        let is_current = |config: &Config, index: usize| {
            let entry = config.members.get(index);
            entry.is_some_and(|entry| entry.seat.is_current())
        };
        let mut records = self.records.iter().filter_map(|(site, copy)| {
            let record = copy
                .valid()
                .filter(|_| placed.device == Some(site.device))?;
            ((record.member_index, record.epoch) == (member, own.epoch)).then_some(record)
        });
        let members = 0..self.config.members.len();
        let is_apart = |record: &Config| {
            let entries = |index: usize| {
                let own = record.members.get(index);
                own.zip(self.config.members.get(index))
            };
            let is_same =
                |index: usize| entries(index).is_some_and(|(own, now)| own.uuid == now.uuid);
            let mut current = members
                .clone()
                .filter(|index| is_current(&self.config, *index));
            let is_met = current
                .clone()
                .any(|index| is_same(index) && is_current(record, index));
            // A drive that got the seat of another one has caught up if it is current.
            let has_returned = |index: usize| {
                entries(index).is_none_or(|(own, now)| match own.uuid == now.uuid {
                    true => own.seat.returns != now.seat.returns,
                    false => now.seat.is_later_than(own.seat),
                })
            };
            !is_met && current.any(|index| !has_returned(index))
        };
        records.next().is_some_and(is_apart)
    }

    /// Names a member that is not read; `own` is its newest superblock.
    fn name_unread(
        &self,
        member: u32,
        placed: &Placed,
        own: Option<&Superblock>,
        findings: &mut Findings,
    ) {
        let (kind, found) = match &placed.trouble {
            Some(Trouble::Unfit(trouble)) => (Kind::CopyUnfit, trouble.to_string()),
            Some(Trouble::Behind) => {
                let has = match (placed.device, own) {
                    (None, _) => "no device was given".to_owned(),
                    (_, None) => "no superblock".to_owned(),
                    (_, Some(it)) => format!("consistency point {} of epoch {}", it.cp, it.epoch),
                };
                match own.is_some_and(|own| self.is_split(member, placed, own)) {
                    true => (
                        Kind::CopySplit,
                        format!("one that went on by itself: {has}"),
                    ),
                    false => (Kind::CopyBehind, format!("one that missed writes: {has}")),
                }
            }
            Some(Trouble::Absent) | None => (Kind::CopyAbsent, "no device".to_owned()),
        };
        let object = Object::Member {
            member,
            device: placed.device,
        };
        let group = self.config.members[member as usize].seat.group;
        let expected = format_args!("a current copy of group {group}");
        findings.add(kind, &object, ProblemPlace::NONE, expected, found);
    }
}
