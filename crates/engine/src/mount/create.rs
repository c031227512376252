//! Making an aggregate: labels and an empty superblock. The first consistency point writes
//! everything else.

use everglade_env::{BLOCK_SIZE, DeviceId, DiskError, Storage};
use everglade_format::config::{
    CONFIG_BYTES, INCOMPATIBLE_PARITY, INCOMPATIBLE_SEATS, JournalRegion, name_is_valid,
};
use everglade_format::geometry::AREA_BLOCKS;
use everglade_format::label::{
    CONFIG_OFFSETS, LABEL_BLOCKS, LABEL_BYTES, SUPERBLOCK_OFFSETS, config_slot, data_region,
    label_offsets, size_for, superblock_slot,
};
use everglade_format::seat::{COPIES_MAX, DATA_MAX, PARITY_MAX};
use everglade_format::tag::SECRET_BYTES;
use everglade_format::{Config, CpNumber, Dbn, Extent, Member, Role, Seat, Superblock, TagKey};
use everglade_journal::Position;

use crate::alloc::filesystem::FileSystem;
use crate::media::reserve::reserve_for;
use crate::pool::space::RESERVE_LEAST;

/// Areas that a device with data has at least.
pub(crate) const AREAS_LEAST: u64 = 4;

/// The plan of a new aggregate.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Its name (docs/reference/conventions.md#names).
    pub name: String,
    /// Its UUID.
    pub uuid: [u8; 16],
    /// Random bytes that never leave the labels.
    pub secret: [u8; SECRET_BYTES],
    /// A random UUID for each device.
    pub device_uuids: Vec<[u8; 16]>,
    /// Seconds since 1970 UTC.
    pub created_seconds: u64,
    /// Blocks in an allocation area: [`AREA_BLOCKS`], smaller for tests with tiny devices.
    pub area_blocks: u64,
    /// Blocks in each half of the journal. 0: the aggregate has no journal. `None`: the usual size,
    /// [`usual_half_blocks`].
    pub journal_half_blocks: Option<u64>,
    /// Index of the device that has the journal and nothing else. `None`: the journal is on the
    /// first device, beside data.
    pub journal_device: Option<usize>,
    /// Drives with a copy of each block: 1 for an aggregate without redundancy, 2 or 3 for mirrors.
    /// So many devices at a time are the drives of a mirror, in the order in which they are given.
    pub copies: usize,
    /// `None`: no parity.
    pub parity: Option<ParityPlan>,
}

/// Parity of a new aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParityPlan {
    /// Drives of each group. So many devices at a time are a group, in the order in which they are
    /// given; the last ones of each group have parity.
    pub drives: usize,
    /// Drives with parity of each group, 1 to 3: so many drives may be lost.
    pub parity: usize,
}

/// Blocks in each half of the journal of a pool whose devices have `total` blocks, with the journal
/// on drives of `own` (docs/reference/conventions.md#defaults): 2 % of the pool, 16 to 256 MiB, but
/// both halves at most an eighth of a drive; none where that is less than 16 MiB each, as it is
/// with the tiny ones of tests.
#[must_use]
pub fn usual_half_blocks(total: u64, own: u64) -> u64 {
    let mib = (1 << 20) / BLOCK_SIZE as u64;
    let half = (total / 50).clamp(16 * mib, 256 * mib).min(own / 16);
    if half < 16 * mib { 0 } else { half }
}

impl Plan {
    /// A plan with areas of the usual size.
    #[must_use]
    pub fn new(
        name: &str,
        uuid: [u8; 16],
        secret: [u8; SECRET_BYTES],
        device_uuids: Vec<[u8; 16]>,
    ) -> Self {
        let name = name.to_owned();
        Plan {
            name,
            uuid,
            secret,
            device_uuids,
            created_seconds: 0,
            area_blocks: AREA_BLOCKS,
            journal_half_blocks: None,
            journal_device: None,
            copies: 1,
            parity: None,
        }
    }

    /// Devices that make a column with its copies, or a parity group.
    fn drives_together(&self) -> usize {
        self.parity.map_or(self.copies, |parity| parity.drives)
    }

    /// Checks that the devices can be shared out.
    fn check_groups(&self, devices: usize) -> Result<(), CreateError> {
        let Some(ParityPlan { drives, parity }) = self.parity else {
            let is_possible =
                (1..=COPIES_MAX).contains(&self.copies) && devices.is_multiple_of(self.copies);
            return match is_possible {
                true => Ok(()),
                false => Err(CreateError::Copies {
                    devices,
                    copies: self.copies,
                }),
            };
        };
        let data = drives.saturating_sub(parity);
        let is_possible = (1..=PARITY_MAX).contains(&parity)
            && (1..=DATA_MAX).contains(&data)
            && devices > 0
            && devices.is_multiple_of(drives)
            && self.copies == 1
            && self.journal_device.is_none();
        match is_possible {
            true => Ok(()),
            false => Err(CreateError::Parity {
                devices,
                drives,
                parity,
            }),
        }
    }
}

/// Blocks of the RAID log on a drive of so many blocks: 16 MiB, less on tiny drives of tests.
fn raid_log_for(size_blocks: u64) -> u64 {
    (size_blocks / 64).clamp(64, 4096)
}

/// The reasons why an aggregate cannot be created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CreateError {
    /// The name is not one.
    #[error("{0:?} cannot name an aggregate: use 1 to 64 letters, digits, '.', '_' and '-'")]
    Name(String),
    /// A device is too small.
    #[error("device {device} has {bytes} bytes; use one of at least {least}")]
    TooSmall {
        /// Index of the device.
        device: usize,
        /// Its size.
        bytes: u64,
        /// The smallest that will do.
        least: u64,
    },
    /// The devices cannot be shared out among mirrors.
    #[error(
        "{devices} devices make no mirrors of {copies}; use a multiple of {copies}, and 2 or 3 \
         drives for each mirror"
    )]
    Copies {
        /// Number of devices.
        devices: usize,
        /// Drives of each mirror.
        copies: usize,
    },
    /// The devices cannot be shared out among parity groups.
    #[error(
        "{devices} devices make no groups of {drives} drives of which {parity} have parity; use a \
         multiple of the drives of a group, 1 to 3 of them with parity and 1 to 28 with data, and \
         no device for the journal alone"
    )]
    Parity {
        /// Number of devices.
        devices: usize,
        /// Drives of each group.
        drives: usize,
        /// Those with parity.
        parity: usize,
    },
    /// A device has a label already.
    #[error("device {0} has an Everglade label already; destroy that aggregate first")]
    InUse(usize),
    /// The host refused.
    #[error("device {device}: {error}")]
    Disk {
        /// Index of the device.
        device: usize,
        /// Why.
        error: DiskError,
    },
}

/// Writes the labels of a new aggregate, and asks the host for the space of labels and reserve. The
/// devices' other contents are left as they are: nothing refers to them.
///
/// # Errors
/// See [`CreateError`]. After a disk error the devices may have some of the labels; mounting
/// refuses them unless all were written.
pub fn create(storage: &dyn Storage, devices: &[DeviceId], plan: &Plan) -> Result<(), CreateError> {
    if !name_is_valid(&plan.name) {
        return Err(CreateError::Name(plan.name.clone()));
    }
    assert_eq!(
        devices.len(),
        plan.device_uuids.len(),
        "one UUID for each device"
    );
    plan.check_groups(devices.len())?;
    let mut members = Vec::new();
    let mut extents: Vec<Extent> = Vec::new();
    let mut base = 0;
    let sizes: Vec<u64> = devices.iter().map(|id| storage.size_bytes(*id)).collect();
    check_sizes(&sizes, plan)?;
    let columns = Columns::of(&sizes, plan);
    for (index, (device, uuid)) in devices.iter().zip(&plan.device_uuids).enumerate() {
        let size_blocks = sizes[index] / BLOCK_SIZE as u64;
        let column = columns.of_device(index);
        refuse_labelled(storage, *device, index)?;
        let region = column.region(plan);
        members.push(Member {
            uuid: *uuid,
            size_blocks,
            data_first: region.map_or(Dbn(LABEL_BLOCKS + column.log_blocks), |(first, _)| first),
            seat: seat_of(index, plan),
        });
        // Extents are in data columns.
        let seat = seat_of(index, plan);
        let (Some((first, length)), Role::Data) = (region, seat.role) else {
            continue;
        };
        let member = u32::try_from(index).expect("few devices");
        let (group, column) = match plan.parity {
            Some(_) => (u32::from(seat.group), u32::from(seat.column)),
            None => (0, member),
        };
        extents.push(Extent {
            base,
            length,
            group,
            column,
            member,
            first_dbn: first,
        });
        base += length;
    }
    let journal = columns.journal;
    let blocks: u64 = extents.iter().map(|extent| extent.length).sum();
    let config = Config {
        member_index: 0,
        epoch: 1,
        compatible: 0,
        incompatible: match plan.parity {
            Some(_) => INCOMPATIBLE_SEATS | INCOMPATIBLE_PARITY,
            None if plan.copies > 1 => INCOMPATIBLE_SEATS,
            None => 0,
        },
        uuid: plan.uuid,
        secret: plan.secret,
        created_seconds: plan.created_seconds,
        area_blocks: plan.area_blocks,
        reserve_blocks: reserve_for(blocks, plan.area_blocks),
        journal,
        raid_log_blocks: columns.raid_log_blocks,
        name: plan.name.clone(),
        members,
        extents,
    };
    let superblock = Superblock {
        cp: CpNumber(0),
        uuid: plan.uuid,
        epoch: config.epoch,
        name: None,
        written_seconds: plan.created_seconds,
        clean: true,
        blocks_used: 0,
        areas_used: 0,
        frontiers: vec![0; config.extents.len()],
        next_file: everglade_format::metafile::FIRST_FILE,
        inode_file: FileSystem::empty_inode_file(CpNumber(0), plan.created_seconds),
        journal_generation: Position::FIRST.generation,
        journal_sequence: Position::FIRST.sequence,
    };
    let superblock = superblock.encode(&TagKey::new(&plan.secret));
    allocate_reserve(storage, devices, &config)?;
    write_journal(storage, devices, &config)?;
    write_raid_logs(storage, devices, &config)?;
    // Config records come last: a device without one was never part of an aggregate.
    for_each_label(storage, devices, |device, label| {
        storage.allocate(device, label, LABEL_BYTES)?;
        // Old contents of the device must not be taken for a damaged record.
        storage.write(
            device,
            label + CONFIG_OFFSETS[1 - config_slot(config.epoch)],
            &[0; CONFIG_BYTES],
        )?;
        storage.write(
            device,
            label + SUPERBLOCK_OFFSETS[superblock_slot(CpNumber(0))],
            &superblock,
        )
    })?;
    for_each_label(storage, devices, |device, label| {
        let member = devices
            .iter()
            .position(|d| *d == device)
            .expect("one of them");
        let member_index = u32::try_from(member).expect("few devices");
        let record = Config {
            member_index,
            ..config.clone()
        }
        .encode();
        storage.write(
            device,
            label + CONFIG_OFFSETS[config_slot(config.epoch)],
            &record,
        )
    })
}

/// Checks whether devices of these sizes in bytes are large enough for a new aggregate.
///
/// # Errors
/// The first device that is too small, with the least size that will do.
pub fn check_sizes(sizes: &[u64], plan: &Plan) -> Result<(), CreateError> {
    let is_small = |(index, size): &(usize, &u64)| **size < least_now(sizes, plan, *index);
    match sizes.iter().enumerate().find(is_small) {
        None => Ok(()),
        Some((device, bytes)) => Err(CreateError::TooSmall {
            device,
            bytes: *bytes,
            least: least_bytes(sizes, plan, device),
        }),
    }
}

/// Returns the least whole MiB that a device needs beside the others. Larger devices may come with
/// a journal, or a larger one, so the sizes of all drives of its column are raised until they are
/// enough for their own journal.
fn least_bytes(sizes: &[u64], plan: &Plan, index: usize) -> u64 {
    let mut sizes = sizes.to_vec();
    let together = plan.drives_together();
    let first = index / together * together;
    loop {
        let least = least_now(&sizes, plan, index);
        if sizes[index] >= least {
            return sizes[index];
        }
        for drive in &mut sizes[first..first + together] {
            *drive = least.next_multiple_of(1 << 20).max(*drive);
        }
    }
}

/// Returns the least size of a device in bytes, with the journal that devices of these sizes
/// get.
fn least_now(sizes: &[u64], plan: &Plan, index: usize) -> u64 {
    let columns = Columns::of(sizes, plan);
    columns.of_device(index).least(plan) * BLOCK_SIZE as u64
}

/// Returns the seat of a device.
fn seat_of(index: usize, plan: &Plan) -> Seat {
    let together = plan.drives_together();
    let small = |number: usize| u8::try_from(number).expect("few drives");
    let group = u16::try_from(index / together + 1).expect("few devices");
    let column = small(index % together);
    match plan.parity {
        Some(ParityPlan { drives, parity }) => {
            Seat::of_parity_group(group, column, small(drives - parity))
        }
        None if plan.copies == 1 => Seat::ALONE,
        None => Seat::of_mirror(group, column),
    }
}

/// The columns of a new aggregate: each is on one drive, or on the drives of a mirror. The columns
/// of a parity group are alike, so one stands for all.
struct Columns {
    columns: Vec<Column>,
    /// Devices of each.
    together: usize,
    journal: JournalRegion,
    raid_log_blocks: u64,
}

/// A column of a new aggregate.
struct Column {
    /// Blocks of its smallest drive.
    size_blocks: u64,
    /// Blocks of the journal and of the RAID log on it.
    log_blocks: u64,
    /// True if it has the journal and nothing else.
    is_journal_only: bool,
}

impl Columns {
    fn of(sizes: &[u64], plan: &Plan) -> Columns {
        let of_drives = |sizes: &[u64]| {
            sizes
                .iter()
                .min()
                .map_or(0, |size| size / BLOCK_SIZE as u64)
        };
        let together = plan.drives_together();
        let sizes: Vec<u64> = sizes.chunks(together).map(of_drives).collect();
        let only = plan.journal_device.map(|device| device / together);
        let log_column = only.unwrap_or(0);
        let smallest = sizes.iter().min().copied().unwrap_or(0);
        let raid_log_blocks = plan.parity.map_or(0, |_| raid_log_for(smallest));
        let journal = plan_journal(&sizes, plan, log_column);
        let columns = sizes.into_iter().enumerate();
        let columns = columns.map(|(index, size_blocks)| Column {
            size_blocks,
            log_blocks: match index == log_column {
                true => journal.blocks + raid_log_blocks,
                false => raid_log_blocks,
            },
            is_journal_only: only == Some(index),
        });
        Columns {
            columns: columns.collect(),
            together,
            journal,
            raid_log_blocks,
        }
    }

    fn of_device(&self, device: usize) -> &Column {
        &self.columns[device / self.together]
    }
}

impl Column {
    /// Returns the least number of blocks of a drive.
    fn least(&self, plan: &Plan) -> u64 {
        match self.is_journal_only {
            // Labels at both ends, the journal in between, no data.
            true => LABEL_BLOCKS * 2 + self.log_blocks,
            false => size_for(AREAS_LEAST, plan.area_blocks, self.log_blocks),
        }
    }

    /// Returns the region for data.
    fn region(&self, plan: &Plan) -> Option<(Dbn, u64)> {
        match self.is_journal_only {
            true => None,
            false => data_region(self.size_blocks, plan.area_blocks, self.log_blocks),
        }
    }
}

/// Bytes that the host of each device, of these sizes, must be able to give for a new aggregate:
/// labels, journal, the areas of the reserve, and an area for what clients write first.
#[must_use]
pub fn host_bytes(sizes: &[u64], plan: &Plan) -> Vec<u64> {
    let columns = Columns::of(sizes, plan);
    let lengths = columns.columns.iter();
    let lengths = lengths.map(|column| column.region(plan).map_or(0, |(_, length)| length));
    let lengths: Vec<u64> = lengths.collect();
    let data_columns = plan.parity.map_or(1, |it| (it.drives - it.parity) as u64);
    let total = lengths.iter().sum::<u64>() * data_columns;
    let with_data = lengths.iter().filter(|length| **length > 0);
    let extents = with_data.count() as u64 * data_columns;
    let reserve = reserve_for(total, plan.area_blocks);
    let areas = areas_of_reserve(reserve, plan.area_blocks, extents.max(1)) + 1;
    let bytes = (0..sizes.len()).map(|device| {
        let taken = (areas * plan.area_blocks).min(lengths[device / plan.drives_together()]);
        let blocks = 2 * LABEL_BLOCKS + columns.of_device(device).log_blocks + taken;
        blocks * BLOCK_SIZE as u64
    });
    bytes.collect()
}

/// Areas of each extent that the reserve of an empty pool takes, if it is `reserve` when the pool
/// is full.
fn areas_of_reserve(reserve: u64, area_blocks: u64, extents: u64) -> u64 {
    let areas = reserve.min(RESERVE_LEAST).div_ceil(area_blocks);
    areas.div_ceil(extents)
}

/// The place of the journal: behind the first label of each drive of its column. `sizes` are those
/// of the columns, in blocks.
fn plan_journal(sizes: &[u64], plan: &Plan, column: usize) -> JournalRegion {
    let own = match plan.journal_device {
        // The whole device may be journal.
        Some(_) => u64::MAX,
        None => sizes.get(column).copied().unwrap_or(0),
    };
    let data_columns = plan.parity.map_or(1, |it| (it.drives - it.parity) as u64);
    let total = sizes.iter().sum::<u64>() * data_columns;
    let half = plan
        .journal_half_blocks
        .unwrap_or_else(|| usual_half_blocks(total, own));
    if half == 0 {
        return JournalRegion::default();
    }
    JournalRegion {
        member: u32::try_from(column * plan.drives_together()).expect("few devices"),
        first: Dbn(LABEL_BLOCKS),
        blocks: half * 2,
    }
}

/// Writes zeroes to all of the journal, so that later writes there change contents only: no host
/// file system has to allocate or convert anything when a flush waits (docs/design/design.md §5).
fn write_journal(
    storage: &dyn Storage,
    devices: &[DeviceId],
    config: &Config,
) -> Result<(), CreateError> {
    let journal = &config.journal;
    if journal.blocks == 0 {
        return Ok(());
    }
    for member in config.journal_members() {
        let device = member as usize;
        let failed = |error| CreateError::Disk { device, error };
        let region = (journal.first, journal.blocks);
        zero_region(storage, devices[device], region).map_err(failed)?;
    }
    Ok(())
}

/// Does the same with the RAID logs.
fn write_raid_logs(
    storage: &dyn Storage,
    devices: &[DeviceId],
    config: &Config,
) -> Result<(), CreateError> {
    for (device, member) in (0..config.members.len()).zip(0..) {
        if config.parity_group_of(member).is_some() {
            let failed = |error| CreateError::Disk { device, error };
            let region = (config.raid_log_first(member), config.raid_log_blocks);
            zero_region(storage, devices[device], region).map_err(failed)?;
        }
    }
    Ok(())
}

/// Asks the host for the space of so many blocks of a device, and fills them with zeroes.
pub(crate) fn zero_region(
    storage: &dyn Storage,
    device: DeviceId,
    (first, blocks): (Dbn, u64),
) -> Result<(), DiskError> {
    const CHUNK: u64 = (1 << 20) / BLOCK_SIZE as u64;
    let bytes = |blocks: u64| blocks * BLOCK_SIZE as u64;
    let first = bytes(first.0);
    let zeroes = vec![0; usize::try_from(bytes(CHUNK)).expect("1 MiB")];
    storage.allocate(device, first, bytes(blocks))?;
    let mut block = 0;
    while block < blocks {
        let count = CHUNK.min(blocks - block);
        let chunk = &zeroes[..usize::try_from(bytes(count)).expect("1 MiB at most")];
        storage.write(device, first + bytes(block), chunk)?;
        block += count;
    }
    Ok(())
}

/// Asks the host for the space of the reserve: the first areas of each device, which take turns.
fn allocate_reserve(
    storage: &dyn Storage,
    devices: &[DeviceId],
    config: &Config,
) -> Result<(), CreateError> {
    let extents = config.extents.len() as u64;
    let areas = areas_of_reserve(config.reserve_blocks, config.area_blocks, extents);
    let bytes = |blocks: u64| blocks * BLOCK_SIZE as u64;
    for extent in &config.extents {
        let length = (areas * config.area_blocks).min(extent.length);
        let parity = config.parity_group_of(extent.member);
        let parity = parity.map_or(Vec::new(), |group| group.parity);
        for member in config.copies_of(extent.member).into_iter().chain(parity) {
            let index = member as usize;
            storage
                .allocate(devices[index], bytes(extent.first_dbn.0), bytes(length))
                .map_err(|error| CreateError::Disk {
                    device: index,
                    error,
                })?;
        }
    }
    Ok(())
}

fn refuse_labelled(
    storage: &dyn Storage,
    device: DeviceId,
    index: usize,
) -> Result<(), CreateError> {
    let is_labelled = has_label(storage, device).map_err(|error| CreateError::Disk {
        device: index,
        error,
    })?;
    match is_labelled {
        true => Err(CreateError::InUse(index)),
        false => Ok(()),
    }
}

/// True if a device has the label of an aggregate, whole or not.
pub(crate) fn has_label(storage: &dyn Storage, device: DeviceId) -> Result<bool, DiskError> {
    for label in label_offsets(storage.size_bytes(device)) {
        for slot in CONFIG_OFFSETS {
            let mut magic = [0; BLOCK_SIZE];
            storage.read(device, label + slot, &mut magic)?;
            if magic.starts_with(b"EVGLCONF") {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn for_each_label(
    storage: &dyn Storage,
    devices: &[DeviceId],
    mut act: impl FnMut(DeviceId, u64) -> Result<(), DiskError>,
) -> Result<(), CreateError> {
    for (index, device) in devices.iter().enumerate() {
        for label in label_offsets(storage.size_bytes(*device)) {
            act(*device, label).map_err(|error| CreateError::Disk {
                device: index,
                error,
            })?;
        }
        storage.flush(*device).map_err(|error| CreateError::Disk {
            device: index,
            error,
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device of the size that a refusal named was refused again, because it was large enough for
    /// a journal, and then too small beside it.
    #[test]
    fn a_device_of_the_least_size_is_large_enough() {
        const MIB: u64 = 1 << 20;
        let mut plan = Plan::new("a", [0; 16], Default::default(), Vec::new());
        let halves = [None, Some(0), Some(16), Some(100), Some(4096)];
        for half in halves.map(|half| half.map(|mib| mib * MIB / BLOCK_SIZE as u64)) {
            for others in [0, 1, 600, 900, 1100, 1200, 1300, 1700, 10_000, 1 << 20] {
                for (index, journal_device) in [(0, None), (1, None), (1, Some(1)), (0, Some(1))] {
                    plan.journal_half_blocks = half;
                    plan.journal_device = journal_device;
                    let mut sizes = [(600 + others) * MIB; 2];
                    sizes[index] = 0;
                    let least = least_bytes(&sizes, &plan, index);
                    let case = format!("{plan:?} {sizes:?} {index}: {least}");
                    sizes[index] = least;
                    assert!(least_now(&sizes, &plan, index) <= least, "{case}");
                    assert!(least.is_multiple_of(MIB), "{case}");
                }
            }
        }
        plan.journal_half_blocks = None;
        plan.journal_device = None;
        let refusal = check_sizes(&[MIB], &plan);
        let Err(CreateError::TooSmall {
            device: 0,
            bytes: MIB,
            least,
        }) = refusal
        else {
            panic!("{refusal:?}");
        };
        assert_eq!(check_sizes(&[least], &plan), Ok(()));
    }
}
