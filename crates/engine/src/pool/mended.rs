//! Blocks that were mended since the aggregate was opened, counted and listed for administrators.

use std::collections::BTreeMap;

use everglade_env::lock::Mutex;
use everglade_format::FileId;
use everglade_format::metafile::{
    ACTIVE_MAP, CONTEXT_MAP, DIRECTORY, HIDDEN, INODE_FILE, NOTES, OVERFLOW, REFCOUNTS, TOP_AREAS,
};

use crate::read::load::{BlockName, Damaged};

/// Lines kept for administrators; counts have no bound.
pub(crate) const LINES_MAX: usize = 64;

/// Mended blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MendedInfo {
    /// Blocks, by what kind of file they are of.
    pub blocks: BTreeMap<&'static str, u64>,
    /// The block and the reason in each line, oldest first; the first 64.
    pub lines: Vec<String>,
    /// The last repair, and how it is doing.
    pub repair: RepairInfo,
    /// Blocks that a repair found damaged and that cannot be derived, and lines of the first 64:
    /// those of the last repair that came to its end or, if it has found more, of the one under
    /// way.
    pub beyond_repair: (u64, Vec<String>),
}

/// State of a repair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RepairState {
    /// No repair began since the aggregate was opened.
    #[default]
    None,
    /// The repair is reading.
    Running,
    /// The repair has read everything.
    Done,
    /// The repair ended early.
    Stopped,
}

/// A repair, as of the last consistency point.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepairInfo {
    /// State of the repair.
    pub state: RepairState,
    /// Blocks that it has read.
    pub read_blocks: u64,
    /// Blocks that it will have read at the end: an estimate while it runs.
    pub total_blocks: u64,
    /// Blocks mended by any reader since the repair began.
    pub mended_blocks: u64,
    /// Blocks that it found damaged and that cannot be derived.
    pub damaged_blocks: u64,
    /// Damaged blocks, each with the reason; the first 64.
    pub damaged: Vec<String>,
    /// The reason why the repair stopped, unless an administrator stopped it.
    pub reason: Option<String>,
    /// Seconds until the repair is done, at its speed so far.
    pub eta_seconds: Option<u64>,
}

impl MendedInfo {
    /// Returns the sum over all blocks.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.blocks.values().sum()
    }
}

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Mended(Mutex<MendedInfo>);

impl Mended {
    /// A block was mended.
    pub(crate) fn record(&self, name: BlockName, damaged: &Damaged) {
        let mut info = self.0.lock();
        *info.blocks.entry(name_of(name.file)).or_default() += 1;
        if info.lines.len() < LINES_MAX {
            info.lines.push(damaged.to_string());
        }
    }

    /// A repair is so far.
    pub(crate) fn tell_repair(&self, repair: RepairInfo) {
        let mut info = self.0.lock();
        let is_done = repair.state == RepairState::Done;
        if is_done || repair.damaged_blocks > info.beyond_repair.0 {
            info.beyond_repair = (repair.damaged_blocks, repair.damaged.clone());
        }
        info.repair = repair;
    }

    pub(crate) fn info(&self) -> MendedInfo {
        self.0.lock().clone()
    }
}

/// Returns the name of a file for administrators, which is the metric's label too.
fn name_of(file: FileId) -> &'static str {
    match file {
        INODE_FILE => "inode file",
        ACTIVE_MAP => "active map",
        OVERFLOW => "overflow file",
        TOP_AREAS => "top areas",
        DIRECTORY => "directory",
        HIDDEN => "hidden namespace",
        CONTEXT_MAP => "context map",
        REFCOUNTS => "refcount file",
        NOTES => "notes",
        _ => "container or side file",
    }
}

impl std::fmt::Display for BlockName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let BlockName {
            volume,
            file,
            level,
            index,
        } = self;
        let name = name_of(*file);
        match volume {
            Some(volume) => write!(f, "{name} (file {file}) of volume {volume}")?,
            None => write!(f, "{name} (file {file}) of the aggregate")?,
        }
        write!(f, ", level {level}, block {index}")
    }
}

impl std::fmt::Display for Damaged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.name {
            Some(name) => write!(f, "{name}: {}", self.reason),
            None => f.write_str(&self.reason),
        }
    }
}
