//! Configuration: flag > environment > file > default (docs/reference/conventions.md#running).
//!
//! Each source becomes one [`Settings`], which has only the values that the source sets.
//! [`Config::resolve`] combines the sources, fills in defaults, and checks every value and every
//! relation between values. So every [`Config`] can be served. Nothing here touches the data
//! directory.

pub mod ablation;
pub mod address;
pub mod api;
pub mod callers;
pub mod error;
pub mod file;
pub mod iscsi;
pub mod machine;
pub mod nbd;
pub mod nvme;
pub mod pattern;
pub mod pinning;
pub mod place;
pub mod rollback;
pub mod show;
pub mod suggest;
mod switch;
mod window;

#[cfg(test)]
mod tests;

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

pub use ablation::Ablation;
pub use address::{TcpListen, UnixListen};
pub use api::ApiTcp;
pub use callers::{Callers, Origin, Rules, Tls, TlsClients};
pub use error::ConfigError;
pub use iscsi::{Iscsi, IscsiSettings};
pub use nbd::{Nbd, NbdSettings};
pub use nvme::{Nvme, NvmeSettings};
pub use pattern::Pattern;
pub use pinning::Pinning;
pub use rollback::AcceptRollback;
pub use switch::Switch;
pub use window::Window;

use everglade_api::openapi::Role;
use everglade_api::{DEFAULT_POLICY, Name, Raid};

use crate::{Interval, Size};

/// Place of the REST interface's socket in the data directory.
const API_SOCKET: &str = "run/api.sock";
/// Limit of all memory. Below 256 MiB the fixed shares of docs/design/design.md §12 do not fit.
const MEMORY_DEFAULT: Size = Size::gib(1);
const MEMORY_MIN: Size = Size::mib(256);
/// Default limit of reactors. More reactors gained nothing in measurements, and the tree of
/// affinities is sized for this number.
const REACTORS_DEFAULT_MAX: usize = 8;
const REACTORS_MAX: usize = 64;
/// A week.
const DRIVE_TIMEOUT_DEFAULT: Interval = Interval::seconds(30);
/// A drive of a group that takes so long is slow, and not dead.
const DRIVE_TIMEOUT_MIN: Interval = Interval::seconds(1);
const DRIVE_TIMEOUT_MAX: Interval = Interval::seconds(3600);
const SCRUB_INTERVAL_DEFAULT: Interval = Interval::seconds(7 * 86_400);
/// A year.
const SCRUB_INTERVAL_MAX: Interval = Interval::seconds(365 * 86_400);
const TRASH_KEEP_DEFAULT: Interval = Interval::seconds(86_400);
/// A year.
const TRASH_KEEP_MAX: Interval = Interval::seconds(365 * 86_400);
const CP_INTERVAL_DEFAULT: Interval = Interval::seconds(10);
const CP_INTERVAL_MIN: Interval = Interval::millis(100);
const CP_INTERVAL_MAX: Interval = Interval::seconds(3600);
pub(crate) const AGGREGATE_SIZE_DEFAULT: Size = Size::gib(64);
/// Below this the reserve, the label and the areas leave nothing to sell.
pub(crate) const AGGREGATE_SIZE_MIN: Size = Size::gib(1);
const LUN_SIZE_DEFAULT: Size = Size::gib(16);
/// Block numbers have 40 bits on media (docs/design/design.md §4): 2^40 blocks of 4 KiB.
pub(crate) const POOL_BYTES_MAX: Size = Size(1 << 52);
pub(crate) const BLOCK_BYTES: u64 = 4096;
/// Bounds of one half of a journal (docs/reference/conventions.md#defaults, and room for more).
pub(crate) const JOURNAL_HALF_MIN: Size = Size::mib(16);
pub(crate) const JOURNAL_HALF_MAX: Size = Size::gib(4);
/// The kernel's `sun_path` less its final zero byte.
pub const SOCKET_PATH_BYTES_MAX: usize = 107;

/// The method of device I/O.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IoMode {
    /// io_uring if the kernel allows it, else threads.
    #[default]
    Auto,
    /// io_uring or no start.
    Uring,
    /// Worker threads, for kernels and containers that forbid io_uring.
    Threads,
}

impl FromStr for IoMode {
    type Err = String;

    fn from_str(text: &str) -> Result<IoMode, String> {
        match text {
            "auto" => Ok(IoMode::Auto),
            "uring" => Ok(IoMode::Uring),
            "threads" => Ok(IoMode::Threads),
            _ => Err(format!(
                "'{text}' is not a way to do I/O; expected auto, uring or threads"
            )),
        }
    }
}

impl From<IoMode> for everglade_env::IoMode {
    fn from(mode: IoMode) -> everglade_env::IoMode {
        match mode {
            IoMode::Auto => everglade_env::IoMode::Auto,
            IoMode::Uring => everglade_env::IoMode::Uring,
            IoMode::Threads => everglade_env::IoMode::Threads,
        }
    }
}

impl fmt::Display for IoMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            IoMode::Auto => "auto",
            IoMode::Uring => "uring",
            IoMode::Threads => "threads",
        })
    }
}

/// The settings of one source. `None` means that it says nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The data directory.
    pub data_dir: Option<PathBuf>,
    /// Cap for everything the process allocates.
    pub memory: Option<Size>,
    /// Data plane threads.
    pub reactors: Option<usize>,
    /// Whether each reactor is pinned to its own processor.
    pub pin: Option<Pinning>,
    /// The method of device I/O.
    pub io: Option<IoMode>,
    /// The NBD server.
    pub nbd: NbdSettings,
    /// The iSCSI server.
    pub iscsi: IscsiSettings,
    /// The NVMe/TCP server.
    pub nvme: NvmeSettings,
    /// REST over a Unix socket.
    pub api_unix: Option<UnixListen>,
    /// REST over TCP.
    pub api_tcp: Option<TcpListen>,
    /// File of the tokens for REST over TCP.
    pub api_tokens: Option<PathBuf>,
    /// Folder of the certificates for REST over TCP.
    pub api_tls_certificates: Option<PathBuf>,
    /// What browsers of this machine may do in the console without a token.
    pub console_loopback: Option<Role>,
    /// Metrics and health over TCP.
    pub metrics_tcp: Option<TcpListen>,
    /// A device for the journal alone, at first start.
    pub journal_device: Option<PathBuf>,
    /// Size of each half of the journal, at first start.
    pub journal_half_size: Option<Size>,
    /// Devices of the aggregate made at first start; `none` alone: none is made.
    pub devices: Vec<PathBuf>,
    /// How they protect each other.
    pub raid: Option<Raid>,
    /// How many of them are in a group.
    pub group_size: Option<u64>,
    /// Size of the aggregate made at first start.
    pub aggregate_size: Option<Size>,
    /// Size of the LUN made at first start.
    pub lun_size: Option<Size>,
    /// Longest time between consistency points while there is something to write.
    pub cp_interval: Option<Interval>,
    /// How long an operation on a drive may take, if another drive has the same blocks.
    pub drive_timeout: Option<Interval>,
    /// Time from the beginning of a scrub to that of the next one; 0 for never.
    pub scrub_interval: Option<Interval>,
    /// How long deleted objects can come back; 0 for not at all.
    pub trash_keep: Option<Interval>,
    /// A parity group that has no free area empties its emptiest one before writing there.
    pub garden_on_demand: Option<Switch>,
    /// What clients read in order, and does not lie in order, is put in order.
    pub garden_write_after_read: Option<Switch>,
    /// When blocks may be moved by gardening.
    pub garden_window: Option<Window>,
    /// Snapshot policy of new volumes.
    pub snapshot_policy: Option<Name>,
    /// Older copies of devices that the administrator accepts. Flags only.
    pub accept_rollback: Vec<AcceptRollback>,
    /// Mirrors that are opened although drives are missing that may have newer data. Not in the
    /// file, because this is meant for one start.
    pub degraded: Vec<Name>,
}

impl Settings {
    /// Returns the settings of `self`, and those of `lower` where `self` has none.
    #[must_use]
    pub fn over(self, lower: Settings) -> Settings {
        Settings {
            data_dir: self.data_dir.or(lower.data_dir),
            memory: self.memory.or(lower.memory),
            reactors: self.reactors.or(lower.reactors),
            pin: self.pin.or(lower.pin),
            io: self.io.or(lower.io),
            nbd: self.nbd.over(lower.nbd),
            iscsi: self.iscsi.over(lower.iscsi),
            nvme: self.nvme.over(lower.nvme),
            api_unix: self.api_unix.or(lower.api_unix),
            api_tcp: self.api_tcp.or(lower.api_tcp),
            api_tokens: self.api_tokens.or(lower.api_tokens),
            api_tls_certificates: self.api_tls_certificates.or(lower.api_tls_certificates),
            console_loopback: self.console_loopback.or(lower.console_loopback),
            metrics_tcp: self.metrics_tcp.or(lower.metrics_tcp),
            journal_device: self.journal_device.or(lower.journal_device),
            journal_half_size: self.journal_half_size.or(lower.journal_half_size),
            devices: match self.devices.is_empty() {
                true => lower.devices,
                false => self.devices,
            },
            raid: self.raid.or(lower.raid),
            group_size: self.group_size.or(lower.group_size),
            aggregate_size: self.aggregate_size.or(lower.aggregate_size),
            lun_size: self.lun_size.or(lower.lun_size),
            cp_interval: self.cp_interval.or(lower.cp_interval),
            drive_timeout: self.drive_timeout.or(lower.drive_timeout),
            scrub_interval: self.scrub_interval.or(lower.scrub_interval),
            trash_keep: self.trash_keep.or(lower.trash_keep),
            garden_on_demand: self.garden_on_demand.or(lower.garden_on_demand),
            garden_write_after_read: self
                .garden_write_after_read
                .or(lower.garden_write_after_read),
            garden_window: self.garden_window.or(lower.garden_window),
            snapshot_policy: self.snapshot_policy.or(lower.snapshot_policy),
            accept_rollback: self.accept_rollback,
            degraded: self.degraded,
        }
    }
}

/// The complete and checked configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Absolute.
    pub data_dir: PathBuf,
    /// Cap for everything the process allocates.
    pub memory: Size,
    /// Number of data plane threads, at least one.
    pub reactors: usize,
    /// Whether each reactor is pinned to its own processor.
    pub pin: Pinning,
    /// The method of device I/O.
    pub io: IoMode,
    /// The NBD server.
    pub nbd: Nbd,
    /// The iSCSI server.
    pub iscsi: Iscsi,
    /// The NVMe/TCP server.
    pub nvme: Nvme,
    /// Socket of the REST interface: absolute, short enough for the kernel. `None`: administration
    /// is off.
    pub api_unix: Option<PathBuf>,
    /// REST over TCP. `None`: administration from other machines is off.
    pub api_tcp: Option<ApiTcp>,
    /// Metrics and health.
    pub metrics: Metrics,
    /// Longest time between consistency points while there is something to write.
    pub cp_interval: Interval,
    /// How long an operation on a drive may take, if another drive has the same blocks.
    pub drive_timeout: Interval,
    /// Time from the beginning of a scrub to that of the next one; 0 for never.
    pub scrub_interval: Interval,
    /// How long deleted LUNs and volumes can come back; 0 for not at all.
    pub trash_keep: Interval,
    /// A parity group that has no free area empties its emptiest one before writing there.
    pub garden_on_demand: Switch,
    /// What clients read in order, and does not lie in order, is put in order.
    pub garden_write_after_read: Switch,
    /// When blocks may be moved by gardening.
    pub garden_window: Window,
    /// Snapshot policy of new volumes, including the volume of the first start; or `none`.
    pub snapshot_policy: String,
    /// The objects that a first start creates.
    pub first_start: FirstStart,
    /// Older copies of devices that the administrator accepts.
    pub accept_rollback: Vec<AcceptRollback>,
    /// Mirrors that are opened although drives are missing that may have newer data.
    pub degraded: Vec<Name>,
    /// Mechanisms that are switched off, for benchmarks.
    pub ablations: Vec<Ablation>,
}

impl Config {
    /// Returns the options with which other commands find a daemon of this configuration, each
    /// with a space behind it and quoted for a shell. Empty if they find it by themselves.
    #[must_use]
    pub fn options_of_clients(&self) -> String {
        let usual = self.data_dir.join(API_SOCKET);
        match &self.api_unix {
            Some(socket) if *socket != usual => format!("--socket {} ", place::quoted(socket)),
            _ if place::data_dir().is_ok_and(|usual| usual == self.data_dir) => String::new(),
            _ => format!("--data-dir {} ", place::quoted(&self.data_dir)),
        }
    }

    /// Returns whether browsers of this machine see the console without a token.
    #[must_use]
    pub fn has_open_console(&self) -> bool {
        let api = self.api_tcp.as_ref();
        api.is_some_and(|api| api.console_loopback.is_some())
    }

    /// Returns the same configuration without listeners.
    #[must_use]
    pub fn without_doors(&self) -> Config {
        Config {
            nbd: self.nbd.shut(),
            iscsi: self.iscsi.shut(),
            nvme: self.nvme.shut(),
            api_unix: None,
            api_tcp: None,
            metrics: Metrics {
                tcp: None,
                ..self.metrics
            },
            ..self.clone()
        }
    }
}

/// Metrics and health.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metrics {
    /// TCP address; port 0 lets the kernel choose. `None`: off.
    pub tcp: Option<SocketAddr>,
    /// The address is a default, so a start continues without it if it is taken.
    pub is_default: bool,
}

/// The journal of an aggregate about to be made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Journal {
    /// A device for it alone; text, because it goes into records.
    pub device: Option<String>,
    /// Size of each half.
    pub half_size: Option<Size>,
}

/// Where a first start makes the aggregate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FirstDevices {
    /// In a directory of the data directory.
    Own,
    /// On these devices.
    Given {
        /// Absolute paths; text, because it goes into records.
        paths: Vec<String>,
        /// How they protect each other.
        raid: Raid,
        /// How many of them are in a group, if somebody said so.
        group_size: Option<u64>,
    },
    /// Nowhere: the daemon waits for an aggregate to be made or imported.
    None,
}

/// The objects that a first start creates (docs/reference/conventions.md#first-start).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstStart {
    /// Name of the aggregate.
    pub aggregate: String,
    /// Where it is made.
    pub devices: FirstDevices,
    /// Its size, or that of each of its directories, thin.
    pub aggregate_size: Size,
    /// Somebody chose this size; it is not the default.
    pub is_size_chosen: bool,
    /// Name of the volume.
    pub volume: String,
    /// Name of the LUN in the volume.
    pub lun: String,
    /// Its size, thin; may exceed the aggregate's.
    pub lun_size: Size,
    /// The aggregate's journal.
    pub journal: Journal,
}

impl Config {
    /// Lays `settings` (flags over environment) over the file, fills in defaults, checks.
    ///
    /// Reads `file` if it is given. Otherwise reads the file at the default place, if it exists.
    ///
    /// # Errors
    /// The first value that cannot be used, naming its key.
    pub fn resolve(settings: Settings, file: Option<&Path>) -> Result<Config, ConfigError> {
        let from_file = match file {
            Some(path) => file::read(path)?,
            None => match place::config_file() {
                Some(path) if path.exists() => file::read(&path)?,
                _ => Settings::default(),
            },
        };
        Config::complete(settings.over(from_file))
    }

    /// Defaults and checks.
    fn complete(settings: Settings) -> Result<Config, ConfigError> {
        let api_tcp = ApiTcp::complete(&settings)?;
        let data_dir = match settings.data_dir {
            Some(path) => place::absolute(path)?,
            None => place::data_dir()?,
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let nbd = settings.nbd.complete(&data_dir)?;
        let iscsi = settings.iscsi.complete()?;
        let nvme = settings.nvme.complete()?;
        if nbd.tcp.is_none() && nbd.unix.is_none() && iscsi.tcp.is_none() && nvme.tcp.is_none() {
            return Err(ConfigError::NothingToServe);
        }
        let api_unix = unix_socket("--api-unix", settings.api_unix, &data_dir, API_SOCKET)?;
        let metrics = Metrics {
            tcp: match settings.metrics_tcp.unwrap_or(TcpListen::DEFAULT_METRICS) {
                TcpListen::Off => None,
                TcpListen::At(address) => Some(address),
            },
            is_default: settings.metrics_tcp.is_none(),
        };
        let journal = journal(settings.journal_device, settings.journal_half_size)?;
        Ok(Config {
            ablations: Vec::new(),
            memory: memory(settings.memory)?,
            reactors: in_range(
                "reactors",
                settings
                    .reactors
                    .unwrap_or_else(|| cores.min(REACTORS_DEFAULT_MAX)),
                1..=REACTORS_MAX,
            )?,
            pin: settings.pin.unwrap_or_default(),
            io: settings.io.unwrap_or_default(),
            nbd,
            iscsi,
            nvme,
            api_unix,
            api_tcp,
            metrics,
            cp_interval: in_range(
                "cp.interval",
                settings.cp_interval.unwrap_or(CP_INTERVAL_DEFAULT),
                CP_INTERVAL_MIN..=CP_INTERVAL_MAX,
            )?,
            trash_keep: in_range(
                "trash.keep",
                settings.trash_keep.unwrap_or(TRASH_KEEP_DEFAULT),
                Interval::seconds(0)..=TRASH_KEEP_MAX,
            )?,
            drive_timeout: in_range(
                "drive.timeout",
                settings.drive_timeout.unwrap_or(DRIVE_TIMEOUT_DEFAULT),
                DRIVE_TIMEOUT_MIN..=DRIVE_TIMEOUT_MAX,
            )?,
            scrub_interval: in_range(
                "scrub.interval",
                settings.scrub_interval.unwrap_or(SCRUB_INTERVAL_DEFAULT),
                Interval::seconds(0)..=SCRUB_INTERVAL_MAX,
            )?,
            garden_on_demand: settings.garden_on_demand.unwrap_or_default(),
            garden_write_after_read: settings.garden_write_after_read.unwrap_or(Switch::On),
            garden_window: settings.garden_window.unwrap_or(Window::ALWAYS),
            snapshot_policy: settings
                .snapshot_policy
                .map_or_else(|| DEFAULT_POLICY.to_owned(), |name| name.to_string()),
            first_start: first_start(
                first_devices(settings.devices, settings.raid, settings.group_size)?,
                (settings.aggregate_size, settings.lun_size),
                journal,
            )?,
            accept_rollback: settings.accept_rollback,
            degraded: settings.degraded,
            data_dir,
        })
    }
}

fn journal(device: Option<PathBuf>, half_size: Option<Size>) -> Result<Journal, ConfigError> {
    let device = device.map(|path| recordable("journal.device", path));
    let device = device.transpose()?;
    let half_size = match half_size {
        None => None,
        Some(half) => Some(in_range(
            "journal.half_size",
            whole_blocks("journal.half_size", half)?,
            JOURNAL_HALF_MIN..=JOURNAL_HALF_MAX,
        )?),
    };
    Ok(Journal { device, half_size })
}

/// Returns an absolute path as text for a record.
fn recordable(key: &'static str, path: PathBuf) -> Result<String, ConfigError> {
    let text = place::absolute(path)?.into_os_string().into_string();
    text.map_err(|path| ConfigError::OutOfRange {
        key: key.into(),
        found: path.display().to_string(),
        expected: "a path in UTF-8".to_owned(),
    })
}

fn first_devices(
    devices: Vec<PathBuf>,
    raid: Option<Raid>,
    group_size: Option<u64>,
) -> Result<FirstDevices, ConfigError> {
    let is_none = devices.iter().any(|path| path.as_os_str() == "none");
    if devices.is_empty() || is_none {
        let (key, found) = match (raid, group_size) {
            (Some(raid), _) => ("raid", raid.to_string()),
            (None, Some(size)) => ("group-size", size.to_string()),
            (None, None) if is_none && devices.len() > 1 => {
                ("devices", "none, and others".to_owned())
            }
            (None, None) if is_none => return Ok(FirstDevices::None),
            (None, None) => return Ok(FirstDevices::Own),
        };
        return Err(ConfigError::OutOfRange {
            key: key.into(),
            found,
            expected: "devices that it is for".to_owned(),
        });
    }
    let paths = devices.into_iter().map(|path| recordable("devices", path));
    Ok(FirstDevices::Given {
        paths: paths.collect::<Result<_, _>>()?,
        raid: raid.unwrap_or_default(),
        group_size,
    })
}

/// Returns the path of a Unix socket; `flag` is the flag that sets it.
fn unix_socket(
    flag: &'static str,
    said: Option<UnixListen>,
    data_dir: &Path,
    default: &str,
) -> Result<Option<PathBuf>, ConfigError> {
    let path = match said {
        Some(UnixListen::Off) => return Ok(None),
        Some(UnixListen::At(path)) => place::absolute(path)?,
        None => data_dir.join(default),
    };
    let bytes = path.as_os_str().len();
    if bytes > SOCKET_PATH_BYTES_MAX {
        return Err(ConfigError::SocketPathTooLong { flag, path, bytes });
    }
    Ok(Some(path))
}

fn first_start(
    devices: FirstDevices,
    (aggregate_size, lun_size): (Option<Size>, Option<Size>),
    journal: Journal,
) -> Result<FirstStart, ConfigError> {
    let is_size_chosen = aggregate_size.is_some();
    let aggregate_size = aggregate_size.unwrap_or(AGGREGATE_SIZE_DEFAULT);
    let aggregate_size = in_range(
        "aggregate-size",
        aggregate_size,
        AGGREGATE_SIZE_MIN..=POOL_BYTES_MAX,
    )?;
    let lun_size = lun_size.unwrap_or(LUN_SIZE_DEFAULT);
    let lun_size = in_range("lun-size", lun_size, Size(BLOCK_BYTES)..=POOL_BYTES_MAX)?;
    Ok(FirstStart {
        aggregate: "aggr0".to_owned(),
        devices,
        aggregate_size: whole_blocks("aggregate-size", aggregate_size)?,
        is_size_chosen,
        volume: "vol0".to_owned(),
        lun: "lun0".to_owned(),
        lun_size: whole_blocks("lun-size", lun_size)?,
        journal,
    })
}

/// Returns the cap of all memory. Whether the machine has so much is looked at by those who use it
/// (`checkup`): the configuration may be read on another machine.
fn memory(said: Option<Size>) -> Result<Size, ConfigError> {
    let memory = said.unwrap_or(MEMORY_DEFAULT);
    if memory < MEMORY_MIN {
        return Err(ConfigError::OutOfRange {
            key: "memory".into(),
            found: memory.to_string(),
            expected: format!("at least {MEMORY_MIN}"),
        });
    }
    Ok(memory)
}

fn in_range<T: PartialOrd + fmt::Display>(
    key: &'static str,
    value: T,
    range: std::ops::RangeInclusive<T>,
) -> Result<T, ConfigError> {
    if !range.contains(&value) {
        return Err(ConfigError::OutOfRange {
            key: key.into(),
            found: value.to_string(),
            expected: format!("{} to {}", range.start(), range.end()),
        });
    }
    Ok(value)
}

fn whole_blocks(key: &'static str, value: Size) -> Result<Size, ConfigError> {
    if !value.bytes().is_multiple_of(BLOCK_BYTES) {
        return Err(ConfigError::OutOfRange {
            key: key.into(),
            found: value.said(),
            expected: format!("a multiple of {BLOCK_BYTES} bytes"),
        });
    }
    Ok(value)
}
