//! The last change of the composition: the record of the epoch before is compared with the
//! aggregate's record.
//!
//! A change appends members and extents, and makes members larger. Nothing gets another number or
//! another place, because blocks are found by them. A larger member keeps its former label copy, so
//! the new extents of its group begin behind its former end. A member of a group keeps its place in
//! it, though its state may change. Only parity moves: data columns that are added come before it.
//! Another drive may get the place of one that is behind: it is behind, too, or has caught up
//! since. A member that was removed never comes back. A record of a changed composition has a
//! feature bit, so that builds which do not know this refuse it.

use std::fmt::Display;

use everglade_format::config::{INCOMPATIBLE_CHANGED, Member};
use everglade_format::label::config_slot;
use everglade_format::{Config, Role, Seat};

use super::Labels;
use crate::findings::Findings;
use crate::problem::{Kind, Object, ProblemPlace};

/// What a change of the composition leaves as it is: the group of a member, its column, and what it
/// has there. Parity moves behind data columns that are added, so its column is counted from there.
fn place_of(config: &Config, seat: Seat) -> (u16, usize, Role) {
    let seats = config.members.iter().map(|member| member.seat);
    let data = seats.filter(|other| other.group == seat.group && other.role == Role::Data);
    let column = usize::from(seat.column);
    let column = match seat.role {
        Role::Parity => column.saturating_sub(data.count()),
        Role::Data | Role::Copy => column,
    };
    (seat.group, column, seat.role)
}

/// Returns the first block at which new extents of a member may begin: behind the former end of
/// each drive of its group that became larger. Without groups, behind the member's own former end.
fn former_end(before: &Config, now: &Config, member: u32) -> u64 {
    let ends = now.group_of(member).into_iter().filter_map(|mate| {
        let (old, new) = (
            before.members.get(mate as usize)?,
            now.members.get(mate as usize)?,
        );
        // A drive that replaced a smaller one has had no other label copy.
        let is_larger = new.uuid == old.uuid && new.size_blocks > old.size_blocks;
        let has_moved = is_larger || !now.has_groups();
        has_moved.then_some(old.size_blocks)
    });
    ends.max().unwrap_or(0)
}

/// True if another drive has the place of a member of a group. The former one was behind in the
/// epoch before; in an earlier epoch it may have been current. The record is of such an epoch if
/// only drives are there that have caught up since.
fn is_replaced((before, old): (u64, &Member), (epoch, now): (u64, &Member)) -> bool {
    let has_returned = now.seat.is_later_than(old.seat);
    let is_next = before.checked_add(1) == Some(epoch);
    let may_be = old.seat.group > 0 && (!is_next || !old.seat.is_current());
    now.uuid != old.uuid && may_be && (!now.seat.is_current() || has_returned)
}

impl Labels {
    pub(super) fn check_change(&self, findings: &mut Findings) {
        let now = &self.config;
        let mut wrong = |expected: &dyn Display, found: &dyn Display| {
            let (object, place) = (Object::Aggregate, ProblemPlace::NONE);
            findings.add(Kind::ChangeWrong, &object, place, expected, found);
        };
        let flag = u64::from(now.epoch > 1) * INCOMPATIBLE_CHANGED;
        if now.incompatible & INCOMPATIBLE_CHANGED != flag {
            let epoch = now.epoch;
            let expected = format_args!("incompatible feature flags {flag:#x} in epoch {epoch}");
            wrong(&expected, &format_args!("{:#x}", now.incompatible));
        }
        let Some(before) = self.record_before() else {
            return;
        };
        let fixed = |it: &Config| (it.secret, it.created_seconds, it.area_blocks, it.journal);
        if fixed(before) != fixed(now) {
            let expected =
                "the secret, time of creation, area size and journal of the epoch before";
            wrong(&expected, &"others");
        }
        for (index, old) in before.members.iter().enumerate() {
            let kept = now.members.get(index).is_some_and(|it| {
                let is_same = it.uuid == old.uuid && it.size_blocks >= old.size_blocks;
                let is_replaced = is_replaced((before.epoch, old), (now.epoch, it));
                (is_same || is_replaced)
                    && it.data_first == old.data_first
                    && (it.seat.is_removed() || !old.seat.is_removed())
                    && place_of(now, it.seat) == place_of(before, old.seat)
            });
            if !kept {
                let expected = format_args!("member {index} as before, or larger: {old:?}");
                wrong(&expected, &format_args!("{:?}", now.members.get(index)));
            }
        }
        for (index, old) in before.extents.iter().enumerate() {
            let found = now.extents.get(index);
            if found != Some(old) {
                let expected = format_args!("extent {index} as before: {old:?}");
                wrong(&expected, &format_args!("{found:?}"));
            }
        }
        for extent in now.extents.iter().skip(before.extents.len()) {
            let end = former_end(before, now, extent.member);
            if extent.first_dbn.0 < end {
                let member = extent.member;
                let expected =
                    format_args!("new extents of member {member} behind its former end {end}");
                let found = format_args!("an extent from dbn {} on", extent.first_dbn);
                wrong(&expected, &found);
            }
        }
    }

    /// The record of the epoch before in the label of some member that is read. With groups, epochs
    /// may be left out: the record before is the newest one in the other slot.
    pub(super) fn record_before(&self) -> Option<&Config> {
        self.record_before_of(None)
    }

    /// The same in the labels of others than a member. A member that has caught up has an older one
    /// beside its newest.
    pub(super) fn record_before_of(&self, left_out: Option<u32>) -> Option<&Config> {
        let own = self.config.epoch;
        let is_before = |epoch: u64| match self.config.has_groups() {
            true => epoch < own && config_slot(epoch) != config_slot(own),
            false => epoch.checked_add(1) == Some(own),
        };
        let before = self.records.iter().filter_map(|(site, copy)| {
            let record = copy.valid()?;
            let is_own = self.member_of(site.device) == Some(record.member_index)
                && left_out != Some(record.member_index);
            (is_before(record.epoch) && is_own && self.is_in_place(site)).then_some(record)
        });
        before.max_by_key(|record| record.epoch)
    }
}
