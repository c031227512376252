//! Growth of an engine's aggregate, asked for as the daemon does: devices appear or become larger,
//! the labels of the next epoch are written, the change is asked for; if it is refused, the labels
//! are erased. Nobody erases the labels of a device that was about to join when the power failed,
//! until it is added again.
//!
//! Labels are written by calls that block, and the power may fail at each of their writes.

use everglade_engine::admin;
use everglade_engine::{GrowError, Growth, NextGeometry};
use everglade_env::DeviceId;
use everglade_format::config::CONFIG_BYTES;
use everglade_format::label::{CONFIG_OFFSETS, label_offsets};
use everglade_format::seat::{COPIES_MAX, PARITY_MAX};
use everglade_format::{Removal, Role};
use everglade_target::Error;

use super::EngineSystem;
use super::growing::{BUSY, Growing, GrowthRecord};
use super::server::error_of;
use crate::Rng;
use crate::system::{AdminDone, Geometry, PoolGrowth};
use crate::world::DeviceSpec;

impl EngineSystem {
    /// Growths that were begun since the start, the oldest first. Busy ones are not among them.
    #[must_use]
    pub fn growths(&self) -> &[GrowthRecord] {
        &self.growths
    }

    pub(super) fn begin_growth(&mut self, reactor: usize, request: &PoolGrowth, token: u64) {
        match self.prepare_growth(request) {
            Ok((next, index)) => {
                let change = admin::Change::Grow { next: next.clone() };
                self.growing.insert(token, Growing { next, index });
                self.cores[reactor].change(self.aggregate, change, token);
            }
            Err(error) => {
                let result = Err(error);
                self.refused[reactor].push(AdminDone { token, result });
            }
        }
    }

    /// Changes the devices, and writes the labels.
    fn prepare_growth(&mut self, request: &PoolGrowth) -> Result<(NextGeometry, usize), Error> {
        let asked = self.world.writes();
        let (growth, joining) = self.growth_of(request);
        if growth == Growth::Add(Vec::new()) {
            // They have joined meanwhile, and that is being answered.
            return Err(Error::Invalid(BUSY));
        }
        let storage = self.world.storage();
        let engine = &self.engine;
        // The drives of a group cannot become larger while one of them catches up.
        let members = self.info().members;
        let is_behind = members.iter().any(|member| !member.seat.is_current());
        let removes = self.removes_members();
        let refused = |error: GrowError| match error {
            GrowError::Busy | GrowError::Leaving => Error::Invalid(BUSY),
            GrowError::Unavailable(_) if is_behind => Error::Invalid(BUSY),
            GrowError::NotMember(_) if removes => Error::Invalid(BUSY),
            error => Error::Io(format!("{request:?}: {error}")),
        };
        let before = self.world.writes();
        let info = engine.examine_growth(&*storage, self.aggregate, &growth);
        assert_eq!(self.world.writes(), before, "an examination writes nothing");
        let info = info.map_err(refused)?;
        let geometry = self.geometry_of(info.epoch_after, info.total_blocks_after);
        let index = self.growths.len();
        let is_wider = matches!(growth, Growth::Widen { .. } | Growth::Strengthen { .. });
        self.growths.push(GrowthRecord {
            asked,
            answered: None,
            geometry,
            joining,
            is_wider,
        });
        let prepared = engine.prepare_growth(&*storage, self.aggregate, &growth);
        match prepared {
            Ok(next) => Ok((next, index)),
            Err(GrowError::Busy) => {
                self.growths.pop();
                Err(Error::Invalid(BUSY))
            }
            Err(error) => {
                self.growths[index].answered = Some((self.world.writes(), false));
                Err(refused(error))
            }
        }
    }

    /// What is asked of the engine, and the devices that join.
    fn growth_of(&self, request: &PoolGrowth) -> (Growth, Vec<DeviceId>) {
        let joining = match request {
            PoolGrowth::Larger(devices) => {
                let devices: Vec<(DeviceId, u64)> = devices
                    .iter()
                    .map(|(device, bytes)| (DeviceId(*device), *bytes))
                    .collect();
                self.enlarge(&devices);
                let devices = devices.iter().map(|(device, _)| *device);
                return (Growth::Extend(devices.collect()), Vec::new());
            }
            PoolGrowth::New(sizes) => {
                let like = self.world.spec(DeviceId(0));
                let spec = |size_bytes: &u64| DeviceSpec {
                    size_bytes: *size_bytes,
                    ..like
                };
                // The last group may have become wider.
                let together = self.drives_together();
                let count = sizes.len().next_multiple_of(together);
                let sizes = sizes.iter().cycle().take(count);
                let new = sizes.map(|size| self.world.add_device(spec(size)));
                new.collect()
            }
            PoolGrowth::Wider(count) => {
                let (_, size_bytes) = self.narrowest().expect("it has parity");
                let like = self.world.spec(DeviceId(0));
                let spec = DeviceSpec { size_bytes, ..like };
                let new = (0..*count).map(|_| self.world.add_device(spec));
                new.collect()
            }
            PoolGrowth::Stronger => {
                let weakest = self.weakest();
                let count = weakest.map_or_else(|| self.drives_together(), |_| 1);
                let like = self.world.spec(DeviceId(0));
                let largest = self.world.devices().into_iter();
                let largest = largest.map(|device| self.world.spec(device).size_bytes);
                let size_bytes = largest.max().unwrap_or(like.size_bytes);
                let spec = DeviceSpec { size_bytes, ..like };
                let new = (0..count).map(|_| self.world.add_device(spec));
                new.collect()
            }
            PoolGrowth::Again => {
                let mut strays = self.strays();
                if self.narrowest().is_none() {
                    // Of several growths that came to nothing, one was of a single mirror.
                    let together = self.drives_together();
                    strays.truncate(strays.len() / together * together);
                }
                strays.iter().for_each(|device| self.erase(*device));
                strays
            }
        };
        // Another one for each attempt, as in the daemon: a device that is away, and comes back, is
        // not the one that took its place.
        let epoch = self.engine.aggregates()[0].epoch;
        let attempt = self.world.writes() << 16 | epoch << 8;
        let named = |device: &DeviceId| {
            let mut uuid = [0; 16];
            Rng::for_part(attempt | u64::from(device.0), "joining").fill(&mut uuid);
            (*device, uuid)
        };
        let added = joining.iter().map(named).collect();
        let growth = match self.narrowest() {
            _ if *request == PoolGrowth::Stronger => match self.weakest() {
                Some(group) => Growth::Strengthen { group, added },
                None => Growth::Add(added),
            },
            // Of several growths that came to nothing, some may have been of a group.
            Some((group, size_bytes)) if !self.makes_groups(request, joining.len()) => {
                for device in &joining {
                    let size = self.world.spec(*device).size_bytes;
                    self.world.grow(*device, size.max(size_bytes));
                }
                Growth::Widen { group, added }
            }
            _ => Growth::Add(added),
        };
        (growth, joining)
    }

    /// True if so many devices are whole groups, for a request that does not ask for a wider one.
    fn makes_groups(&self, request: &PoolGrowth, devices: usize) -> bool {
        let is_wider = matches!(request, PoolGrowth::Wider(_));
        !is_wider && devices.is_multiple_of(self.drives_together())
    }

    /// Returns the number of drives of the last group: a new group gets as many. 1 without groups.
    fn drives_together(&self) -> usize {
        let info = self.info();
        let groups = info.members.iter().map(|member| member.seat.group);
        match groups.clone().max() {
            None | Some(0) => 1,
            Some(last) => groups.filter(|group| *group == last).count(),
        }
    }

    /// Returns the number of the group with the least parity, or the fewest copies; `None` if all
    /// have as many as possible.
    fn weakest(&self) -> Option<u16> {
        let info = self.info();
        let drives = |group: u16, role: Role| {
            let members = info.members.iter();
            let its = members.filter(move |it| it.seat.group == group && it.seat.role == role);
            its.count()
        };
        let strength = |group: u16| match drives(group, Role::Parity) {
            0 => (drives(group, Role::Copy), COPIES_MAX - 1),
            parity => (parity, PARITY_MAX),
        };
        let staying = info.members.iter();
        let staying = staying.filter(|member| member.seat.removal == Removal::None);
        let groups = staying.map(|member| member.seat.group);
        let groups = groups.filter(|group| *group > 0);
        let weaker = groups.filter(|group| {
            let (has, most) = strength(*group);
            has < most
        });
        weaker.min_by_key(|group| (strength(*group), *group))
    }

    /// Returns the number of the parity group with the fewest drives, and the size of its largest
    /// drive; `None` without parity.
    fn narrowest(&self) -> Option<(u16, u64)> {
        let info = self.info();
        let drives = |group: u16| {
            let members = info.members.iter();
            members.filter(move |member| member.seat.group == group)
        };
        let parity = info.members.iter();
        let parity = parity.filter(|member| member.seat.role == Role::Parity);
        let parity = parity.filter(|member| member.seat.removal == Removal::None);
        let groups = parity.map(|member| member.seat.group);
        let group = groups.min_by_key(|group| (drives(*group).count(), *group))?;
        let sizes = drives(group).filter_map(|member| member.device);
        let sizes = sizes.map(|device| self.world.spec(device).size_bytes);
        Some((group, sizes.max()?))
    }

    /// The host makes devices larger by some bytes. All drives of a group become as large: it may
    /// have other drives than those that whoever chose them took for a group.
    fn enlarge(&self, devices: &[(DeviceId, u64)]) {
        let info = self.info();
        let size = |device: DeviceId| self.world.spec(device).size_bytes;
        let mut grown = Vec::new();
        for (device, bytes) in devices {
            let group = info.members.iter().find(|it| it.device == Some(*device));
            let group = group.map_or(0, |member| member.seat.group);
            let mates = info.members.iter().filter(|it| it.seat.group == group);
            let mates = mates.filter(|_| group > 0).filter_map(|it| it.device);
            let mates: Vec<DeviceId> = mates.chain([*device]).collect();
            let largest = mates.iter().map(|mate| size(*mate)).max().unwrap_or(0);
            grown.extend(mates.into_iter().map(|mate| (mate, largest + bytes)));
        }
        for (device, bytes) in grown {
            self.world.grow(device, size(device).max(bytes));
        }
    }

    /// True if the host has made a member larger than the aggregate knows.
    #[must_use]
    pub fn is_larger(&self, device: DeviceId) -> bool {
        let growth = Growth::Extend(vec![device]);
        let storage = self.world.storage();
        let info = self
            .engine
            .examine_growth(&*storage, self.aggregate, &growth);
        info.is_ok()
    }

    /// Devices that are joining, and are no members and in no growth that is under way.
    fn strays(&self) -> Vec<DeviceId> {
        let mut known = self.info().devices;
        let under_way = self.growths.iter().filter(|it| it.answered.is_none());
        known.extend(under_way.flat_map(|record| &record.joining));
        let mut joining = self.world.joining();
        joining.retain(|device| !known.contains(device));
        joining
    }

    /// Erases the labels of a device, as an administrator who adds it again does. The power may
    /// fail meanwhile.
    fn erase(&self, device: DeviceId) {
        let storage = self.world.storage();
        for label in label_offsets(self.world.spec(device).size_bytes) {
            for slot in CONFIG_OFFSETS {
                let _ = storage.write(device, label + slot, &[0; CONFIG_BYTES]);
            }
        }
        let _ = storage.flush(device);
    }

    /// The answer of a growth.
    pub(super) fn end_growth(
        &mut self,
        growing: &Growing,
        result: Result<(), admin::Error>,
    ) -> Result<(), Error> {
        let record = &mut self.growths[growing.index];
        if !matches!(result, Err(admin::Error::Unknown(_))) {
            record.answered = Some((self.world.writes(), result.is_ok()));
        }
        let record = record.clone();
        match result {
            Ok(()) => {
                let found = self.geometry_now();
                if found != record.geometry && !self.removes_members() {
                    let wanted = record.geometry;
                    let what = format!("after a growth to {wanted:?} the pool has {found:?}");
                    return Err(Error::Io(what));
                }
                // What the data directory remembers.
                for device in record.joining {
                    self.world.has_joined(device);
                }
                Ok(())
            }
            Err(error) => {
                let (storage, next) = (self.world.storage(), growing.next.clone());
                self.engine.abandon_growth(&*storage, self.aggregate, next);
                Err(match error {
                    admin::Error::Busy(_) => Error::Invalid(BUSY),
                    error => error_of(error),
                })
            }
        }
    }

    pub(super) fn geometry_now(&self) -> Geometry {
        let info = self.info();
        self.geometry_of(info.epoch, info.usage.total_blocks)
    }

    /// Epochs of groups of drives count losses and starts, too, so they say nothing of growths.
    fn geometry_of(&self, epoch: u64, blocks: u64) -> Geometry {
        let epoch = if self.info().has_groups() { 0 } else { epoch };
        Geometry { epoch, blocks }
    }
}
