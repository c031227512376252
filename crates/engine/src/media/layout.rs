//! The layout of an aggregate: which devices it has, and where its blocks are on them.
//!
//! A layout never changes. A freeze may replace it by the next one (decision 0040), which keeps all
//! extents of the former and appends others. So a place found in one layout is right in every later
//! one, and a reader need not hold on to the layout while its operation is under way. Blocks of a
//! member that was removed have no place any more ([`removal`]). A reader may have found such a
//! place before: it gets other content or an error, and asks the container.
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
//! A *parity group* has several data columns and one to three columns of parity, each with one
//! drive. A block whose drive is not in full use is reconstructed from the other columns
//! ([`everglade_raid`]).
//!
//! 1. Each column has a drive in full use, or belongs to a parity group of which no more drives are
//!    not in full use than it has parity: the column is *usable*.
//! 2. A drive is *lost* if it is not in full use, though the config record says that it is current;
//!    it is *regained* if it is in full use, though the record says that it is behind. The next
//!    consistency point records both ([`Layout::with_uses_recorded`]).
//! 3. A drive that is out may have a *successor*. The record that is written next gives the seat to
//!    it. A layout with groups may be *grown*: the next record has what an expansion added. Any
//!    layout may have a removal that the next record has. Any other layout has only devices that
//!    its own record names.
//! 4. Members are never renumbered. So whatever is kept while layouts change names a member, and no
//!    device: an operation on a column finds its drives when it is submitted.

pub(crate) mod expansion;
pub(crate) mod removal;

use std::ops::Range;

use everglade_env::{BLOCK_SIZE, DeviceId, Page, PageRef};
use everglade_format::config::{CONFIG_BYTES, INCOMPATIBLE_CHANGED, Member, Uuid};
use everglade_format::label::{CONFIG_OFFSETS, LABEL_BYTES, config_slot, label_offsets};
use everglade_format::{Config, Damage, Extent, Geometry, Pvbn, SeatState};
use everglade_raid::{Block, Code, Columns};

/// Blocks that one drive of a mirror reads before it is the turn of the next one: 1 MiB, the
/// longest device read.
const TURN_BLOCKS: u64 = 256;

/// The device of a column without a drive in full use.
pub(crate) const NO_DRIVE: DeviceId = DeviceId(u32::MAX);

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
    /// The first of them, or [`NO_DRIVE`].
    first: Vec<DeviceId>,
    has_groups: bool,
    /// Parity groups.
    rows: Vec<Rows>,
    /// Index of the parity group of each member that is in one.
    row_of: Vec<Option<usize>>,
    /// The same, and drives that are catching up.
    written: Vec<Vec<DeviceId>>,
    /// The drive that gets the seat of another one with the next record.
    successor: Option<Successor>,
    /// The number of members before, if there are members or extents that no record has
    /// ([`expansion`]).
    grown_from: Option<usize>,
    /// True if no record has the removals of the config.
    has_new_removal: bool,
}

/// A parity group: block *d* of all of its drives is stripe *d*.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rows {
    pub(crate) code: Code,
    /// The members: data columns first.
    pub(crate) members: Vec<u32>,
}

impl Rows {
    /// Returns the parity of a stripe with these data columns.
    ///
    /// # Panics
    /// If there are not as many as the group has.
    pub(crate) fn parity_of(&self, data: &[PageRef]) -> Vec<PageRef> {
        let data: Vec<&Block> = data.iter().map(|page| &**page).collect();
        let mut parity: Vec<Page> = (0..self.code.parity()).map(|_| Page::for_read()).collect();
        let mut blocks: Vec<&mut Block> = parity.iter_mut().map(|page| &mut **page).collect();
        self.code.encode(&data, &mut blocks);
        parity.into_iter().map(Page::freeze).collect()
    }
}

/// The place of a block in a parity group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Across {
    /// Index of the group.
    pub(crate) group: usize,
    /// Column of the block.
    pub(crate) column: usize,
    /// Stripe: the number of the block on its drive.
    pub(crate) stripe: u64,
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
        let (rows, row_of) = rows_of(&config)?;
        let layout = Layout {
            geometry: config.geometry()?,
            uses: uses.collect(),
            drives: Vec::new(),
            first: Vec::new(),
            has_groups: config.has_groups(),
            rows,
            row_of,
            written: Vec::new(),
            successor: None,
            grown_from: None,
            has_new_removal: false,
            config: Config {
                member_index: 0,
                ..config
            },
            devices,
        };
        let layout = layout.with_drives();
        let mut members = (0..).take(layout.devices.len());
        let without = members.find(|member| {
            !layout.config.is_removed(*member) && !layout.is_column_usable(*member, |_| true)
        });
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
        let first = self.drives.iter().map(|drives| drives.first().copied());
        self.first = first.map(|first| first.unwrap_or(NO_DRIVE)).collect();
        self
    }

    /// True if the blocks of a member's column can be read from those of its drives, or of its
    /// parity group, that are in full use and that are `meant`.
    fn is_column_usable(&self, member: u32, meant: impl Fn(DeviceId) -> bool) -> bool {
        let is_there = |member: &u32| {
            let drives = self.drives_with(*member).iter();
            drives.copied().any(&meant)
        };
        match self.rows_of_member(member) {
            None => is_there(&member),
            Some(rows) => {
                let there = rows.members.iter().filter(|member| is_there(member));
                there.count() >= rows.code.data()
            }
        }
    }

    /// True if the blocks of a device's column can be read without it, from drives in full use that
    /// are `meant`.
    pub(crate) fn suffices_without(
        &self,
        device: DeviceId,
        meant: impl Fn(DeviceId) -> bool,
    ) -> bool {
        let member = self.member_of(device).and_then(|it| u32::try_from(it).ok());
        member.is_some_and(|member| {
            self.is_column_usable(member, |other| other != device && meant(other))
        })
    }

    /// Returns the index of the parity group of a member; `None` if it is in none.
    pub(crate) fn group_of(&self, member: u32) -> Option<usize> {
        *self.row_of.get(member as usize)?
    }

    /// Returns the parity group of a member; `None` if it is in none.
    pub(crate) fn rows_of_member(&self, member: u32) -> Option<&Rows> {
        self.group_of(member).map(|group| &self.rows[group])
    }

    /// Returns a parity group.
    pub(crate) fn rows(&self, group: usize) -> &Rows {
        &self.rows[group]
    }

    /// Returns all parity groups.
    pub(crate) fn all_rows(&self) -> &[Rows] {
        &self.rows
    }

    /// Returns the place of a block in its parity group; `None` if it is in none.
    pub(crate) fn across(&self, pvbn: Pvbn) -> Option<Across> {
        if self.rows.is_empty() {
            return None;
        }
        let place = self.geometry.locate(pvbn)?;
        let group = self.row_of[place.member as usize]?;
        let mut members = self.rows[group].members.iter();
        Some(Across {
            group,
            column: members.position(|member| *member == place.member)?,
            stripe: place.dbn.0,
        })
    }

    /// Returns the number of a block of a parity group; `None` if it is parity, or no extent has
    /// it.
    pub(crate) fn pvbn_of(&self, at: Across) -> Option<Pvbn> {
        let rows = &self.rows[at.group];
        let member = rows.members[..rows.code.data()].get(at.column)?;
        let is_here = |extent: &&Extent| {
            let first = extent.first_dbn.0;
            extent.member == *member && (first..first + extent.length).contains(&at.stripe)
        };
        let extent = self.config.extents.iter().find(is_here)?;
        Some(Pvbn(extent.base + at.stripe - extent.first_dbn.0))
    }

    /// True if blocks of a group are in a stripe.
    pub(crate) fn has_stripe(&self, rows: &Rows, stripe: u64) -> bool {
        let mut extents = self.config.extents.iter();
        extents.any(|extent| {
            let first = extent.first_dbn.0;
            rows.members.contains(&extent.member)
                && (first..first + extent.length).contains(&stripe)
        })
    }

    /// Returns the place of the first of some neighbours in their parity group; `None` if they are
    /// in none. The first one may be number 0, which is no block.
    pub(crate) fn across_first(&self, first: u64, count: u64) -> Option<Across> {
        let last = self.across(Pvbn(first + count - 1))?;
        Some(Across {
            stripe: last.stripe + 1 - count,
            ..last
        })
    }

    /// Returns the numbers of the blocks of a stripe, by data column.
    pub(crate) fn pvbns_of(&self, at: Across) -> impl Iterator<Item = Pvbn> {
        let columns = 0..self.rows[at.group].code.data();
        columns.map(move |column| {
            let pvbn = self.pvbn_of(Across { column, ..at });
            pvbn.expect("all data columns have the same extents")
        })
    }

    /// Returns the drive in full use of a member, if it has one.
    pub(crate) fn full_drive(&self, member: u32) -> Option<DeviceId> {
        self.drives_with(member).first().copied()
    }

    /// Returns the columns of a parity group that have no drive in full use.
    pub(crate) fn lost_columns(&self, group: usize) -> Columns {
        let members = self.rows[group].members.iter().enumerate();
        let lost = members.filter(|(_, member)| self.full_drive(**member).is_none());
        lost.map(|(column, _)| column).collect()
    }

    /// Returns the drives to be written with the journal.
    pub(crate) fn journal_drives(&self) -> Vec<DeviceId> {
        let members = self.config.journal_members().into_iter();
        let drives = members.flat_map(|member| self.own_written(member));
        drives.collect()
    }

    /// Returns the drives to be written of a member's column; of a parity group those of all
    /// columns.
    pub(crate) fn row_drives(&self, member: u32) -> Vec<DeviceId> {
        match self.rows_of_member(member) {
            None => self.drives_of(member).to_vec(),
            Some(rows) => {
                let members = rows.members.iter();
                members.flat_map(|it| self.own_written(*it)).collect()
            }
        }
    }

    /// Returns the drives in full use of a member's column; of a parity group those of all columns.
    pub(crate) fn full_row_drives(&self, member: u32) -> Vec<DeviceId> {
        match self.rows_of_member(member) {
            None => self.drives_with(member).to_vec(),
            Some(rows) => {
                let members = rows.members.iter();
                members.filter_map(|it| self.full_drive(*it)).collect()
            }
        }
    }

    /// The drive of a member, if it is written.
    pub(crate) fn own_written(&self, member: u32) -> Option<DeviceId> {
        let index = member as usize;
        self.devices[index].filter(|_| self.uses[index].is_written())
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
            [] => (NO_DRIVE, place.run),
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

    /// Returns the first drive in full use of a member's column.
    pub(crate) fn first_of(&self, member: u32) -> DeviceId {
        self.first[member as usize]
    }

    /// Returns the usable drives that have the blocks of a member.
    pub(crate) fn drives_with(&self, member: u32) -> &[DeviceId] {
        self.drives.get(member as usize).map_or(&[], Vec::as_slice)
    }

    /// Returns the device of a member, if it is there.
    pub(crate) fn device_of(&self, member: u32) -> Option<DeviceId> {
        *self.devices.get(member as usize)?
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
        let mut members = (0..).zip(&self.devices);
        members.any(|(member, device)| device.is_none() && !self.config.is_removed(member))
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
        differs || self.is_grown() || self.successor.is_some() || self.has_new_removal
    }

    /// Returns a member that is behind and out, though its device is there and has not failed: its
    /// index and device. A member that an expansion has added waits until a record has it.
    pub(crate) fn returned(&self) -> Option<(u32, DeviceId)> {
        if self.is_grown() {
            return None;
        }
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
        let is_lost = !member.seat.is_current() && !member.seat.is_removed();
        let is_recorded = member.uuid == successor.former && is_lost;
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

    /// Returns the layout without a drive; `None` if its blocks cannot be read without it.
    pub(crate) fn without(&self, device: DeviceId) -> Option<Layout> {
        let is_spared = self.suffices_without(device, |_| true);
        is_spared.then(|| self.with_use(device, Use::Failed))
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
        next.grown_from = None;
        next.has_new_removal = false;
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
            let drives = self.drives_with_extent(extent);
            written.extend(drives.into_iter().map(|drive| (drive, range.clone())));
        }
        written
    }

    /// Returns the drives in full use that have blocks of an extent, or their parity.
    fn drives_with_extent(&self, extent: &Extent) -> Vec<DeviceId> {
        let own = self.drives_with(extent.member).iter().copied();
        let rows = self.rows_of_member(extent.member);
        let parity = rows.map_or(&[][..], |rows| &rows.members[rows.code.data()..]);
        let parity = parity.iter().filter_map(|member| self.full_drive(*member));
        own.chain(parity).collect()
    }

    /// Returns the usable drives that have the journal and its range there, in bytes; none if there
    /// is no journal.
    pub(crate) fn journal(&self) -> Vec<(DeviceId, Range<u64>)> {
        let journal = &self.config.journal;
        if journal.blocks == 0 {
            return Vec::new();
        }
        let range = bytes(journal.first.0, journal.blocks);
        let members = self.config.journal_members().into_iter();
        let usable = members.filter(|member| self.uses[*member as usize] == Use::Full);
        let drives = usable.filter_map(|member| self.devices[member as usize]);
        drives.map(|device| (device, range.clone())).collect()
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
        let here = extents.filter(|(_, it)| self.drives_with_extent(it).contains(&device));
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

/// Returns the parity groups of a composition, and the index of the group of each member.
///
/// # Errors
/// A group with too many columns.
fn rows_of(config: &Config) -> Result<(Vec<Rows>, Vec<Option<usize>>), Damage> {
    let mut rows: Vec<Rows> = Vec::new();
    let mut row_of = Vec::new();
    for member in (0..).take(config.members.len()) {
        let Some(group) = config.parity_group_of(member) else {
            row_of.push(None);
            continue;
        };
        let members: Vec<u32> = group.all().collect();
        let known = rows.iter().position(|rows| rows.members == members);
        if known.is_none() {
            let code = Code::new(group.data.len(), group.parity.len());
            let code = code.ok_or_else(|| {
                let expected = "1 to 28 data columns and at most 3 with parity";
                Damage::new("group", expected, members.len())
            })?;
            rows.push(Rows { code, members });
        }
        row_of.push(Some(known.unwrap_or(rows.len() - 1)));
    }
    Ok((rows, row_of))
}

/// Returns the bytes of blocks of a device.
fn bytes(first: u64, blocks: u64) -> Range<u64> {
    let block = BLOCK_SIZE as u64;
    first * block..(first + blocks) * block
}

#[cfg(test)]
pub(crate) mod tests;
