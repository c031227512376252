//! The devices that a request for an aggregate names, checked as far as possible without opening
//! them.
//!
//! A path is stored as it was given, because names such as `/dev/disk/by-id/…` are permanent. Two
//! paths are compared by the devices that they lead to, because one device has many names.

use std::fmt;
use std::fs::{self, Metadata};
use std::ops::RangeInclusive;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use everglade_api::{AddDevices, Code, CreateAggregate, Problem, ReplaceDrive};
use everglade_engine::{ParityPlan, Plan};
use everglade_format::geometry::AREA_BLOCKS;
use everglade_format::label::LABEL_BYTES;

use crate::config::{
    AGGREGATE_SIZE_DEFAULT, AGGREGATE_SIZE_MIN, BLOCK_BYTES, JOURNAL_HALF_MAX as HALF_MAX,
    JOURNAL_HALF_MIN as HALF_MIN, POOL_BYTES_MAX,
};
use crate::datadir::{AggregateState, Device, DeviceKind, Spare};
use crate::{DataDir, Size};

/// The usual half is at most this, so a directory for the journal alone is given room for two.
const HALF_USUAL_MAX: Size = Size::mib(256);
/// Longest path of a device. With the number of devices this bounds `state.toml`.
const PATH_BYTES_MAX: usize = 1024;
/// Smallest and largest allocation area of a device.
const AREA_MIN: Size = Size(1 << 20);
const AREA_MAX: Size = Size(AREA_BLOCKS * BLOCK_BYTES);
/// Devices of all aggregates together.
const DEVICES_MAX: usize = 256;
const NO_DEVICE: &str = "expected a directory, a regular file or a block device";
const FIELD: &str = "devices";
const JOURNAL_FIELD: &str = "journal_device";

/// The aggregate that a request asks for: its devices, and how it is made of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Devices in the order of the label's table. A device for the journal alone is the last.
    pub(super) devices: Vec<Device>,
    pub(super) shape: Shape,
}

/// How a new aggregate is made of its devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// Place and size of the journal.
    pub(super) journal: WantedJournal,
    /// How they protect each other.
    pub(super) protection: Protection,
    /// Blocks of an allocation area; `None` for the default.
    pub(super) area_blocks: Option<u64>,
}

impl Shape {
    /// No redundancy, and areas of the usual size.
    pub(super) fn plain(journal: WantedJournal) -> Shape {
        Shape {
            journal,
            protection: Protection::NONE,
            area_blocks: None,
        }
    }

    /// Gives this shape to the plan of an aggregate with so many devices.
    pub(super) fn apply(self, plan: &mut Plan, devices: usize) {
        plan.journal_half_blocks = self.journal.half_blocks;
        plan.journal_device = self.journal.has_device.then(|| devices - 1);
        plan.area_blocks = self.area_blocks.unwrap_or(plan.area_blocks);
        self.protection.apply(plan);
    }
}

/// How the devices of a new aggregate protect each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Protection {
    /// Drives of each group: 1 without redundancy.
    pub(super) drives: usize,
    /// Drives with parity of each group; 0 for a mirror.
    pub(super) parity: usize,
}

impl Protection {
    /// No redundancy.
    pub(super) const NONE: Protection = Protection {
        drives: 1,
        parity: 0,
    };

    /// Makes a plan one with this redundancy.
    fn apply(self, plan: &mut Plan) {
        let Protection { drives, parity } = self;
        match parity {
            0 => plan.copies = drives,
            parity => plan.parity = Some(ParityPlan { drives, parity }),
        }
    }

    /// Drives of a group whose capacity the aggregate has.
    pub(super) fn data(self) -> usize {
        match self.parity {
            0 => 1,
            parity => self.drives - parity,
        }
    }
}

/// The requested place and size of an aggregate's journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WantedJournal {
    /// Whether the last device is for the journal alone.
    pub(super) has_device: bool,
    /// Blocks of each half of the journal; `None` for the default.
    pub(super) half_blocks: Option<u64>,
}

/// Returns the size of a half in blocks, checked.
fn half_blocks(half: Option<Size>) -> Result<Option<u64>, String> {
    let is_fit = |bytes: u64| bytes.is_multiple_of(BLOCK_BYTES);
    let kind = format!("a multiple of {BLOCK_BYTES}");
    blocks_of(half, HALF_MIN..=HALF_MAX, is_fit, &kind)
}

/// Returns the size of an allocation area in blocks, checked.
fn area_blocks(area: Option<Size>) -> Result<Option<u64>, String> {
    blocks_of(
        area,
        AREA_MIN..=AREA_MAX,
        u64::is_power_of_two,
        "a power of two",
    )
}

/// Returns a size in blocks, if it is within bounds and of the right kind. The error says what is
/// possible.
fn blocks_of(
    size: Option<Size>,
    bounds: RangeInclusive<Size>,
    is_fit: impl Fn(u64) -> bool,
    kind: &str,
) -> Result<Option<u64>, String> {
    let Some(size) = size else {
        return Ok(None);
    };
    if is_fit(size.bytes()) && bounds.contains(&size) {
        return Ok(Some(size.bytes() / BLOCK_BYTES));
    }
    Err(format!(
        "{} is not possible; use {kind} from {} to {}",
        size.said(),
        bounds.start(),
        bounds.end()
    ))
}

/// Returns the device for the journal alone that the configuration names for the first start.
pub(super) fn journal_device(
    directory: &DataDir,
    path: &str,
    half: Option<u64>,
) -> Result<Device, Problem> {
    existing(directory, path, Some(journal_size(half))).map(|(device, _)| device)
}

/// Returns the size of a directory for the journal alone.
fn journal_size(half: Option<u64>) -> Size {
    let half = half.map_or(HALF_USUAL_MAX.bytes(), |blocks| blocks * BLOCK_BYTES);
    Size(2 * LABEL_BYTES + 2 * half)
}

/// The object that a path leads to: a block device by its number, else the file itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Identity {
    Block(u64),
    File(u64, u64),
}

impl Identity {
    fn of(metadata: &Metadata) -> Identity {
        if metadata.file_type().is_block_device() {
            Identity::Block(metadata.rdev())
        } else {
            Identity::File(metadata.dev(), metadata.ino())
        }
    }
}

/// Returns the devices that a request names. Sizes of files and block devices are left at 0.
pub(super) fn chosen(directory: &DataDir, request: &CreateAggregate) -> Result<Wanted, Problem> {
    let half = request.journal_half_bytes.map(Size);
    let half = half_blocks(half).map_err(|text| Problem::invalid("journal_half_bytes", text))?;
    let area = area_blocks(request.area_bytes.map(Size));
    let area_blocks = area.map_err(|text| Problem::invalid("area_bytes", text))?;
    let (mut devices, identities) = data_devices(directory, request)?;
    let journal = WantedJournal {
        has_device: request.journal_device.is_some(),
        half_blocks: half,
    };
    if let Some(path) = &request.journal_device {
        let size = Some(journal_size(half));
        let (device, identity) = existing(directory, path, size).map_err(of_journal)?;
        if identities.contains(&identity) {
            let text =
                format!("{path} is one of the other devices; leave it out, or choose another");
            return Err(Problem::invalid(JOURNAL_FIELD, text));
        }
        devices.push(device);
    }
    let small = |count: u64| usize::try_from(count).expect("few drives");
    let protection = Protection {
        drives: small(request.drives_of_group()),
        parity: small(request.raid.parity()),
    };
    let shape = Shape {
        journal,
        protection,
        area_blocks,
    };
    Ok(Wanted { devices, shape })
}

/// Returns the same problem, attributed to the journal's device.
fn of_journal(problem: Problem) -> Problem {
    Problem {
        field: Some(JOURNAL_FIELD.to_owned()),
        ..problem
    }
}

/// Returns the devices for data, in order, and their kinds.
fn data_devices(
    directory: &DataDir,
    request: &CreateAggregate,
) -> Result<(Vec<Device>, Vec<Identity>), Problem> {
    refuse_too_many(directory, request.devices.len().max(1))?;
    let size = request.size_bytes.map(Size);
    if let Some(size) = size {
        check_size(size)?;
    }
    if request.devices.is_empty() {
        let name = request.name.as_str();
        let size = size.unwrap_or(AGGREGATE_SIZE_DEFAULT);
        let remedy = "move it away or choose another name";
        return own(directory, name, size, remedy).map(|device| (vec![device], Vec::new()));
    }
    let (devices, identities) = all_existing(directory, &request.devices, size)?;
    refuse_too_large(devices.iter().map(|device| device.size_bytes))?;
    Ok((devices, identities))
}

/// Returns the devices that a request adds to an aggregate, to be recorded as joining. Sizes of
/// files and block devices are left at 0. Directories without a size get the `usual` one, if there
/// is one.
pub(super) fn added(
    directory: &DataDir,
    aggregate: &AggregateState,
    request: &AddDevices,
    usual: Option<Size>,
) -> Result<Vec<Device>, Problem> {
    refuse_too_many(directory, request.devices.len().max(1))?;
    let mut paths = request.devices.iter().map(Path::new);
    let takes_size = request.devices.is_empty() || paths.any(Path::is_dir);
    let usual = usual.filter(|_| takes_size);
    let size = request.size_bytes.map(Size).or(usual);
    if let Some(size) = size {
        check_size(size)?;
    }
    let mut devices = match (request.devices.as_slice(), size) {
        ([], Some(size)) => vec![own(directory, &aggregate.name, size, "move it away")?],
        ([], None) => {
            let text =
                "missing; name devices, or give a size for a directory in the data directory";
            return Err(Problem::of_field(Code::MissingField, FIELD, text));
        }
        (paths, size) => all_existing(directory, paths, size)?.0,
    };
    let present = aggregate.devices.iter().chain(&devices);
    refuse_too_large(present.map(|device| device.size_bytes))?;
    devices.iter_mut().for_each(|device| device.joining = true);
    Ok(devices)
}

/// Returns the device that is to get the place of `old`, to be recorded as joining. The size of a
/// file or block device is left at 0. It may be at the path of `old` if that is not there: another
/// disk was put into the same bay.
pub(super) fn successor(
    directory: &DataDir,
    (old, is_there): (&Device, bool),
    request: &ReplaceDrive,
) -> Result<Device, Problem> {
    let with = |problem: Problem| match problem.field.as_deref() {
        Some(FIELD) => Problem {
            field: Some("with".to_owned()),
            ..problem
        },
        _ => problem,
    };
    let identity_of = |path: &Path| fs::metadata(path).ok().map(|it| Identity::of(&it));
    let (path, own) = (Path::new(&request.with), directory.device_path(old));
    let is_itself = identity_of(path).is_some_and(|it| Some(it) == identity_of(&own));
    if is_there && (path == own || is_itself) {
        let text = format!(
            "{} is the drive that is to be replaced; to bring it up to date instead, start the \
            daemon again",
            request.with
        );
        return Err(Problem::of_field(Code::DeviceInUse, "with", text));
    }
    let given = request.size_bytes.map(Size);
    if let Some(size) = given {
        check_size(size)?;
    }
    let size = given.unwrap_or(Size(old.size_bytes));
    let spared = (!is_there).then_some(old);
    let found = existing_beside(directory, &request.with, Some(size), spared);
    let (device, _) = found.map_err(with)?;
    if given.is_some() && device.kind != DeviceKind::Directory {
        let text = "only a directory is given a size; files and block devices have one";
        return Err(Problem::invalid("size_bytes", text));
    }
    Ok(Device {
        joining: true,
        replaces: Some(old.path.clone()),
        ..device
    })
}

/// Returns the recorded device that a request names by its path, or by another path that leads to
/// the same device.
pub(super) fn named<'a>(
    directory: &DataDir,
    aggregate: &'a AggregateState,
    text: &str,
) -> Result<&'a Device, Problem> {
    let identity_of = |path: &Path| fs::metadata(path).ok().map(|it| Identity::of(&it));
    let wanted = identity_of(Path::new(text));
    let is_it = |device: &&Device| {
        let path = directory.device_path(device);
        path == Path::new(text) || wanted.is_some() && identity_of(&path) == wanted
    };
    aggregate.members().find(is_it).ok_or_else(|| {
        let text = format!(
            "{text:.80?} is no device of aggregate {}; choose one of {}",
            aggregate.name,
            paths(directory, aggregate.members())
        );
        Problem::invalid("device", text)
    })
}

/// Returns the device that is a directory, if there is exactly one.
pub(super) fn only_directory<'a>(
    directory: &DataDir,
    aggregate: &'a AggregateState,
) -> Result<&'a Device, Problem> {
    let is_directory = |device: &&Device| device.kind == DeviceKind::Directory;
    let directories: Vec<&Device> = aggregate.members().filter(is_directory).collect();
    let name = &aggregate.name;
    match directories.as_slice() {
        [only] => Ok(only),
        [] => {
            let text = format!(
                "aggregate {name} has no directory, and files and block devices have a size; make \
                one larger on the host, and leave the size out"
            );
            Err(Problem::invalid("size_bytes", text))
        }
        several => {
            let choice = paths(directory, several.iter().copied());
            let text = format!("missing, and aggregate {name} has several: choose one of {choice}");
            Err(Problem::of_field(Code::MissingField, "device", text))
        }
    }
}

fn paths<'a>(directory: &DataDir, devices: impl Iterator<Item = &'a Device>) -> String {
    let paths = devices.map(|device| directory.device_path(device));
    let paths: Vec<String> = paths.map(|path| path.display().to_string()).collect();
    paths.join(", ")
}

/// Checks the size that a directory of an aggregate is to have.
pub(super) fn check_new_size(
    aggregate: &AggregateState,
    device: &Device,
    size: Size,
) -> Result<(), Problem> {
    check_size(size)?;
    let others = aggregate.members().filter(|known| *known != device);
    let sizes = others.map(|known| known.size_bytes);
    refuse_too_large(sizes.chain([size.bytes()]))
}

fn refuse_too_many(directory: &DataDir, more: usize) -> Result<(), Problem> {
    let aggregates = directory.state().aggregates.iter();
    let in_use: usize = aggregates.map(|aggregate| aggregate.devices.len()).sum();
    let in_use = in_use + directory.state().spares.len();
    if in_use + more > DEVICES_MAX {
        let text = format!("there are {in_use} devices already; {DEVICES_MAX} are possible");
        return Err(Problem::new(Code::TooMany, text));
    }
    Ok(())
}

fn refuse_too_large(sizes: impl IntoIterator<Item = u64>) -> Result<(), Problem> {
    let total = sizes.into_iter().try_fold(0u64, u64::checked_add);
    if total.is_none_or(|total| total > POOL_BYTES_MAX.bytes()) {
        let text = format!("all devices together are larger than {POOL_BYTES_MAX}");
        return Err(Problem::invalid("size_bytes", text));
    }
    Ok(())
}

/// Returns the devices that a request names, and their kinds.
fn all_existing(
    directory: &DataDir,
    paths: &[String],
    size: Option<Size>,
) -> Result<(Vec<Device>, Vec<Identity>), Problem> {
    let mut devices = Vec::new();
    let mut identities = Vec::new();
    for path in paths {
        let (device, identity) = existing(directory, path, size)?;
        if identities.contains(&identity) {
            return Err(Problem::invalid(FIELD, format!("{path} is there twice")));
        }
        identities.push(identity);
        devices.push(device);
    }
    let is_directory = |device: &Device| device.kind == DeviceKind::Directory;
    if size.is_some() && !devices.iter().any(is_directory) {
        let text = "only directories are given a size; files and block devices have one";
        return Err(Problem::invalid("size_bytes", text));
    }
    Ok((devices, identities))
}

fn check_size(size: Size) -> Result<(), Problem> {
    let whole = size.bytes().is_multiple_of(BLOCK_BYTES);
    if whole && (AGGREGATE_SIZE_MIN..=POOL_BYTES_MAX).contains(&size) {
        return Ok(());
    }
    let text = format!(
        "{} is not possible; use a multiple of {BLOCK_BYTES} from {AGGREGATE_SIZE_MIN} to \
        {POOL_BYTES_MAX}",
        size.said()
    );
    Err(Problem::invalid("size_bytes", text))
}

/// Returns a directory device in the data directory, which must not exist yet. An aggregate that
/// was renamed keeps the folder of its first name, so the folder may be in use.
fn own(directory: &DataDir, name: &str, size: Size, remedy: &str) -> Result<Device, Problem> {
    let aggregates = directory.state().aggregates.iter();
    let used: Vec<_> = aggregates.flat_map(|known| &known.devices).collect();
    let numbered = |number| DataDir::directory_device(name, number, size.bytes());
    let mut devices = (0..).map(numbered);
    let device = devices
        .find(|device| used.iter().all(|known| known.path != device.path))
        .expect("there are more numbers than devices");
    let path = directory.device_path(&device);
    if fs::symlink_metadata(&path).is_ok() {
        let text = format!(
            "{} is there already, though no aggregate has it; {remedy}",
            path.display()
        );
        return Err(Problem::new(Code::WouldLoseData, text));
    }
    Ok(device)
}

/// Returns a device that the request names.
fn existing(
    directory: &DataDir,
    text: &str,
    size: Option<Size>,
) -> Result<(Device, Identity), Problem> {
    let found = existing_beside(directory, text, size, None)?;
    refuse_spare(directory, text, FIELD)?;
    Ok(found)
}

/// Returns the absolute path of a drive that is to be a spare. Its contents are not looked at,
/// except that a directory must be empty.
pub(super) fn spare(directory: &DataDir, text: &str) -> Result<Device, Problem> {
    // It is given a size when it is used.
    let found = existing_beside(directory, text, Some(AGGREGATE_SIZE_MIN), None);
    let (device, _) = found.map_err(of_the_only_field)?;
    refuse_spare(directory, text, FIELD).map_err(of_the_only_field)?;
    refuse_too_many(directory, 1)?;
    Ok(device)
}

/// Returns the problem of a request that names one device and nothing else.
pub(super) fn of_the_only_field(problem: Problem) -> Problem {
    Problem {
        field: None,
        ..problem
    }
}

/// Refuses a path that leads to a spare drive.
pub(super) fn refuse_spare(
    directory: &DataDir,
    text: &str,
    field: &'static str,
) -> Result<(), Problem> {
    match spare_at(directory, text) {
        Some(_) => {
            let text = format!(
                "{text} is a spare drive; to use it in another way, give it up first: everglade \
                aggregate spare remove {text}"
            );
            Err(Problem::of_field(Code::DeviceInUse, field, text))
        }
        None => Ok(()),
    }
}

/// Returns the number of the spare drive that a path leads to.
pub(super) fn spare_at(directory: &DataDir, text: &str) -> Option<usize> {
    let identity_of = |path: &Path| fs::metadata(path).ok().map(|it| Identity::of(&it));
    let path = Path::new(text);
    let wanted = identity_of(path);
    let is_it = |spare: &Spare| {
        spare.path == path || wanted.is_some() && identity_of(&spare.path) == wanted
    };
    directory.state().spares.iter().position(is_it)
}

/// The same. It may be where a recorded device was that is not there.
fn existing_beside(
    directory: &DataDir,
    text: &str,
    size: Option<Size>,
    spared: Option<&Device>,
) -> Result<(Device, Identity), Problem> {
    let (path, real, metadata) = look_up(text)?;
    let identity = Identity::of(&metadata);
    refuse_ours(directory, text, (&real, identity), spared)?;
    let kind = metadata.file_type();
    let (kind, size_bytes) = if kind.is_dir() {
        refuse_filled(text, &real)?;
        let missing = || {
            let text = format!("missing; {text} is a directory, which is given a size");
            Problem::of_field(Code::MissingField, "size_bytes", text)
        };
        (DeviceKind::Directory, size.ok_or_else(missing)?.bytes())
    } else if kind.is_file() {
        (DeviceKind::File, 0)
    } else if kind.is_block_device() {
        (DeviceKind::Block, 0)
    } else {
        return Err(unusable(text, &NO_DEVICE));
    };
    let device = Device {
        path,
        kind,
        size_bytes,
        joining: false,
        replaces: None,
        member: None,
    };
    Ok((device, identity))
}

/// Returns the devices that a request for an import names, with sizes of 0. Those of the aggregates
/// in `unavailable` may be named, because nobody has them open. A device below the data directory
/// is recorded by its path there, like those that the daemon makes.
pub(super) fn imported(
    directory: &DataDir,
    paths: &[String],
    unavailable: &[String],
) -> Result<Vec<Device>, Problem> {
    refuse_too_many(directory, paths.len())?;
    let mut identities = Vec::new();
    let mut devices = Vec::new();
    for text in paths {
        let (path, real, metadata) = look_up(text)?;
        let identity = Identity::of(&metadata);
        if identities.contains(&identity) {
            return Err(Problem::invalid(FIELD, format!("{text} is there twice")));
        }
        identities.push(identity);
        let aggregates = directory.state().aggregates.iter();
        let open = aggregates.filter(|it| !unavailable.contains(&it.name));
        refuse_used(directory, open, (text, identity), None)?;
        let kind = match metadata.file_type() {
            kind if kind.is_dir() => DeviceKind::Directory,
            kind if kind.is_file() => DeviceKind::File,
            kind if kind.is_block_device() => DeviceKind::Block,
            _ => return Err(unusable(text, &NO_DEVICE)),
        };
        let data = fs::canonicalize(directory.path()).ok();
        let own = data.and_then(|data| real.strip_prefix(data).ok().map(Path::to_owned));
        devices.push(Device {
            path: own
                .filter(|_| kind == DeviceKind::Directory)
                .unwrap_or(path),
            kind,
            size_bytes: 0,
            joining: false,
            replaces: None,
            member: None,
        });
    }
    Ok(devices)
}

/// Returns the path that a text is, the path without links, and what is there.
fn look_up(text: &str) -> Result<(PathBuf, PathBuf, Metadata), Problem> {
    let path = path_of(text)?;
    let real = fs::canonicalize(&path).map_err(|error| unusable(text, &error))?;
    let metadata = fs::metadata(&real).map_err(|error| unusable(text, &error))?;
    Ok((path, real, metadata))
}

fn unusable(text: &str, problem: &dyn fmt::Display) -> Problem {
    Problem::of_field(Code::DeviceUnusable, FIELD, format!("{text}: {problem}"))
}

/// Refuses a text that is no absolute path, or a long one.
fn path_of(text: &str) -> Result<PathBuf, Problem> {
    let path = PathBuf::from(text);
    if !path.is_absolute() || text.len() > PATH_BYTES_MAX || text.chars().any(char::is_control) {
        let text = format!(
            "{text:.80?} is not a path to a device; use an absolute one of at most \
            {PATH_BYTES_MAX} bytes"
        );
        return Err(Problem::invalid(FIELD, text));
    }
    Ok(path)
}

/// Refuses a device of one of these aggregates.
fn refuse_used<'a>(
    directory: &DataDir,
    aggregates: impl Iterator<Item = &'a AggregateState>,
    (text, identity): (&str, Identity),
    spared: Option<&Device>,
) -> Result<(), Problem> {
    for aggregate in aggregates {
        let others = aggregate.devices.iter();
        for device in others.filter(|device| spared != Some(*device)) {
            let known = fs::metadata(directory.device_path(device));
            if known.is_ok_and(|known| Identity::of(&known) == identity) {
                let text = format!("{text} is a device of aggregate {}", aggregate.name);
                return Err(Problem::of_field(Code::DeviceInUse, FIELD, text));
            }
        }
    }
    Ok(())
}

/// Refuses devices of an aggregate, devices in the data directory, and directories that contain it.
fn refuse_ours(
    directory: &DataDir,
    text: &str,
    (real, identity): (&Path, Identity),
    spared: Option<&Device>,
) -> Result<(), Problem> {
    let aggregates = directory.state().aggregates.iter();
    refuse_used(directory, aggregates, (text, identity), spared)?;
    let data = fs::canonicalize(directory.path());
    if data.is_ok_and(|data| real.starts_with(&data) || data.starts_with(real)) {
        let text = format!("{text} belongs to the data directory of this daemon");
        return Err(Problem::of_field(Code::DeviceInUse, FIELD, text));
    }
    Ok(())
}

/// Refuses a directory that has files, because a directory device uses it alone; a fresh file
/// system's `lost+found` does not count.
fn refuse_filled(text: &str, real: &Path) -> Result<(), Problem> {
    let unusable = |error: std::io::Error| unusable(text, &error);
    for entry in fs::read_dir(real).map_err(unusable)? {
        let name = entry.map_err(unusable)?.file_name();
        if name == "DEVICE" {
            let text = format!("{text} is a device of an aggregate already");
            return Err(Problem::of_field(Code::DeviceInUse, FIELD, text));
        }
        if name != "lost+found" {
            let text = format!("{text} is not empty ({name:?}); choose an empty directory");
            return Err(Problem::of_field(Code::WouldLoseData, FIELD, text));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use everglade_api::Raid;

    use super::*;
    use crate::datadir::{AggregateState, Phase, State, Uuid};

    const GIB: u64 = 1 << 30;

    struct Bench {
        keep: tempfile::TempDir,
        directory: DataDir,
    }

    impl Bench {
        fn new() -> Bench {
            let keep = tempfile::tempdir().expect("a temporary directory");
            let directory = DataDir::open(&keep.path().join("data")).expect("a data directory");
            Bench { keep, directory }
        }

        fn path(&self, name: &str) -> String {
            let path = self.keep.path().join(name);
            path.to_str().expect("UTF-8").to_owned()
        }

        fn file(&self, name: &str) -> String {
            fs::write(self.path(name), "").expect("write");
            self.path(name)
        }

        fn folder(&self, name: &str) -> String {
            fs::create_dir(self.path(name)).expect("create");
            self.path(name)
        }

        fn choose(
            &self,
            devices: &[&str],
            size_bytes: Option<u64>,
        ) -> Result<Vec<Device>, Problem> {
            let request = CreateAggregate {
                name: "a".parse().expect("a name"),
                raid: Raid::None,
                group_size: None,
                devices: devices.iter().map(|path| (*path).to_owned()).collect(),
                size_bytes,
                journal_device: None,
                journal_half_bytes: None,
                area_bytes: None,
                discard_contents: false,
                dry_run: false,
            };
            chosen(&self.directory, &request).map(|wanted| wanted.devices)
        }

        fn refusal(&self, devices: &[&str], size_bytes: Option<u64>) -> Problem {
            let outcome = self.choose(devices, size_bytes);
            outcome.expect_err("a refusal")
        }
    }

    #[test]
    fn the_size_of_areas_has_bounds() {
        assert_eq!(area_blocks(None), Ok(None));
        assert_eq!(area_blocks(Some(AREA_MIN)), Ok(Some(256)));
        assert_eq!(area_blocks(Some(Size::mib(16))), Ok(Some(4096)));
        assert_eq!(area_blocks(Some(AREA_MAX)), Ok(Some(AREA_BLOCKS)));
        for wrong in [Size(0), Size(512 << 10), Size::mib(3), Size::mib(256)] {
            let error = area_blocks(Some(wrong)).expect_err("out of bounds");
            assert!(
                error.ends_with("a power of two from 1.0 MiB to 128.0 MiB"),
                "{error}"
            );
        }
    }

    #[test]
    fn no_device_means_a_directory_of_our_own() {
        let bench = Bench::new();
        let devices = bench.choose(&[], None).expect("chosen");
        assert_eq!(devices[0].path, Path::new("aggregates/a/dev0"));
        assert_eq!(devices[0].size_bytes, 64 * GIB);
        fs::create_dir_all(bench.path("data/aggregates/a/dev0")).expect("create");
        assert_eq!(bench.refusal(&[], None).code, Code::WouldLoseData);
    }

    #[test]
    fn kinds_are_told_apart() {
        let bench = Bench::new();
        let (file, folder) = (bench.file("f"), bench.folder("d"));
        fs::create_dir(bench.path("d/lost+found")).expect("create");
        let devices = bench.choose(&[&file, &folder], Some(GIB)).expect("chosen");
        let kinds: Vec<_> = devices.iter().map(|device| device.kind).collect();
        assert_eq!(kinds, [DeviceKind::File, DeviceKind::Directory]);
        assert_eq!(devices[1].size_bytes, GIB);
        assert_eq!(
            bench.refusal(&["/dev/null"], None).code,
            Code::DeviceUnusable
        );
        let problem = bench.refusal(&[&bench.path("nothing")], None);
        assert_eq!(problem.code, Code::DeviceUnusable);
    }

    #[test]
    fn sizes_are_for_directories_and_have_bounds() {
        let bench = Bench::new();
        let (file, folder) = (bench.file("f"), bench.folder("d"));
        assert_eq!(bench.refusal(&[&folder], None).code, Code::MissingField);
        assert_eq!(bench.refusal(&[&file], Some(GIB)).code, Code::InvalidValue);
        for size in [0, 1, GIB - 4096, GIB + 1, u64::MAX, (1 << 52) + 4096] {
            let problem = bench.refusal(&[&folder], Some(size));
            assert_eq!(problem.field.as_deref(), Some("size_bytes"), "{size}");
        }
        let other = bench.folder("e");
        let problem = bench.refusal(&[&folder, &other], Some(1 << 52));
        assert!(problem.to_string().contains("together"), "{problem}");
    }

    #[test]
    fn a_device_is_known_by_every_name_it_has() {
        let mut bench = Bench::new();
        let file = bench.file("f");
        let (hard, soft) = (bench.path("hard"), bench.path("soft"));
        fs::hard_link(&file, &hard).expect("a link");
        std::os::unix::fs::symlink(&file, &soft).expect("a link");
        for other in [&file, &hard, &soft] {
            let problem = bench.refusal(&[&file, other], None);
            assert!(problem.to_string().contains("twice"), "{problem}");
        }
        let devices = bench.choose(&[&file], None).expect("chosen");
        let devices = devices.into_iter().map(|device| Device {
            size_bytes: GIB,
            ..device
        });
        let aggregate = AggregateState {
            name: "b".to_owned(),
            phase: Phase::Ready,
            read_only: false,
            garden_paused: false,
            epoch: 1,
            uuid: Some(Uuid([1; 16])),
            devices: devices.collect(),
        };
        let state = State {
            aggregates: vec![aggregate],
            spares: Vec::new(),
        };
        bench.directory.record(state).expect("recorded");
        for name in [&file, &hard, &soft] {
            let problem = bench.refusal(&[name], None);
            assert_eq!(problem.code, Code::DeviceInUse);
            assert!(problem.to_string().contains("aggregate b"), "{problem}");
        }
    }

    #[test]
    fn devices_are_added_beside_those_that_are_there() {
        let bench = Bench::new();
        let (file, folder) = (bench.file("f"), bench.folder("d"));
        let own = |number| DataDir::directory_device("a", number, GIB);
        let aggregate = AggregateState {
            name: "a".to_owned(),
            phase: Phase::Ready,
            read_only: false,
            garden_paused: false,
            epoch: 1,
            uuid: Some(Uuid([1; 16])),
            devices: vec![own(0)],
        };
        let add = |devices: &[&str], size_bytes| {
            let request = AddDevices {
                devices: devices.iter().map(|path| (*path).to_owned()).collect(),
                size_bytes,
                group: None,
                parity: false,
                discard_contents: false,
                dry_run: false,
            };
            added(&bench.directory, &aggregate, &request, None)
        };
        let devices = add(&[&file, &folder], Some(GIB)).expect("chosen");
        assert!(devices.iter().all(|device| device.joining));
        assert_eq!(devices[1].size_bytes, GIB);
        assert_eq!(
            add(&[&folder], None).expect_err("no size").code,
            Code::MissingField
        );
        assert_eq!(
            add(&[&file], Some(GIB)).expect_err("a size").code,
            Code::InvalidValue
        );
        let nothing = add(&[], None).expect_err("nothing");
        assert_eq!(nothing.field.as_deref(), Some("devices"));
        let twice = add(&[&file, &file], None).expect_err("doubled");
        assert!(twice.to_string().contains("twice"), "{twice}");
        let large = add(&[&folder], Some(1 << 52)).expect_err("too large");
        assert!(large.to_string().contains("together"), "{large}");
        check_new_size(&aggregate, &own(0), Size(1 << 52)).expect("alone it may be so large");
        let uneven = check_new_size(&aggregate, &own(0), Size(GIB + 1));
        assert_eq!(uneven.expect_err("not whole").code, Code::InvalidValue);
    }

    #[test]
    fn a_device_of_an_aggregate_is_named_by_any_path_that_leads_to_it() {
        let bench = Bench::new();
        let (file, soft) = (bench.file("f"), bench.path("soft"));
        std::os::unix::fs::symlink(&file, &soft).expect("a link");
        let devices = bench.choose(&[&file], None).expect("chosen");
        let member = Device {
            size_bytes: GIB,
            ..devices[0].clone()
        };
        let joining = Device {
            path: bench.file("g").into(),
            joining: true,
            replaces: None,
            member: None,
            ..member.clone()
        };
        let aggregate = AggregateState {
            name: "a".to_owned(),
            phase: Phase::Ready,
            read_only: false,
            garden_paused: false,
            epoch: 1,
            uuid: Some(Uuid([1; 16])),
            devices: vec![member.clone(), joining],
        };
        let find = |path: &str| named(&bench.directory, &aggregate, path);
        assert_eq!(find(&file), Ok(&member));
        assert_eq!(find(&soft), Ok(&member));
        for other in [&bench.path("g"), &bench.path("nix"), ""] {
            let problem = find(other).expect_err("no member");
            assert_eq!(problem.field.as_deref(), Some("device"));
            assert!(problem.to_string().contains(&file), "{problem}");
        }
    }

    #[test]
    fn our_own_directory_and_filled_ones_are_refused() {
        let bench = Bench::new();
        for inside in ["data/FORMAT", "data", "data/run", "data/../data/LOCK"] {
            let problem = bench.refusal(&[&bench.path(inside)], None);
            assert_eq!(problem.code, Code::DeviceInUse, "{inside}");
        }
        assert_eq!(bench.refusal(&["/"], Some(GIB)).code, Code::DeviceInUse);
        let folder = bench.folder("d");
        bench.file("d/thesis.tex");
        let problem = bench.refusal(&[&folder], Some(GIB));
        assert_eq!(problem.code, Code::WouldLoseData);
        let long = format!("/{}", "x".repeat(1100));
        for bad in ["", "relative", "../x", "/dev/\nsda", "/dev/\0", &long] {
            let problem = bench.refusal(&[bad], None);
            assert_eq!(problem.code, Code::InvalidValue, "{bad:?}");
        }
    }
}
