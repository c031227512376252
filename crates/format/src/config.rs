//! Config record: what an aggregate consists of, held in the label of every member.
//!
//! 64 KiB, replaced by a record with a higher epoch in the other of two slots.
//!
//! | offset | bytes | field |
//! | --- | --- | --- |
//! | 0 | 8 | `EVGLCONF` |
//! | 8 | 4 | format version |
//! | 12 | 4 | index of the member that holds this copy |
//! | 16 | 8 | epoch |
//! | 24 | 24 | feature flags: compatible, read-only-compatible (none), incompatible (see below) |
//! | 48 | 16 | aggregate's UUID |
//! | 64 | 32 | secret |
//! | 96 | 8 | time of creation, seconds since 1970 UTC |
//! | 104 | 4 | blocks in an allocation area |
//! | 108 | 4 | RAID kind (0 = none) |
//! | 112 | 8 | blocks in the reserve |
//! | 120 | 4, 4, 8, 8 | journal: member; blocks of the RAID log (0 = none); first dbn of the journal, its length in blocks (0 = none yet) |
//! | 144 | 4, 4 | number of members, of extents |
//! | 152 | 1, 64 | length of the name, name |
//! | 256 | 40 each | members: UUID 16 · size in blocks 8 · first dbn of data 8 · seat 8 ([`crate::seat`]) |
//! | after them | 40 each | extents: base 8 · length 8 · first dbn 8 · member 4 · group 4 · column 4 · zero 4 |
//! | 65,504 | 32 | BLAKE3 of the bytes before |
//!
//! | incompatible feature | bit | meaning |
//! | --- | --- | --- |
//! | [`INCOMPATIBLE_CHANGED`] | 0 | the composition was changed after the aggregate was created: labels may have records of two epochs, the newest superblock says which one counts, and the journal may have records of older epochs (decision 0040) |
//! | [`INCOMPATIBLE_SEATS`] | 1 | members have seats: there are groups of drives |
//! | [`INCOMPATIBLE_PARITY`] | 2 | there are parity groups, and a RAID log ([`crate::raid_log`]) on each of their members |
//! | [`INCOMPATIBLE_REMOVAL`] | 3 | members are being evacuated, or were removed: their extents have no blocks, and their devices are elsewhere (decision 0057) |
//!
//! The engine sets bit 0 in every record of an epoch above 1, and in no record of epoch 1. It
//! sets bit 1 exactly if a member is in a group, bit 2 exactly if a member has parity, and bit 3
//! exactly if a member is being evacuated or was removed.
//!
//! The RAID log of a member of a parity group is directly before its data. All members of a parity
//! group have their data at the same first dbn, and the same extents of all data columns lie there
//! at the same places. If the journal is on a parity group, it is on the drive of one data column,
//! which the record names, and on all parity drives, at the same place.

use crate::bytes::{array_at, put, u32_at, u64_at};
use crate::seat::{COPIES_MAX, DATA_MAX, PARITY_MAX, Removal, Role, Seat};
use crate::tag::SECRET_BYTES;
use crate::{Damage, Dbn, FORMAT_VERSION, Geometry};

/// Incompatible feature: the composition was changed after the aggregate was created.
pub const INCOMPATIBLE_CHANGED: u64 = 1;
/// Incompatible feature: members have seats in groups of drives.
pub const INCOMPATIBLE_SEATS: u64 = 2;
/// Incompatible feature: there are groups with parity.
pub const INCOMPATIBLE_PARITY: u64 = 4;
/// Incompatible feature: members are being evacuated, or were removed.
pub const INCOMPATIBLE_REMOVAL: u64 = 8;
/// Incompatible features that this build knows.
const INCOMPATIBLE_KNOWN: u64 =
    INCOMPATIBLE_CHANGED | INCOMPATIBLE_SEATS | INCOMPATIBLE_PARITY | INCOMPATIBLE_REMOVAL;

/// Most extents of an aggregate: a superblock has room for this many frontiers.
pub const EXTENTS_MAX: usize = 894;

/// Bytes of a record.
pub const CONFIG_BYTES: usize = 64 << 10;
/// Epochs are below this, so that counting on never overflows.
pub const EPOCH_END: u64 = 1 << 63;
const MAGIC: [u8; 8] = *b"EVGLCONF";
const CHECK_AT: usize = CONFIG_BYTES - 32;
const MEMBERS_AT: usize = 256;
const ENTRY_BYTES: usize = 40;
/// Most members and extents together.
pub const ENTRIES_MAX: usize = (CHECK_AT - MEMBERS_AT) / ENTRY_BYTES;
/// Longest name of an aggregate, volume or LUN, in bytes.
pub const NAME_BYTES_MAX: usize = 64;

/// Sixteen bytes that name an aggregate or a device.
pub type Uuid = [u8; 16];

/// A device of the aggregate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name for ever.
    pub uuid: Uuid,
    /// Its size when it joined.
    pub size_blocks: u64,
    /// The block of the member at which data begins.
    pub data_first: Dbn,
    /// Its part in a group of drives.
    pub seat: Seat,
}

/// A run of pvbn space on one member (docs/design/design.md §4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First pvbn of the extent.
    pub base: u64,
    /// Blocks.
    pub length: u64,
    /// RAID group.
    pub group: u32,
    /// Column in the group.
    pub column: u32,
    /// Index in the member table.
    pub member: u32,
    /// First block of the extent on the member.
    pub first_dbn: Dbn,
}

/// Members of a parity group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParityGroup {
    /// Those with data, in the order of their columns.
    pub data: Vec<u32>,
    /// Those with parity, in the order of their columns.
    pub parity: Vec<u32>,
}

impl ParityGroup {
    /// Returns all members in the order of their columns.
    pub fn all(&self) -> impl Iterator<Item = u32> {
        self.data.iter().chain(&self.parity).copied()
    }
}

/// A region for the journal; length 0 where there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalRegion {
    /// Index in the member table.
    pub member: u32,
    /// First block of the journal on the member.
    pub first: Dbn,
    /// Blocks.
    pub blocks: u64,
}

/// The composition of an aggregate.
#[derive(Clone, PartialEq, Eq)]
pub struct Config {
    /// Index of the member that holds this copy.
    pub member_index: u32,
    /// Grows with every change of membership.
    pub epoch: u64,
    /// Features that a build may ignore. This build knows none, and keeps those present.
    pub compatible: u64,
    /// Features that a build must know: see the module's documentation.
    pub incompatible: u64,
    /// The aggregate's name for ever.
    pub uuid: Uuid,
    /// Key of all tags; never leaves the labels.
    pub secret: [u8; SECRET_BYTES],
    /// When it was created.
    pub created_seconds: u64,
    /// Blocks in an allocation area.
    pub area_blocks: u64,
    /// Blocks kept back for consistency points and deletions (docs/design/design.md §8).
    pub reserve_blocks: u64,
    /// Place of the journal.
    pub journal: JournalRegion,
    /// Blocks of the RAID log on each member of a parity group, directly before its data; 0 if
    /// there is no such group.
    pub raid_log_blocks: u64,
    /// The aggregate's name for people.
    pub name: String,
    /// Devices.
    pub members: Vec<Member>,
    /// Pvbn space.
    pub extents: Vec<Extent>,
}

impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The secret stays out of logs.
        f.debug_struct("Config")
            .field("name", &self.name)
            .field("epoch", &self.epoch)
            .field("members", &self.members)
            .field("extents", &self.extents)
            .finish_non_exhaustive()
    }
}

/// True if `name` may name an aggregate, a volume or a LUN (docs/reference/conventions.md#names).
#[must_use]
pub fn name_is_valid(name: &str) -> bool {
    let bytes = name.as_bytes();
    (1..=NAME_BYTES_MAX).contains(&bytes.len())
        && bytes[0].is_ascii_alphanumeric()
        && bytes
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(b))
}

impl Config {
    /// The record as bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        assert!(
            self.members.len() + self.extents.len() <= ENTRIES_MAX,
            "too many members"
        );
        assert!(name_is_valid(&self.name), "name {:?}", self.name);
        assert_eq!(
            self.incompatible & INCOMPATIBLE_SEATS != 0,
            self.has_groups(),
            "a record with groups says so"
        );
        assert_eq!(
            self.incompatible & INCOMPATIBLE_PARITY != 0,
            self.has_parity(),
            "a record with parity says so"
        );
        assert_eq!(
            self.incompatible & INCOMPATIBLE_REMOVAL != 0,
            self.has_removals(),
            "a record with removals says so"
        );
        let mut out = vec![0; CONFIG_BYTES];
        put(&mut out, 0, MAGIC);
        put(&mut out, 8, FORMAT_VERSION.to_le_bytes());
        put(&mut out, 12, self.member_index.to_le_bytes());
        put(&mut out, 16, self.epoch.to_le_bytes());
        put(&mut out, 24, self.compatible.to_le_bytes());
        put(&mut out, 40, self.incompatible.to_le_bytes());
        put(&mut out, 48, self.uuid);
        put(&mut out, 64, self.secret);
        put(&mut out, 96, self.created_seconds.to_le_bytes());
        put(
            &mut out,
            104,
            u32::try_from(self.area_blocks)
                .expect("an area fits")
                .to_le_bytes(),
        );
        put(&mut out, 112, self.reserve_blocks.to_le_bytes());
        put(&mut out, 120, self.journal.member.to_le_bytes());
        let raid_log = u32::try_from(self.raid_log_blocks).expect("a log fits");
        put(&mut out, 124, raid_log.to_le_bytes());
        put(&mut out, 128, self.journal.first.0.to_le_bytes());
        put(&mut out, 136, self.journal.blocks.to_le_bytes());
        put(
            &mut out,
            144,
            u32::try_from(self.members.len())
                .expect("bounded")
                .to_le_bytes(),
        );
        put(
            &mut out,
            148,
            u32::try_from(self.extents.len())
                .expect("bounded")
                .to_le_bytes(),
        );
        out[152] = u8::try_from(self.name.len()).expect("at most 64");
        out[153..153 + self.name.len()].copy_from_slice(self.name.as_bytes());
        let mut at = MEMBERS_AT;
        for member in &self.members {
            put(&mut out, at, member.uuid);
            put(&mut out, at + 16, member.size_blocks.to_le_bytes());
            put(&mut out, at + 24, member.data_first.0.to_le_bytes());
            member.seat.encode(&mut out, at + 32);
            at += ENTRY_BYTES;
        }
        for extent in &self.extents {
            put(&mut out, at, extent.base.to_le_bytes());
            put(&mut out, at + 8, extent.length.to_le_bytes());
            put(&mut out, at + 16, extent.first_dbn.0.to_le_bytes());
            put(&mut out, at + 24, extent.member.to_le_bytes());
            put(&mut out, at + 28, extent.group.to_le_bytes());
            put(&mut out, at + 32, extent.column.to_le_bytes());
            at += ENTRY_BYTES;
        }
        let check = *blake3::hash(&out[..CHECK_AT]).as_bytes();
        put(&mut out, CHECK_AT, check);
        out
    }

    /// Reads a record; `None` if the place was never written.
    ///
    /// # Errors
    /// Foreign, newer, torn or contradictory bytes.
    pub fn decode(bytes: &[u8]) -> Result<Option<Config>, Damage> {
        Damage::unless_equal("config record size", CONFIG_BYTES, bytes.len())?;
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        if array_at::<8>(bytes, 0) != MAGIC {
            return Err(Damage::new(
                "config record magic",
                "EVGLCONF",
                hex(&bytes[..8]),
            ));
        }
        // The checksum is at the same place in every version, so that a torn record is never taken
        // for a newer one.
        if blake3::hash(&bytes[..CHECK_AT]) != array_at::<32>(bytes, CHECK_AT) {
            return Err(Damage::new(
                "config record checksum",
                "the checksum of its bytes",
                "another",
            ));
        }
        Damage::unless_ours(u32_at(bytes, 8))?;
        for (at, what, known) in [
            (32, "read-only-compatible feature flags", 0),
            (40, "incompatible feature flags", INCOMPATIBLE_KNOWN),
        ] {
            let unknown = u64_at(bytes, at) & !known;
            if unknown != 0 {
                let expected = match known {
                    0 => "none, as this build knows none".to_owned(),
                    known => format!("none but {known:#x}, which this build knows"),
                };
                return Err(Damage::newer(what, expected, format!("{unknown:#x}")));
            }
        }
        Damage::unless_equal("RAID kind", 0, u32_at(bytes, 108))?;
        let (members, extents) = (u32_at(bytes, 144) as usize, u32_at(bytes, 148) as usize);
        if extents > EXTENTS_MAX {
            return Err(Damage::new("number of extents", EXTENTS_MAX, extents));
        }
        if members == 0 || members.saturating_add(extents) > ENTRIES_MAX {
            return Err(Damage::new(
                "number of members",
                format!("1 to {ENTRIES_MAX}"),
                members,
            ));
        }
        let name_bytes = usize::from(bytes[152]).min(NAME_BYTES_MAX);
        let name = String::from_utf8_lossy(&bytes[153..153 + name_bytes]).into_owned();
        if !name_is_valid(&name) {
            return Err(Damage::new(
                "aggregate name",
                "letters, digits and ._-",
                name,
            ));
        }
        let entry = |index: usize| MEMBERS_AT + index * ENTRY_BYTES;
        let has_seats = u64_at(bytes, 40) & (INCOMPATIBLE_SEATS | INCOMPATIBLE_REMOVAL) != 0;
        let seat = |index: usize| match has_seats {
            true => Seat::decode(bytes, entry(index) + 32),
            false => Ok(Seat::ALONE),
        };
        let seats = (0..members)
            .map(seat)
            .collect::<Result<Vec<Seat>, Damage>>()?;
        let epoch = u64_at(bytes, 16);
        if epoch >= EPOCH_END {
            return Err(Damage::new("epoch", "below 2^63", epoch));
        }
        let config = Config {
            member_index: u32_at(bytes, 12),
            epoch,
            compatible: u64_at(bytes, 24),
            incompatible: u64_at(bytes, 40),
            uuid: array_at(bytes, 48),
            secret: array_at(bytes, 64),
            created_seconds: u64_at(bytes, 96),
            area_blocks: u64::from(u32_at(bytes, 104)),
            reserve_blocks: u64_at(bytes, 112),
            journal: JournalRegion {
                member: u32_at(bytes, 120),
                first: Dbn(u64_at(bytes, 128)),
                blocks: u64_at(bytes, 136),
            },
            raid_log_blocks: match u64_at(bytes, 40) & INCOMPATIBLE_PARITY {
                0 => 0,
                _ => u64::from(u32_at(bytes, 124)),
            },
            name,
            members: (0..members)
                .map(|index| Member {
                    uuid: array_at(bytes, entry(index)),
                    size_blocks: u64_at(bytes, entry(index) + 16),
                    data_first: Dbn(u64_at(bytes, entry(index) + 24)),
                    seat: seats[index],
                })
                .collect(),
            extents: (members..members + extents)
                .map(|index| Extent {
                    base: u64_at(bytes, entry(index)),
                    length: u64_at(bytes, entry(index) + 8),
                    first_dbn: Dbn(u64_at(bytes, entry(index) + 16)),
                    member: u32_at(bytes, entry(index) + 24),
                    group: u32_at(bytes, entry(index) + 28),
                    column: u32_at(bytes, entry(index) + 32),
                })
                .collect(),
        };
        config.validate()?;
        Ok(Some(config))
    }

    fn validate(&self) -> Result<(), Damage> {
        let geometry = self.geometry()?;
        if self.member_index as usize >= self.members.len() {
            return Err(Damage::new(
                "member index",
                self.members.len(),
                self.member_index,
            ));
        }
        for member in &self.members {
            let least = 2 * crate::label::LABEL_BLOCKS;
            if member.size_blocks < least || member.size_blocks >= crate::number::NUMBER_END {
                return Err(Damage::new(
                    "member size",
                    format!("{least} blocks or more"),
                    member.size_blocks,
                ));
            }
        }
        for extent in geometry.extents() {
            let Some(member) = self.members.get(extent.member as usize) else {
                return Err(Damage::new(
                    "extent's member",
                    self.members.len(),
                    extent.member,
                ));
            };
            let end = extent.first_dbn.0.checked_add(extent.length);
            if extent.first_dbn < member.data_first
                || end.is_none_or(|end| end > member.size_blocks)
            {
                return Err(Damage::new("extent", "inside its member", extent.first_dbn));
            }
        }
        validate_seats(self)?;
        if self.has_groups() != (self.incompatible & INCOMPATIBLE_SEATS != 0) {
            let expected = "groups exactly if incompatible feature bit 1 is set";
            return Err(Damage::new("seats", expected, self.has_groups()));
        }
        let says_parity = self.incompatible & INCOMPATIBLE_PARITY != 0;
        if self.has_parity() != says_parity || says_parity != (self.raid_log_blocks > 0) {
            let expected = "parity and a RAID log exactly if incompatible feature bit 2 is set";
            return Err(Damage::new("parity", expected, self.has_parity()));
        }
        if self.has_removals() != (self.incompatible & INCOMPATIBLE_REMOVAL != 0) {
            let expected = "removals exactly if incompatible feature bit 3 is set";
            return Err(Damage::new("seats", expected, self.has_removals()));
        }
        if self.reserve_blocks > geometry.block_count() {
            return Err(Damage::new(
                "reserve",
                "within the aggregate",
                self.reserve_blocks,
            ));
        }
        Ok(())
    }

    /// True if a member is in a group of drives.
    #[must_use]
    pub fn has_groups(&self) -> bool {
        self.members.iter().any(|member| member.seat.group != 0)
    }

    /// True if a member has parity.
    #[must_use]
    pub fn has_parity(&self) -> bool {
        let mut members = self.members.iter();
        members.any(|member| member.seat.role == Role::Parity)
    }

    /// True if a member is being evacuated, or was removed.
    #[must_use]
    pub fn has_removals(&self) -> bool {
        let mut members = self.members.iter();
        members.any(|member| member.seat.removal != Removal::None)
    }

    /// True if a member was removed. One that does not exist was not.
    #[must_use]
    pub fn is_removed(&self, member: u32) -> bool {
        let member = self.members.get(member as usize);
        member.is_some_and(|member| member.seat.is_removed())
    }

    /// True if nothing is allocated on a member any more.
    #[must_use]
    pub fn is_leaving(&self, member: u32) -> bool {
        let member = self.members.get(member as usize);
        member.is_some_and(|member| member.seat.removal != Removal::None)
    }

    /// Returns the blocks that may be allocated: those of members that stay.
    #[must_use]
    pub fn staying_blocks(&self) -> u64 {
        let first = self.extents.first();
        let has_none = first.is_some_and(|it| it.base == 0 && !self.is_leaving(it.member));
        self.staying_areas_blocks() - u64::from(has_none)
    }

    /// Returns the blocks of all areas of members that stay. The first one may have a block that is
    /// never allocated.
    #[must_use]
    pub fn staying_areas_blocks(&self) -> u64 {
        let extents = self.extents.iter();
        let staying = extents.filter(|extent| !self.is_leaving(extent.member));
        staying.map(|extent| extent.length).sum()
    }

    /// Returns the indices of the members that have the same blocks as `member`, itself included:
    /// the drives of its mirror, in the order of their columns. A member of a parity group is alone
    /// with its blocks.
    #[must_use]
    pub fn copies_of(&self, member: u32) -> Vec<u32> {
        match self.parity_group_of(member) {
            Some(_) => vec![member],
            None => self.group_of(member),
        }
    }

    /// Returns the parity group of a member; `None` if it is in none.
    #[must_use]
    pub fn parity_group_of(&self, member: u32) -> Option<ParityGroup> {
        let has_parity = |it: &u32| {
            let member = self.members.get(*it as usize);
            member.is_some_and(|member| member.seat.role == Role::Parity)
        };
        let all = self.group_of(member);
        all.iter().find(|it| has_parity(it))?;
        let (parity, data) = all.into_iter().partition(has_parity);
        Some(ParityGroup { data, parity })
    }

    /// Returns the members that have the journal, if there is one: the drives of a mirror, or of a
    /// parity group the drive that the record names and all parity drives.
    #[must_use]
    pub fn journal_members(&self) -> Vec<u32> {
        let member = self.journal.member;
        if self.journal.blocks == 0 {
            return Vec::new();
        }
        match self.parity_group_of(member) {
            Some(group) => [vec![member], group.parity].concat(),
            None => self.copies_of(member),
        }
    }

    /// The first block of the RAID log on a member of a parity group.
    #[must_use]
    pub fn raid_log_first(&self, member: u32) -> Dbn {
        let first = self.members.get(member as usize);
        let first = first.map_or(0, |member| member.data_first.0);
        Dbn(first.saturating_sub(self.raid_log_blocks))
    }

    /// Returns the members of the group of `member` in the order of their columns; the member alone
    /// if it is in no group.
    #[must_use]
    pub fn group_of(&self, member: u32) -> Vec<u32> {
        let group = self
            .members
            .get(member as usize)
            .map_or(0, |it| it.seat.group);
        if group == 0 {
            return vec![member];
        }
        let all = self.members.iter().zip(0..);
        let in_group = all.filter(|(it, _)| it.seat.group == group);
        let mut copies: Vec<(u8, u32)> = in_group
            .map(|(it, index)| (it.seat.column, index))
            .collect();
        copies.sort_unstable();
        copies.into_iter().map(|(_, index)| index).collect()
    }

    /// Pvbn space, checked.
    ///
    /// # Errors
    /// See [`Geometry::new`].
    pub fn geometry(&self) -> Result<Geometry, Damage> {
        let geometry = Geometry::new(self.area_blocks, self.extents.clone())?;
        Ok(geometry.with_vacant(|extent| self.is_removed(extent.member)))
    }
}

/// Checks the seats of all members, and that extents and journal are on data columns.
///
/// # Errors
/// The first seat that breaks a rule of [`crate::seat`].
fn validate_seats(config: &Config) -> Result<(), Damage> {
    let seats = || config.members.iter().map(|member| member.seat);
    for seat in seats() {
        if seat.group == 0 {
            let alone = Seat {
                removal: seat.removal,
                ..Seat::ALONE
            };
            if seat != alone {
                let expected = "a current data column, as the member is in no group";
                return Err(Damage::new("seat of a member", expected, seat));
            }
            continue;
        }
        let in_group = || seats().filter(|other| other.group == seat.group);
        if in_group().any(|other| other.removal != seat.removal) {
            let expected = "the same removal as the others of its group";
            return Err(Damage::new("seat of a member", expected, seat));
        }
        let twins = in_group().filter(|other| other.column == seat.column);
        if twins.count() > 1 {
            return Err(Damage::new("seat of a member", "each once", seat));
        }
        match in_group().any(|other| other.role == Role::Parity) {
            true => validate_parity_seat(seat, in_group)?,
            false => validate_mirror_seat(seat, in_group)?,
        }
    }
    let extents = config.extents.iter().map(|extent| extent.member);
    let journal = (config.journal.blocks > 0).then_some(config.journal.member);
    for member in extents.chain(journal) {
        let seat = config.members.get(member as usize).map(|it| it.seat);
        if seat.is_some_and(|seat| seat.role != Role::Data) {
            let expected = "a data column as the place of extents and journal";
            return Err(Damage::new("member", expected, "a copy, or parity"));
        }
    }
    validate_rows(config)?;
    // Every copy has the blocks that its data column has.
    for (index, extent) in config.extents.iter().enumerate() {
        let end = extent.first_dbn.0.saturating_add(extent.length);
        check_room(config, extent.member, end, &format!("extent {index}"))?;
    }
    let journal = &config.journal;
    if journal.blocks > 0 && config.is_leaving(journal.member) {
        let expected = "a journal on members that stay";
        return Err(Damage::new("removal", expected, journal.member));
    }
    if !seats().any(|seat| seat.removal == Removal::None) {
        return Err(Damage::new("removal", "a member that stays", "none"));
    }
    if journal.blocks > 0 {
        let end = journal.first.0.saturating_add(journal.blocks);
        check_room(config, journal.member, end, "the journal")?;
    }
    Ok(())
}

/// Checks a seat of a mirror.
fn validate_mirror_seat<I: Iterator<Item = Seat>>(
    seat: Seat,
    in_group: impl Fn() -> I,
) -> Result<(), Damage> {
    let is_data = seat.role == Role::Data;
    if usize::from(seat.column) >= COPIES_MAX || is_data != (seat.column == 0) {
        let expected = "data in column 0, or a copy in column 1 or 2";
        return Err(Damage::new("seat of a member", expected, seat));
    }
    let has_data = in_group().any(|other| other.role == Role::Data);
    let has_current = seat.is_removed() || in_group().any(Seat::is_current);
    if !has_data || in_group().count() < 2 || !has_current {
        let expected = "a data column, a copy, and one of them current";
        return Err(Damage::new("group", expected, seat));
    }
    Ok(())
}

/// Checks a seat of a parity group. No column is there twice.
fn validate_parity_seat<I: Iterator<Item = Seat>>(
    seat: Seat,
    in_group: impl Fn() -> I,
) -> Result<(), Damage> {
    let count = |role: Role| in_group().filter(|other| other.role == role).count();
    let (data, parity, all) = (count(Role::Data), count(Role::Parity), in_group().count());
    if !(1..=DATA_MAX).contains(&data) || parity > PARITY_MAX || data + parity != all {
        let expected = "1 to 28 data columns and 1 to 3 parity columns";
        return Err(Damage::new("group", expected, seat));
    }
    let is_data = seat.role == Role::Data;
    if usize::from(seat.column) >= all || is_data != (usize::from(seat.column) < data) {
        let expected = "data columns first, then parity, without a gap";
        return Err(Damage::new("seat of a member", expected, seat));
    }
    let behind = in_group().filter(|other| !other.is_current()).count();
    if behind > parity && !seat.is_removed() {
        let expected = "no more members behind than there are parity columns";
        return Err(Damage::new("group", expected, seat));
    }
    Ok(())
}

/// Checks that the members of each parity group have their data, and the extents of their data
/// columns, at the same places, with room for the RAID log before them.
fn validate_rows(config: &Config) -> Result<(), Damage> {
    for (member, index) in config.members.iter().zip(0..) {
        if member.seat.role != Role::Parity {
            continue;
        }
        let Some(group) = config.parity_group_of(index) else {
            continue;
        };
        let first = member.data_first;
        let least = crate::label::LABEL_BLOCKS.saturating_add(config.raid_log_blocks);
        for other in group.all() {
            let other = config.members[other as usize].data_first;
            if other != first || other.0 < least {
                let expected = format!("{first} for all members of the group, from {least} on");
                return Err(Damage::new("first block of data", expected, other));
            }
        }
        let places = |member: u32| {
            let all = config.extents.iter();
            let own = all.filter(move |extent| extent.member == member);
            own.map(|extent| (extent.first_dbn, extent.length))
        };
        for data in &group.data {
            if !places(*data).eq(places(group.data[0])) {
                let expected = "the same extents on all data columns of a parity group";
                return Err(Damage::new("extents", expected, data));
            }
        }
    }
    Ok(())
}

/// Every drive of the group of `member` has blocks up to `end`, and a label behind them.
fn check_room(config: &Config, member: u32, end: u64, what: &str) -> Result<(), Damage> {
    let Some(data) = config.members.get(member as usize) else {
        return Ok(());
    };
    let group = data.seat.group;
    let mut copies = config.members.iter();
    let short = copies.find(|it| {
        let has_room = end.saturating_add(crate::label::LABEL_BLOCKS) <= it.size_blocks;
        group != 0 && it.seat.group == group && !has_room
    });
    match short {
        Some(short) => Err(Damage::new(
            "size of a copy",
            format!("room for {what}, which ends at {end}"),
            short.size_blocks,
        )),
        None => Ok(()),
    }
}

/// Bytes as people read them.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
