//! The drives of an aggregate, for people: which are in use, and where those are that are missing.
//!
//! The engine knows the seat of each member, and the device of each member that is there. A member
//! that is missing has no device, so its path is in `state.toml` only. The start finds these paths,
//! because nothing that was missing then can come back while the daemon runs. It may be replaced.
//!
//! | the member | is shown as |
//! | --- | --- |
//! | is read and written | `online` |
//! | is there, and was in use when the aggregate was opened, or should have been | `failed` |
//! | is there, and was behind when the aggregate was opened, or has replaced another one since; it catches up | `behind` |
//! | is not there | `missing` |
//!
//! A member that has caught up is `online`, and from then on like any other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use everglade_api::{
    Aggregate, Code, Copies, Device, DeviceKind, DeviceState, DriveFaults, Health, Raid, Stripes,
    counted,
};
use everglade_engine::{AggregateInfo, MemberInfo};
use everglade_env::World;
use everglade_format::Role;

use super::kinds;
use crate::DataDir;
use crate::datadir::{AggregateState, Device as Recorded};

/// The remedy for groups that have lost drives.
const DEGRADED_ACTION: &str = "wait for a drive that is behind, which catches up; mend or bring \
    back the others, then start the daemon again; if a drive is lost, replace it: everglade \
    aggregate replace AGGREGATE DRIVE --with PATH";

/// The remedy for blocks that a drive could not get when it caught up.
const LACKING_ACTION: &str = "keep a drive that was replaced or is away, which may have them; run \
    everglade aggregate scrub start AGGREGATE to count them, and restore what has them from a \
    snapshot or a backup";
/// UUID of a member.
pub(super) type Member = [u8; 16];

/// What the start found of members that are not in use.
#[derive(Clone, Debug, Default)]
pub(crate) struct IdleDrives {
    /// Recorded devices of members that are not there.
    missing: BTreeMap<Member, Device>,
    /// Those of them whose places in the record do not say for sure which member they are.
    uncertain: BTreeSet<Member>,
    /// Members that are there, were behind already, and have not caught up.
    behind: BTreeSet<Member>,
}

impl IdleDrives {
    /// Notes the members of an aggregate that was just opened, and returns the paths of those that
    /// are missing.
    pub(super) fn note(
        &mut self,
        world: &World,
        directory: &DataDir,
        recorded: &AggregateState,
        info: &AggregateInfo,
    ) -> Vec<String> {
        let members: Vec<&MemberInfo> = staying(info).collect();
        let paths = members.iter().map(|member| {
            let found = world.info(member.device?)?;
            Some(found.path)
        });
        let paths: Vec<Option<PathBuf>> = paths.collect();
        let devices = recorded.members();
        let devices = devices.map(|device| (directory.device_path(device), device));
        let devices: Vec<(PathBuf, &Recorded)> = devices.collect();
        let is_certain = paths.iter().filter(|path| path.is_none()).count() == 1
            || is_in_order(&devices, &paths);
        let mut absent = Vec::new();
        for (index, found) in unmatched(devices, &paths) {
            if !is_certain {
                self.uncertain.insert(members[index].uuid);
            }
            let device = found.map_or_else(unrecorded, |(path, device)| Device {
                path: path.display().to_string(),
                kind: kinds::shown(device.kind),
                size_bytes: device.size_bytes,
                group: None,
                column: None,
                state: None,
                catching_up: None,
                faults: None,
            });
            absent.push(device.path.clone());
            self.missing.insert(members[index].uuid, device);
        }
        for (member, path) in members.iter().zip(&paths) {
            let Some(path) = path else { continue };
            if !member.is_used && !member.seat.is_current() {
                tracing::warn!(
                    "aggregate {}: drive {} is behind, and catches up",
                    info.name,
                    path.display()
                );
                self.behind.insert(member.uuid);
            }
        }
        absent
    }

    /// Returns the member that is missing and was at this path.
    pub(super) fn missing_at(&self, path: &Path) -> Option<Member> {
        let is_there = |(_, device): &(&Member, &Device)| Path::new(&device.path) == path;
        let found = self.missing.iter().find(is_there);
        found.map(|(member, _)| *member)
    }

    /// True if it is not sure which member was at the path that is shown for one.
    pub(super) fn is_uncertain(&self, member: Member) -> bool {
        self.uncertain.contains(&member)
    }

    /// A drive is about to replace a member, or to make a group stronger, and catches up then.
    pub(super) fn replacing(&mut self, new: Member) {
        self.behind.insert(new);
    }

    /// It is no member.
    pub(super) fn not_replaced(&mut self, new: Member) {
        self.behind.remove(&new);
    }

    /// It was.
    pub(super) fn replaced(&mut self, old: Member) {
        self.missing.remove(&old);
        self.behind.remove(&old);
    }

    /// Returns a member as it is shown. `found` is its device, if that is there.
    pub(super) fn view(&mut self, member: &MemberInfo, found: Option<Device>) -> Device {
        let recorded = || {
            let known = self.missing.get(&member.uuid);
            known.cloned().unwrap_or_else(unrecorded)
        };
        let device = found.unwrap_or_else(recorded);
        let seat = (member.seat.group > 0).then_some(member.seat);
        Device {
            group: seat.map(|seat| u64::from(seat.group)),
            column: seat.map(|seat| u64::from(seat.column)),
            state: Some(self.state_of(member)),
            faults: seat.map(|_| faults(member)),
            ..device
        }
    }

    fn state_of(&mut self, member: &MemberInfo) -> DeviceState {
        match member.device {
            None => DeviceState::Missing,
            Some(_) if member.is_used => {
                self.behind.remove(&member.uuid);
                DeviceState::Online
            }
            Some(_) if self.behind.contains(&member.uuid) => DeviceState::Behind,
            Some(_) => DeviceState::Failed,
        }
    }
}

fn faults(member: &MemberInfo) -> DriveFaults {
    let faults = member.faults;
    DriveFaults {
        read_error_count: faults.read_errors,
        wrong_block_count: faults.wrong_blocks,
        write_error_count: faults.write_errors,
        hung_count: faults.hung,
        mended_block_count: faults.mended,
        not_copied_block_count: faults.not_copied,
    }
}

/// A member whose device is nowhere in the record.
fn unrecorded() -> Device {
    Device {
        path: "(not in state.toml)".to_owned(),
        kind: DeviceKind::File,
        size_bytes: 0,
        group: None,
        column: None,
        state: None,
        catching_up: None,
        faults: None,
    }
}

/// True if the record has the devices in the order of the members, as far as their paths are known.
fn is_in_order(recorded: &[(PathBuf, &Recorded)], paths: &[Option<PathBuf>]) -> bool {
    let mut seats = recorded.iter().zip(paths);
    recorded.len() == paths.len()
        && seats.all(|((path, _), known)| known.as_ref().is_none_or(|known| known == path))
}

/// Returns the index of each member that has no path, with the recorded device that is most likely
/// the member. The record is in the order of the label's table. If somebody changed the order, the
/// devices that are no other member's are given out in turn.
fn unmatched<'a>(
    recorded: Vec<(PathBuf, &'a Recorded)>,
    paths: &[Option<PathBuf>],
) -> Vec<(usize, Option<(PathBuf, &'a Recorded)>)> {
    let is_free = |path: &PathBuf| !paths.iter().flatten().any(|known| known == path);
    let recorded = recorded.into_iter().enumerate();
    let mut free: Vec<_> = recorded.filter(|(_, (path, _))| is_free(path)).collect();
    let mut found = Vec::new();
    for (index, _) in paths.iter().enumerate().filter(|(_, path)| path.is_none()) {
        let own = free.iter().position(|(number, _)| *number == index);
        let place = own.or_else(|| (!free.is_empty()).then_some(0));
        found.push((index, place.map(|place| free.remove(place).1)));
    }
    found
}

/// Returns the members that were not removed.
pub(super) fn staying(info: &AggregateInfo) -> impl Iterator<Item = &MemberInfo> {
    let members = info.members.iter();
    members.filter(|member| !member.seat.is_removed())
}

/// Returns the number of drives of each group; `None` without redundancy.
pub(super) fn group_size(info: &AggregateInfo) -> Option<u64> {
    let mut groups: BTreeMap<u16, u64> = BTreeMap::new();
    let groups_of = staying(info).map(|member| member.seat.group);
    for group in groups_of.filter(|group| *group > 0) {
        *groups.entry(group).or_default() += 1;
    }
    groups.into_values().max()
}

/// Returns the word for an aggregate's redundancy: that of its weakest group.
pub(super) fn raid(info: &AggregateInfo) -> &'static str {
    let mut parity: BTreeMap<u16, usize> = BTreeMap::new();
    for seat in staying(info).map(|member| member.seat) {
        if seat.group > 0 {
            *parity.entry(seat.group).or_default() += usize::from(seat.role == Role::Parity);
        }
    }
    match parity.into_values().min() {
        None => "none",
        Some(0) => "mirror",
        Some(1) => "single",
        Some(2) => "double",
        Some(_) => "triple",
    }
}

/// Returns the counters of reads of other copies, if the aggregate has copies.
pub(super) fn copies(info: &AggregateInfo) -> Option<Copies> {
    group_size(info).map(|_| Copies {
        read_elsewhere_block_count: info.copies.read_elsewhere,
        rewritten_block_count: info.copies.rewritten,
    })
}

/// Returns the counters of stripes, if the aggregate has parity.
pub(super) fn stripes(info: &AggregateInfo) -> Option<Stripes> {
    staying(info).find(|member| member.seat.role == Role::Parity)?;
    Some(Stripes {
        full_count: info.stripes.full,
        partial_count: info.stripes.partial,
        read_block_count: info.stripes.read_blocks,
        filled_block_count: info.stripes.filled_blocks,
        reconstructed_block_count: info.copies.reconstructed,
    })
}

/// Adds the condition of an aggregate whose groups have lost drives.
pub(super) fn degraded(aggregate: &Aggregate, add: &mut impl FnMut(Code, Health, String, &str)) {
    let mut groups: BTreeMap<u64, Vec<&Device>> = BTreeMap::new();
    for device in &aggregate.devices {
        if let Some(group) = device.group {
            groups.entry(group).or_default().push(device);
        }
    }
    for device in &aggregate.devices {
        let lacking = device.faults.map_or(0, |it| it.not_copied_block_count);
        if lacking > 0 {
            let what = format!(
                "drive {} lacks {}, which no drive in use has right",
                device.path,
                counted(lacking, "block")
            );
            add(
                Code::AggregateDegraded,
                Health::Warning,
                what,
                LACKING_ACTION,
            );
        }
    }
    let is_online = |device: &&&Device| device.state == Some(DeviceState::Online);
    let parity = aggregate.raid.parse().map_or(0, Raid::parity);
    let mut losses = Vec::new();
    let mut alone = Vec::new();
    for (number, devices) in &groups {
        let online = devices.iter().filter(is_online).count();
        if online == devices.len() {
            continue;
        }
        let lost = devices.iter().filter(|device| !is_online(device));
        let lost = lost.map(|device| match device.state {
            Some(DeviceState::Failed) => format!("{} failed", device.path),
            Some(state) => format!("{} is {state}", device.path),
            None => device.path.clone(),
        });
        let lost: Vec<String> = lost.collect();
        losses.push(format!(
            "group {number} has {online} of {} drives left: {}",
            devices.len(),
            lost.join(", ")
        ));
        let needed = match parity {
            0 => 1,
            parity => devices
                .len()
                .saturating_sub(usize::try_from(parity).unwrap_or(0)),
        };
        if online <= needed {
            alone.push(number.to_string());
        }
    }
    if losses.is_empty() {
        return;
    }
    let meaning = match alone.as_slice() {
        [] => "no data is lost, and each group can lose another drive".to_owned(),
        groups => format!(
            "no data is lost, but if {} drive of {} fails, the aggregate is lost",
            if parity == 0 { "the last" } else { "another" },
            match groups {
                [group] => format!("group {group}"),
                groups => format!("one of the groups {}", groups.join(", ")),
            }
        ),
    };
    let what = format!("{}; {meaning}", losses.join("; "));
    add(
        Code::AggregateDegraded,
        Health::Warning,
        what,
        DEGRADED_ACTION,
    );
}

#[cfg(test)]
mod tests {
    use everglade_env::DeviceId;
    use everglade_format::{Seat, SeatState};

    use super::*;
    use crate::datadir::DeviceKind as Kind;

    fn member(number: u8, device: Option<u32>, state: SeatState, is_used: bool) -> MemberInfo {
        MemberInfo {
            device: device.map(DeviceId),
            uuid: [number; 16],
            seat: Seat {
                state,
                ..Seat::of_mirror(1, number)
            },
            is_used,
            faults: Default::default(),
        }
    }

    #[test]
    fn a_drive_is_behind_only_if_the_start_found_it_so() {
        let mut idle = IdleDrives::default();
        idle.behind.insert([2; 16]);
        let (current, behind) = (SeatState::Current, SeatState::Behind);
        for (member, state) in [
            (member(0, Some(7), current, true), DeviceState::Online),
            (member(1, Some(7), current, false), DeviceState::Failed),
            (member(1, Some(7), behind, false), DeviceState::Failed),
            (member(2, Some(7), behind, false), DeviceState::Behind),
            (member(2, Some(7), current, true), DeviceState::Online),
            (member(2, Some(7), behind, false), DeviceState::Failed),
            (member(2, None, behind, false), DeviceState::Missing),
            (member(1, None, current, false), DeviceState::Missing),
        ] {
            assert_eq!(idle.state_of(&member), state, "{member:?}");
        }
    }

    #[test]
    fn a_missing_member_has_the_device_that_is_recorded_in_its_place() {
        let devices = ["/a", "/b", "/c", "/d"].map(|path| Recorded {
            path: path.into(),
            kind: Kind::File,
            size_bytes: 4096,
            joining: false,
            replaces: None,
            member: None,
        });
        let find = |order: [usize; 4], paths: [Option<&str>; 4]| {
            let recorded = order.map(|index| (devices[index].path.clone(), &devices[index]));
            let paths = paths.map(|path| path.map(PathBuf::from));
            let found = unmatched(recorded.to_vec(), &paths).into_iter();
            let found = found.map(|(index, device)| (index, device.map(|(path, _)| path)));
            found.collect::<Vec<_>>()
        };
        let is = |path: &str| Some(Path::new(path).to_owned());
        let paths = [None, Some("/b"), Some("/c"), None];
        assert_eq!(find([0, 1, 2, 3], paths), [(0, is("/a")), (3, is("/d"))]);
        // In another order, what is left is given out in turn.
        let paths = [Some("/a"), Some("/b"), None, Some("/d")];
        assert_eq!(find([2, 1, 0, 3], paths), [(2, is("/c"))]);
        let recorded = devices
            .each_ref()
            .map(|device| (device.path.clone(), device));
        let in_order = |paths: [Option<&str>; 4]| {
            is_in_order(&recorded, &paths.map(|path| path.map(PathBuf::from)))
        };
        assert!(in_order([None, Some("/b"), None, Some("/d")]));
        assert!(!in_order([None, Some("/a"), None, Some("/d")]), "swapped");
        let all = [None, Some("/a"), Some("/b"), Some("/c")];
        assert_eq!(find([0, 1, 2, 3], all), [(0, is("/d"))]);
    }
}
