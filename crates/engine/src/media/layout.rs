//! The layout of an aggregate: which devices it has, and where its blocks are on them.
//!
//! A layout never changes. A freeze may replace it by the next one (decision 0040), which keeps all
//! extents of the former and appends others. So a place found in one layout is right in every later
//! one, and a reader need not hold on to the layout while its operation is under way.
//!
//! The blocks of an extent are in a *column*. The column of a mirror has a *drive* for each copy; a
//! column without redundancy has one drive (decision 0041). All drives of a column have a block at
//! the same offset.
//!
//! | use | the drive | is written | is read |
//! | --- | --- | --- | --- |
//! | *failed* | failed since the aggregate was opened | no | no |
//! | *out* | is not there, or missed writes | no | no |
//! | *catching up* | missed writes, and gets them now | yes | no |
//! | *full* | has all that was written to its column | yes | yes |
//!
//! 1. Each column has a drive in full use: it is *usable*.
//! 2. A drive is *lost* if it is not in full use, though the config record says that it is current;
//!    it is *regained* if it is in full use, though the record says that it is behind. The next
//!    consistency point records both ([`Layout::with_uses_recorded`]).
//! 3. A drive that is out may have a *successor*. The record that is written next gives the seat to
//!    it. A layout never has a device that its own record does not name.
//! 4. Members are never renumbered. So whatever is kept while layouts change names a member, and no
//!    device: an operation on a column finds its drives when it is submitted.

use std::ops::Range;

use everglade_env::{BLOCK_SIZE, DeviceId};
use everglade_format::config::{CONFIG_BYTES, INCOMPATIBLE_CHANGED, Member, Uuid};
use everglade_format::label::{CONFIG_OFFSETS, LABEL_BYTES, config_slot, label_offsets};
use everglade_format::{Config, Damage, Geometry, Pvbn, SeatState};

/// Blocks that one drive of a mirror reads before it is the turn of the next one: 1 MiB, the
/// longest device read.
const TURN_BLOCKS: u64 = 256;

/// See the module's documentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// The config record, as in the label of member 0.
    pub(crate) config: Config,
    pub(crate) geometry: Geometry,
    /// Device of each member; `None` if it is not there.
    devices: Vec<Option<DeviceId>>,
    /// Use of each member.
    uses: Vec<Use>,
    /// The drives in full use with the blocks of each member, in the order of their columns.
    drives: Vec<Vec<DeviceId>>,
    /// The first of them.
    first: Vec<DeviceId>,
    has_groups: bool,
    /// The same, and drives that are catching up.
    written: Vec<Vec<DeviceId>>,
    /// The drive that gets the seat of another one with the next record.
    successor: Option<Successor>,
}

/// A drive that is about to get the seat of another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Successor {
    /// The seat.
    pub(crate) member: u32,
    /// UUID of the drive that has had it.
    pub(crate) former: Uuid,
    pub(crate) device: DeviceId,
    pub(crate) uuid: Uuid,
    pub(crate) size_blocks: u64,
}

/// The use of a member: see the module's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Failed,
    Out,
    CatchingUp,
    Full,
}

impl Use {
    fn is_written(self) -> bool {
        matches!(self, Use::CatchingUp | Use::Full)
    }
}

/// The place of a block on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The member whose column has the block.
    pub(crate) member: u32,
    pub(crate) device: DeviceId,
    /// Offset in bytes from the beginning of the device.
    pub(crate) offset: u64,
    /// Number of blocks from this block to the end of the run, this block included.
    pub(crate) run: u64,
}

impl Layout {
    /// Returns the layout that a config record describes, with the device of each member that is
    /// there. A member is usable if it is there and current.
    ///
    /// # Errors
    /// The record's extents contradict each other, or a column has no usable drive.
    pub(crate) fn new(config: Config, devices: Vec<Option<DeviceId>>) -> Result<Layout, Damage> {
        assert_eq!(
            config.members.len(),
            devices.len(),
            "a place for the device of each member"
        );
        let members = config.members.iter().zip(&devices);
        let uses = members.map(|(member, device)| match device {
            Some(_) if member.seat.is_current() => Use::Full,
            _ => Use::Out,
        });
        let layout = Layout {
            geometry: config.geometry()?,
            uses: uses.collect(),
            drives: Vec::new(),
            first: Vec::new(),
            has_groups: config.has_groups(),
            written: Vec::new(),
            successor: None,
            config: Config {
                member_index: 0,
                ..config
            },
            devices,
        };
        let layout = layout.with_drives();
        let without = layout.drives.iter().position(Vec::is_empty);
        match without {
            Some(member) => Err(Damage::new(
                "member",
                "a usable drive of its column",
                member,
            )),
            None => Ok(layout),
        }
    }

    /// Lists the drives of each column.
    fn with_drives(mut self) -> Layout {
        let list = |is_meant: fn(Use) -> bool| {
            let drives = |member| {
                let copies = self.config.copies_of(member).into_iter();
                let meant = copies.filter(|copy| is_meant(self.uses[*copy as usize]));
                meant
                    .filter_map(|copy| self.devices[copy as usize])
                    .collect()
            };
            (0..).take(self.devices.len()).map(drives).collect()
        };
        (self.drives, self.written) = (list(|it| it == Use::Full), list(Use::is_written));
        // A layout without a usable drive in a column is refused (`Layout::new`).
        let first = self.drives.iter().map(|drives| drives.first().copied());
        self.first = first
            .map(|first| first.unwrap_or(DeviceId(u32::MAX)))
            .collect();
        self
    }

    /// Returns the place of a block on one of the drives that have it; `None` if no extent has the
    /// block.
    pub(crate) fn locate(&self, pvbn: Pvbn) -> Option<Place> {
        self.locate_copy(pvbn, 0)
    }

    /// Returns the place of a block on another drive for each of successive `turn`s, if several
    /// drives have it. Turn 0 of neighbouring blocks goes round the drives, so that all of them
    /// read.
    pub(crate) fn locate_copy(&self, pvbn: Pvbn, turn: u32) -> Option<Place> {
        let place = self.geometry.locate(pvbn)?;
        if !self.has_groups {
            return Some(Place {
                member: place.member,
                device: self.first[place.member as usize],
                offset: place.dbn.0 * BLOCK_SIZE as u64,
                run: place.run,
            });
        }
        let (device, run) = match self.drives[place.member as usize].as_slice() {
            [only] => (*only, place.run),
            drives => {
                let count = drives.len() as u64;
                let choice = (pvbn.0 / TURN_BLOCKS + u64::from(turn)) % count;
                let choice = usize::try_from(choice).expect("few drives");
                let run = place.run.min(TURN_BLOCKS - pvbn.0 % TURN_BLOCKS);
                (drives[choice], run)
            }
        };
        Some(Place {
            member: place.member,
            device,
            offset: place.dbn.0 * BLOCK_SIZE as u64,
            run,
        })
    }

    /// Returns the place of a run of blocks for a write, which goes to all drives of the column.
    pub(crate) fn locate_column(&self, pvbn: Pvbn) -> Option<Place> {
        let place = self.geometry.locate(pvbn)?;
        Some(Place {
            member: place.member,
            device: self.first[place.member as usize],
            offset: place.dbn.0 * BLOCK_SIZE as u64,
            run: place.run,
        })
    }

    /// Number of usable drives that have a block; 0 if no extent has it.
    pub(crate) fn copies(&self, pvbn: Pvbn) -> usize {
        let place = self.geometry.locate(pvbn);
        place.map_or(0, |place| self.drives[place.member as usize].len())
    }

    /// Returns the drives to be written of a member's column.
    pub(crate) fn drives_of(&self, member: u32) -> &[DeviceId] {
        &self.written[member as usize]
    }

    /// Returns the drives to be written of the column that a device belongs to; none if it belongs
    /// to none any more.
    pub(crate) fn drives_beside(&self, device: DeviceId) -> &[DeviceId] {
        let member = self.member_of(device);
        member.map_or(&[], |member| &self.written[member])
    }

    /// Returns the first drive in full use of a member's column.
    pub(crate) fn first_of(&self, member: u32) -> DeviceId {
        self.first[member as usize]
    }

    /// Returns the usable drives that have the blocks of a member.
    pub(crate) fn drives_with(&self, member: u32) -> &[DeviceId] {
        self.drives.get(member as usize).map_or(&[], Vec::as_slice)
    }

    /// True if a device is a member's.
    pub(crate) fn has_device(&self, device: DeviceId) -> bool {
        self.member_of(device).is_some()
    }

    fn member_of(&self, device: DeviceId) -> Option<usize> {
        self.devices.iter().position(|known| *known == Some(device))
    }

    /// Returns each usable member with its index and device.
    pub(crate) fn members(&self) -> impl Iterator<Item = (usize, &Member, DeviceId)> {
        let members = self.config.members.iter().zip(&self.devices).enumerate();
        members.filter_map(|(index, (member, device))| {
            let is_full = self.uses[index] == Use::Full;
            let device = is_full.then_some(*device)??;
            Some((index, member, device))
        })
    }

    /// Returns each member with its device, if that is there, and with whether it is usable.
    pub(crate) fn seats(&self) -> impl Iterator<Item = (&Member, Option<DeviceId>, bool)> {
        let members = self.config.members.iter().zip(&self.devices);
        let seats = members.zip(&self.uses);
        seats.map(|((member, device), it)| (member, *device, *it == Use::Full))
    }

    /// Returns the devices that are there.
    pub(crate) fn devices(&self) -> impl Iterator<Item = DeviceId> {
        self.devices.iter().flatten().copied()
    }

    /// Returns the devices that are written.
    pub(crate) fn written(&self) -> impl Iterator<Item = DeviceId> {
        let uses = self.devices.iter().zip(&self.uses);
        uses.filter_map(|(device, it)| device.filter(|_| it.is_written()))
    }

    /// True if the device of a member is not there.
    pub(crate) fn is_any_absent(&self) -> bool {
        self.devices.iter().any(Option::is_none)
    }

    /// True if a device is written and read.
    pub(crate) fn is_full(&self, device: DeviceId) -> bool {
        self.use_of(device) == Use::Full
    }

    fn use_of(&self, device: DeviceId) -> Use {
        self.member_of(device)
            .map_or(Use::Out, |member| self.uses[member])
    }

    /// True if a device is neither read nor written.
    pub(crate) fn is_out(&self, device: DeviceId) -> bool {
        !self.use_of(device).is_written()
    }

    /// True if a device is written and not read.
    pub(crate) fn is_catching_up(&self, device: DeviceId) -> bool {
        self.use_of(device) == Use::CatchingUp
    }

    /// True if a member is lost.
    pub(crate) fn has_losses(&self) -> bool {
        let mut members = self.config.members.iter().zip(&self.uses);
        members.any(|(member, it)| member.seat.is_current() && *it != Use::Full)
    }

    /// True if the config record does not say which members have all that was written.
    pub(crate) fn is_unrecorded(&self) -> bool {
        let mut members = self.config.members.iter().zip(&self.uses);
        let differs = members.any(|(member, it)| member.seat.is_current() != (*it == Use::Full));
        differs || self.successor.is_some()
    }

    /// Returns a member that is behind and out, though its device is there and has not failed: its
    /// index and device.
    pub(crate) fn returned(&self) -> Option<(u32, DeviceId)> {
        let mut members = (0..).zip(self.devices.iter().zip(&self.uses));
        members.find_map(|(member, (device, it))| {
            let is_behind = !self.config.members[member as usize].seat.is_current();
            let device = (*device)?;
            (is_behind && *it == Use::Out).then_some((member, device))
        })
    }

    /// Returns the layout in which a drive that is out catches up.
    pub(crate) fn with_catching_up(&self, device: DeviceId) -> Layout {
        assert!(self.is_out(device), "it is used already");
        self.with_use(device, Use::CatchingUp)
    }

    /// Returns the layout in which a drive that was catching up has everything.
    pub(crate) fn with_regained(&self, device: DeviceId) -> Layout {
        assert!(self.is_catching_up(device), "it has not caught up");
        self.with_use(device, Use::Full)
    }

    /// Returns the layout in which a drive is out for as long as the aggregate is open. It was out
    /// before.
    pub(crate) fn with_failed(&self, device: DeviceId) -> Layout {
        assert!(self.is_out(device), "it is in use");
        self.with_use(device, Use::Failed)
    }

    /// The drive that gets a seat with the next record.
    pub(crate) fn successor(&self) -> Option<&Successor> {
        self.successor.as_ref()
    }

    /// Returns the layout in which a drive that is out has a successor; `None` if its seat is not
    /// what the successor was prepared for, or if there is a successor already. A drive that is
    /// there has to have failed: otherwise it could begin to catch up.
    pub(crate) fn with_successor(&self, successor: &Successor) -> Option<Layout> {
        let index = successor.member as usize;
        let member = self.config.members.get(index)?;
        let is_recorded = member.uuid == successor.former && !member.seat.is_current();
        let is_failed = self.uses[index] == Use::Failed || self.devices[index].is_none();
        let is_new = self.member_of(successor.device).is_none() && self.successor.is_none();
        (is_recorded && is_failed && is_new).then(|| Layout {
            successor: Some(successor.clone()),
            ..self.clone()
        })
    }

    fn with_use(&self, device: DeviceId, it: Use) -> Layout {
        let mut next = self.clone();
        let member = self.member_of(device).expect("a device of the aggregate");
        next.uses[member] = it;
        next.with_drives()
    }

    /// Returns the layout without a drive; `None` if no other drive has its blocks.
    pub(crate) fn without(&self, device: DeviceId) -> Option<Layout> {
        let member = self.member_of(device)?;
        let others = self.drives[member].iter().filter(|other| **other != device);
        others.count().checked_sub(1)?;
        Some(self.with_use(device, Use::Failed))
    }

    /// Returns the layout of a later epoch whose config record says which members are behind. A
    /// successor has its seat then, and is behind.
    pub(crate) fn with_uses_recorded(&self, epoch: u64) -> Layout {
        let mut next = self.clone();
        if let Some(successor) = next.successor.take() {
            let index = successor.member as usize;
            assert!(!next.uses[index].is_written(), "the seat is in use");
            let member = &mut next.config.members[index];
            (member.uuid, member.size_blocks) = (successor.uuid, successor.size_blocks);
            (next.devices[index], next.uses[index]) = (Some(successor.device), Use::Out);
            next = next.with_drives();
        }
        next.config.epoch = epoch;
        next.config.incompatible |= INCOMPATIBLE_CHANGED;
        for (member, it) in next.config.members.iter_mut().zip(&next.uses) {
            member.seat = member.seat.with_state(match it {
                Use::Full => SeatState::Current,
                Use::CatchingUp | Use::Out | Use::Failed => SeatState::Behind,
            });
        }
        next
    }

    /// Returns the ranges of the usable devices that were written by the time of the superblock
    /// with these frontiers, in bytes: the config records of both labels, the journal, and the
    /// areas of each extent below its frontier.
    pub(crate) fn written_ranges(&self, frontiers: &[u32]) -> Vec<(DeviceId, Range<u64>)> {
        let block = BLOCK_SIZE as u64;
        let record = CONFIG_OFFSETS[config_slot(self.config.epoch)];
        let mut written = Vec::new();
        for (_, member, device) in self.members() {
            for label in label_offsets(member.size_blocks * block) {
                let first = label + record;
                written.push((device, first..first + CONFIG_BYTES as u64));
            }
        }
        written.extend(self.journal());
        for (extent, frontier) in self.geometry.extents().iter().zip(frontiers) {
            let blocks = u64::from(*frontier) * self.geometry.area_blocks();
            let range = bytes(extent.first_dbn.0, blocks.min(extent.length));
            written.extend(self.on_each(extent.member, &range));
        }
        written
    }

    /// Returns the usable drives that have the journal and its range there, in bytes; none if there
    /// is no journal.
    pub(crate) fn journal(&self) -> Vec<(DeviceId, Range<u64>)> {
        let journal = &self.config.journal;
        if journal.blocks == 0 {
            return Vec::new();
        }
        let range = bytes(journal.first.0, journal.blocks);
        self.on_each(journal.member, &range).collect()
    }

    /// Returns a range of a member on each usable drive that has the member's blocks.
    fn on_each(
        &self,
        member: u32,
        range: &Range<u64>,
    ) -> impl Iterator<Item = (DeviceId, Range<u64>)> {
        let drives = self.drives_with(member).iter();
        drives.map(|device| (*device, range.clone()))
    }

    /// Returns the ranges of the labels of all usable members, in bytes.
    pub(crate) fn labels(&self) -> impl Iterator<Item = (DeviceId, Range<u64>)> {
        self.members().flat_map(|(_, member, device)| {
            let labels = label_offsets(member.size_blocks * BLOCK_SIZE as u64);
            labels.map(|first| (device, first..first + LABEL_BYTES))
        })
    }

    /// Returns the areas that have a part in this range of a device, in bytes: the index of their
    /// extent, and their indices in it.
    pub(crate) fn areas_in(
        &self,
        device: DeviceId,
        range: &Range<u64>,
    ) -> Vec<(usize, Range<u64>)> {
        let block = BLOCK_SIZE as u64;
        let area_bytes = self.geometry.area_blocks() * block;
        let extents = self.geometry.extents().iter().enumerate();
        let here = extents.filter(|(_, extent)| self.drives_with(extent.member).contains(&device));
        let areas = here.map(|(index, extent)| {
            let first = extent.first_dbn.0 * block;
            let within = |byte: u64| byte.saturating_sub(first).min(extent.length * block);
            let (from, to) = (within(range.start), within(range.end));
            let areas = match from < to {
                true => from / area_bytes..to.div_ceil(area_bytes),
                false => 0..0,
            };
            (index, areas)
        });
        areas.filter(|(_, areas)| !areas.is_empty()).collect()
    }

    /// Returns the config record as the label of a member has it.
    pub(crate) fn record_of(&self, member: usize) -> Config {
        Config {
            member_index: u32::try_from(member).expect("few devices"),
            ..self.config.clone()
        }
    }

    /// True if this layout may follow `former`: it is of the next epoch, and keeps all extents and
    /// members.
    pub(crate) fn follows(&self, former: &Layout) -> bool {
        let is_kept = |(new, old): (&Member, &Member)| {
            (new.uuid, new.data_first, new.seat) == (old.uuid, old.data_first, old.seat)
                && new.size_blocks >= old.size_blocks
        };
        let (new, old) = (&self.config, &former.config);
        new.epoch == old.epoch + 1
            && (new.uuid, new.secret, new.area_blocks, new.journal)
                == (old.uuid, old.secret, old.area_blocks, old.journal)
            && new.extents.starts_with(&old.extents)
            && self.devices.starts_with(&former.devices)
            && self.uses.starts_with(&former.uses)
            && new.members.iter().zip(&old.members).all(is_kept)
    }
}

/// Returns the bytes of blocks of a device.
fn bytes(first: u64, blocks: u64) -> Range<u64> {
    let block = BLOCK_SIZE as u64;
    first * block..(first + blocks) * block
}

#[cfg(test)]
pub(crate) mod tests {
    use everglade_format::config::{Extent, INCOMPATIBLE_SEATS, JournalRegion};
    use everglade_format::{Dbn, Seat};

    use super::*;

    fn extent(base: u64, member: u32, first: u64) -> Extent {
        Extent {
            base,
            length: 512,
            member,
            group: 0,
            column: 0,
            first_dbn: Dbn(first),
        }
    }

    fn member(uuid: u8) -> Member {
        Member {
            uuid: [uuid; 16],
            size_blocks: 2000,
            data_first: Dbn(300),
            seat: Seat::ALONE,
        }
    }

    /// A record of epoch 1 without a journal.
    pub(crate) fn config(members: Vec<Member>, extents: Vec<Extent>) -> Config {
        Config {
            member_index: 0,
            epoch: 1,
            compatible: 0,
            incompatible: 0,
            uuid: [1; 16],
            secret: [2; 32],
            created_seconds: 0,
            area_blocks: 256,
            reserve_blocks: 0,
            journal: JournalRegion::default(),
            name: "aggr0".to_owned(),
            members,
            extents,
        }
    }

    /// Two devices: pvbns 0 to 511 on the first, 512 to 1,023 on the second.
    pub(crate) fn two_devices() -> Layout {
        let config = config(
            vec![member(4), member(5)],
            vec![extent(0, 0, 300), extent(512, 1, 700)],
        );
        Layout::new(config, vec![Some(DeviceId(4)), Some(DeviceId(5))]).expect("a sound table")
    }

    /// The same with a third device.
    pub(crate) fn three_devices() -> Layout {
        let Layout {
            mut config,
            mut devices,
            ..
        } = two_devices();
        config.epoch = 2;
        config.members.push(member(6));
        config.extents.push(extent(1024, 2, 300));
        devices.push(Some(DeviceId(6)));
        Layout::new(config, devices).expect("a sound table")
    }

    #[test]
    fn a_block_is_where_its_extent_begins_plus_its_distance() {
        let layout = two_devices();
        let place = layout.locate(Pvbn(10)).expect("in the first extent");
        assert_eq!(place.device, DeviceId(4));
        assert_eq!(place.offset, 310 * BLOCK_SIZE as u64);
        assert_eq!(place.run, 502);
        let place = layout.locate(Pvbn(1023)).expect("the last one");
        assert_eq!((place.device, place.run), (DeviceId(5), 1));
        assert_eq!(place.offset, (700 + 511) * BLOCK_SIZE as u64);
        assert_eq!(layout.locate(Pvbn(1024)), None);
    }

    #[test]
    fn labels_journal_and_areas_below_the_frontier_were_written() {
        let mut layout = two_devices();
        let block = BLOCK_SIZE as u64;
        layout.config.journal = JournalRegion {
            member: 1,
            first: Dbn(300),
            blocks: 400,
        };
        let written = layout.written_ranges(&[1, 0]);
        let of = |device: u32| written.iter().filter(move |(id, _)| id.0 == device);
        let has = |device: u32, byte: u64| of(device).any(|(_, range)| range.contains(&byte));
        for device in [4, 5] {
            for label in label_offsets(2000 * block) {
                assert!(has(device, label + CONFIG_OFFSETS[config_slot(1)]));
            }
        }
        assert!(has(4, 300 * block) && has(4, 556 * block - 1), "area 0");
        assert!(!has(4, 556 * block) && !has(4, 299 * block));
        assert!(
            has(5, 300 * block) && has(5, 700 * block - 1),
            "the journal"
        );
        assert!(!has(5, 700 * block), "no area of this extent was opened");
    }

    #[test]
    fn areas_are_found_by_their_bytes() {
        let layout = two_devices();
        let block = BLOCK_SIZE as u64;
        let found = |device, first: u64, end: u64| {
            layout.areas_in(DeviceId(device), &(first * block..end * block))
        };
        assert_eq!(found(4, 0, 300), []);
        assert_eq!(found(4, 0, 301), [(0, 0..1)]);
        assert_eq!(found(4, 555, 557), [(0, 0..2)]);
        assert_eq!(found(4, 556, 9000), [(0, 1..2)]);
        assert_eq!(found(4, 812, 9000), []);
        assert_eq!(found(5, 0, 9000), [(1, 0..2)]);
    }

    #[test]
    fn a_layout_follows_one_that_it_only_adds_to() {
        let (two, three) = (two_devices(), three_devices());
        assert!(three.follows(&two));
        assert!(!two.follows(&three), "the former epoch");
        assert!(!two.follows(&two), "the same epoch");
        let changed = |change: fn(&mut Config)| {
            let mut config = three_devices().config;
            change(&mut config);
            Layout::new(config, three_devices().devices).expect("a sound table")
        };
        assert!(!changed(|it| it.epoch = 3).follows(&two));
        assert!(!changed(|it| it.extents[0].first_dbn = Dbn(301)).follows(&two));
        assert!(!changed(|it| it.members[1].uuid = [9; 16]).follows(&two));
        assert!(!changed(|it| it.members[0].size_blocks = 1999).follows(&two));
        assert!(changed(|it| it.members[0].size_blocks = 2001).follows(&two));
    }

    /// A mirror of two drives, 4 and 5.
    pub(crate) fn mirror() -> Layout {
        let mut config = config(vec![member(4), member(5)], vec![extent(0, 0, 300)]);
        config.incompatible = INCOMPATIBLE_SEATS;
        for (member, drive) in config.members.iter_mut().zip(0..) {
            member.seat = Seat::of_mirror(1, drive);
        }
        Layout::new(config, vec![Some(DeviceId(4)), Some(DeviceId(5))]).expect("a sound table")
    }

    #[test]
    fn drives_of_a_mirror_take_turns_in_reading_and_all_are_written() {
        let layout = mirror();
        let device = |pvbn, turn| layout.locate_copy(Pvbn(pvbn), turn).map(|it| it.device.0);
        assert_eq!(
            (device(10, 0), device(10, 1), device(10, 2)),
            (Some(4), Some(5), Some(4))
        );
        assert_eq!(device(256, 0), Some(5), "the next MiB");
        let place = layout.locate(Pvbn(250)).expect("in the extent");
        assert_eq!((place.offset, place.run), (550 * BLOCK_SIZE as u64, 6));
        let column = layout.locate_column(Pvbn(250)).expect("in the extent");
        assert_eq!((column.device, column.run), (DeviceId(4), 262));
        assert_eq!(layout.drives_of(0), [DeviceId(4), DeviceId(5)]);
        assert_eq!(layout.drives_of(1), [DeviceId(4), DeviceId(5)]);
    }

    #[test]
    fn what_a_mirror_wrote_is_on_each_drive_that_has_everything() {
        let mut layout = mirror();
        let block = BLOCK_SIZE as u64;
        layout.config.journal = JournalRegion {
            member: 0,
            first: Dbn(16),
            blocks: 200,
        };
        let devices = |layout: &Layout, byte: u64| {
            let written = layout.written_ranges(&[1]);
            let with = written.iter().filter(|(_, range)| range.contains(&byte));
            with.map(|(device, _)| device.0).collect::<Vec<_>>()
        };
        for (place, on) in [(16, &[4, 5][..]), (300, &[4, 5]), (556, &[])] {
            assert_eq!(devices(&layout, place * block), on, "block {place}");
        }
        let behind = layout.without(DeviceId(4)).expect("there is another one");
        assert_eq!(devices(&behind, 300 * block), [5]);
        let record = |label: u64| devices(&behind, label + CONFIG_OFFSETS[config_slot(1)]);
        for label in label_offsets(2000 * block) {
            assert!(record(label).iter().all(|device| *device == 5), "{label}");
            assert!(!record(label).is_empty(), "{label}");
        }
    }

    #[test]
    fn a_lost_drive_is_not_used_and_the_last_one_cannot_be_spared() {
        let layout = mirror();
        assert!(!layout.has_losses());
        let degraded = layout.without(DeviceId(4)).expect("there is another one");
        assert!(degraded.has_losses() && degraded.is_out(DeviceId(4)));
        assert_eq!(degraded.drives_of(0), [DeviceId(5)]);
        assert_eq!(degraded.drives_beside(DeviceId(4)), [DeviceId(5)]);
        assert_eq!(degraded.drives_beside(DeviceId(9)), []);
        let place = degraded.locate(Pvbn(10)).expect("on the other drive");
        assert_eq!((place.device, place.run), (DeviceId(5), 502));
        assert_eq!(degraded.members().count(), 1);
        assert_eq!(degraded.devices().count(), 2);
        assert!(degraded.without(DeviceId(5)).is_none());
        assert!(
            two_devices().without(DeviceId(4)).is_none(),
            "no redundancy"
        );
        let recorded = degraded.with_uses_recorded(2);
        assert!(!recorded.has_losses());
        assert_eq!(recorded.config.members[0].seat.state, SeatState::Behind);
        assert_eq!(
            (recorded.config.epoch, recorded.config.incompatible),
            (2, 3)
        );
        let missing = Layout::new(layout.config.clone(), vec![None, Some(DeviceId(5))]);
        assert!(missing.expect("it can be spared").has_losses());
        assert!(Layout::new(layout.config, vec![None, None]).is_err());
    }

    #[test]
    fn a_drive_that_catches_up_is_written_and_is_read_when_it_has_everything() {
        let lost = mirror().without(DeviceId(4)).expect("there is another one");
        let recorded = lost.with_uses_recorded(2);
        assert_eq!(recorded.returned(), None, "it has failed");
        let devices = vec![Some(DeviceId(4)), Some(DeviceId(5))];
        let behind = Layout::new(recorded.config, devices).expect("a sound table");
        assert_eq!(behind.returned(), Some((0, DeviceId(4))));
        let catching = behind.with_catching_up(DeviceId(4));
        assert_eq!(catching.returned(), None);
        assert_eq!(catching.drives_of(1), [DeviceId(4), DeviceId(5)]);
        assert_eq!(catching.copies(Pvbn(10)), 1);
        assert_eq!(catching.written().count(), 2);
        assert_eq!(catching.members().count(), 1, "its labels stay as they are");
        assert!(!catching.is_unrecorded());
        assert!(catching.without(DeviceId(5)).is_none());
        let regained = catching.with_regained(DeviceId(4));
        assert!(regained.is_unrecorded() && !regained.has_losses());
        let recorded = regained.with_uses_recorded(3);
        let seats = recorded.config.members.iter().map(|member| member.seat);
        let seats: Vec<(bool, u16)> = seats.map(|it| (it.is_current(), it.returns)).collect();
        assert_eq!(seats, [(true, 1), (true, 0)]);
    }

    pub(crate) fn successor() -> Successor {
        Successor {
            member: 0,
            former: [4; 16],
            device: DeviceId(7),
            uuid: [7; 16],
            size_blocks: 1900,
        }
    }

    #[test]
    fn a_successor_has_the_seat_with_the_next_record_and_catches_up_then() {
        assert!(mirror().with_successor(&successor()).is_none(), "in use");
        let lost = mirror().without(DeviceId(4)).expect("there is another one");
        assert!(lost.with_successor(&successor()).is_none(), "not recorded");
        let lost = lost.with_uses_recorded(2);
        let next = lost.with_successor(&successor()).expect("it is behind");
        assert!(next.is_unrecorded() && next.with_successor(&successor()).is_none());
        assert!(next.is_out(DeviceId(7)), "no operation goes to it");
        assert_eq!(next.config, lost.config);
        let recorded = next.with_uses_recorded(3);
        let member = &recorded.config.members[0];
        assert_eq!((member.uuid, member.size_blocks), ([7; 16], 1900));
        assert_eq!(member.seat, lost.config.members[0].seat);
        assert!(!recorded.is_unrecorded() && recorded.devices().all(|it| it != DeviceId(4)));
        assert_eq!(recorded.returned(), Some((0, DeviceId(7))));
        let catching = recorded.with_catching_up(DeviceId(7));
        assert_eq!(catching.drives_of(1), [DeviceId(7), DeviceId(5)]);
        assert_eq!(catching.locate(Pvbn(10)).map(|it| it.device.0), Some(5));
        assert!(recorded.with_successor(&successor()).is_none(), "it has it");
    }

    #[test]
    fn a_seat_of_another_drive_and_one_that_may_catch_up_get_no_successor() {
        let lost = mirror().without(DeviceId(4)).expect("there is another one");
        let config = lost.with_uses_recorded(2).config;
        let there = vec![Some(DeviceId(4)), Some(DeviceId(5))];
        let there = Layout::new(config.clone(), there).expect("a sound table");
        assert!(there.with_successor(&successor()).is_none(), "it is back");
        let failed = there.with_failed(DeviceId(4));
        assert!(failed.with_successor(&successor()).is_some());
        let away = Layout::new(config, vec![None, Some(DeviceId(5))]).expect("a sound table");
        let with = |it: Successor| away.with_successor(&it).is_some();
        assert!(with(successor()));
        for wrong in [
            Successor {
                former: [9; 16],
                ..successor()
            },
            Successor {
                member: 1,
                former: [5; 16],
                ..successor()
            },
            Successor {
                member: 2,
                ..successor()
            },
            Successor {
                device: DeviceId(5),
                ..successor()
            },
        ] {
            assert!(!with(wrong.clone()), "{wrong:?}");
        }
    }
}
