//! The model of a volume, and an administrator's task on it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::track::{Seen, Value};

/// The blocks of each client of a volume.
pub(super) type Image = Vec<Vec<Value>>;

/// A snapshot.
#[derive(Clone, Debug)]
pub(super) struct Shot {
    /// Content of the snapshot, after its first read.
    pub(super) image: Option<Image>,
    /// For each client, the changes answered before the snapshot's request and those requested
    /// before its answer: the bounds of its content.
    pub(super) bounds: Vec<(usize, usize)>,
    /// Names of the LUNs in the snapshot.
    pub(super) luns: Vec<String>,
    /// Tags of holds that stay.
    pub(super) holds: BTreeSet<String>,
}

/// An administrator's business with a volume; one at a time.
#[derive(Clone, Debug, Default)]
pub(super) enum Task {
    #[default]
    None,
    /// A snapshot was requested.
    Create { name: String, least: Vec<usize> },
    /// Several deletions were requested at once.
    Delete { names: Vec<String> },
    /// The volume, or one LUN of it, is to be as it was.
    Restore { goal: Goal, least: Vec<usize> },
    /// The restore was answered; clients finish requests begun before or during it.
    Drain(Goal),
    /// The values read after a restore are made durable, if nothing else proves which changes came
    /// before it.
    Seal { goal: Goal, seen: Vec<Vec<Seen>> },
    /// A snapshot is held, deleted in vain, and released.
    Hold,
    /// A rename of the volume was requested.
    Rename { to: String },
    /// For a LUN.
    RenameLun { lun: usize, to: String },
    /// For a snapshot.
    RenameSnapshot { from: String, to: String },
    /// A lasting hold was requested, or its release.
    Keep {
        snapshot: String,
        tag: String,
        is_end: bool,
    },
    /// An impossible change was requested.
    Vain,
    /// A consistency point was requested. It makes this many changes of each client durable.
    Point { least: Vec<usize> },
    /// All blocks of a snapshot, or of the active image, are being read.
    Look { after: After },
    /// The volume's deletion was requested. A restore may be under way too: its target, its safety
    /// snapshot, and the least number of changes in that snapshot.
    Raze {
        restore: Option<(String, String, Vec<usize>)>,
    },
    /// The volume was deleted. The volume and then its LUNs are created again when all clients have
    /// noticed the deletion.
    Rebuild { is_asked: bool, luns: usize },
    /// The volume is created again as a clone.
    Clone(Base),
    /// A request about a clone of a LUN is under way.
    LunClone,
}

/// The base of a clone.
#[derive(Clone, Debug)]
pub(super) struct Base {
    /// The volume that it is a clone of.
    pub(super) parent: usize,
    /// The snapshot of that.
    pub(super) snapshot: String,
    /// Name of the base in the clone.
    pub(super) own: String,
    pub(super) image: Image,
    /// Names of its LUNs.
    pub(super) luns: Vec<String>,
}

/// The goal of a restore.
#[derive(Clone, Debug)]
pub(super) struct Goal {
    pub(super) target: String,
    pub(super) before: Before,
    /// LUN to restore; the whole volume if `None`.
    pub(super) lun: Option<usize>,
}

/// The fate of the image before a restore.
#[derive(Clone, Debug)]
pub(super) enum Before {
    /// The image stays, as this snapshot.
    Safety(String),
    /// The image is discarded, with these snapshots.
    Discarded(Vec<String>),
}

impl Goal {
    /// True for a LUN that it changes.
    pub(super) fn covers(&self, lun: usize) -> bool {
        self.lun.is_none_or(|only| only == lun)
    }

    /// True for the snapshot of the image before the restore.
    pub(super) fn is_safety(&self, snapshot: &str) -> bool {
        matches!(&self.before, Before::Safety(name) if name == snapshot)
    }

    /// True if the restore happened, according to the existing snapshots.
    pub(super) fn is_reached(&self, listed: &BTreeSet<String>) -> bool {
        match &self.before {
            Before::Safety(name) => listed.contains(name),
            Before::Discarded(newer) => !newer.iter().any(|name| listed.contains(name)),
        }
    }
}

/// The check after a look.
#[derive(Clone, Debug)]
pub(super) enum After {
    /// The snapshot has its known content, or is read for the first time.
    Shot(String),
    /// The safety snapshot of a restore tells which changes came before it.
    Safety(Goal),
    /// The restored image has the target's blocks, and what came after.
    Restored(Goal),
    /// A clone of a LUN has its known content.
    LunClone(String),
}

/// See the module's documentation.
#[derive(Clone, Debug)]
pub(super) struct Volume {
    pub(super) name: String,
    /// Names of its LUNs.
    pub(super) luns: Vec<String>,
    /// Its clients, among all.
    pub(super) clients: Range<usize>,
    pub(super) snapshots: BTreeMap<String, Shot>,
    /// Clones of its LUNs, by name: the source LUN, and their constant content.
    pub(super) clones: BTreeMap<String, (usize, Image)>,
    /// Base, if the volume is a clone.
    pub(super) base: Option<Base>,
    /// True if its split was requested: the volume may be no clone any more.
    pub(super) may_be_split: bool,
    /// True after its last deletion, at the end.
    pub(super) is_gone: bool,
    pub(super) task: Task,
    /// Administrators' requests not answered.
    pub(super) asked: usize,
    /// Blocks read by a look so far, and reads under way.
    pub(super) seen: Vec<Option<Vec<Seen>>>,
    pub(super) reads: usize,
    /// Numbers of changes of each client that may have been before the last restore.
    pub(super) from: Vec<Vec<usize>>,
    /// Number of each client's requested changes when a read first showed the target of the restore
    /// under way: all later reads show the target, and later changes come on top of it.
    pub(super) shown: Option<Vec<usize>>,
}

/// Returns the initial names of LUNs.
pub(super) fn first_names() -> Vec<String> {
    (0..super::LUNS).map(|lun| format!("l{lun}")).collect()
}

impl Volume {
    /// A LUN, of a snapshot if there is one.
    pub(super) fn full_name(&self, lun: usize, snapshot: Option<&str>) -> String {
        let (luns, at) = match snapshot {
            None => (&self.luns, String::new()),
            Some(name) => (&self.snapshots[name].luns, format!("@{name}")),
        };
        format!("{}/{}{at}", self.name, luns[lun])
    }

    /// Names that a LUN may have now, while others are on their way.
    pub(super) fn possible_names(&self, lun: usize) -> Vec<String> {
        let mut luns = vec![&self.luns[lun]];
        let mut volumes = vec![&self.name];
        match &self.task {
            Task::Rename { to } => volumes.push(to),
            Task::RenameLun { lun: other, to } if *other == lun => luns.push(to),
            _ => {}
        }
        let restored = self.restoring().filter(|goal| goal.lun.is_none());
        let target = restored.and_then(|goal| self.snapshots.get(&goal.target));
        luns.extend(target.map(|shot| &shot.luns[lun]));
        let of = |volume: &&String| -> Vec<String> {
            luns.iter().map(|lun| format!("{volume}/{lun}")).collect()
        };
        volumes.iter().flat_map(of).collect()
    }

    pub(super) fn new(name: String, clients: Range<usize>) -> Volume {
        Volume {
            seen: vec![None; clients.len()],
            luns: first_names(),
            name,
            clients,
            snapshots: BTreeMap::new(),
            clones: BTreeMap::new(),
            base: None,
            may_be_split: false,
            is_gone: false,
            task: Task::None,
            asked: 0,
            reads: 0,
            from: Vec::new(),
            shown: None,
        }
    }

    /// Its clients may ask for changes.
    pub(super) fn is_open(&self) -> bool {
        !matches!(
            self.task,
            Task::Drain(_)
                | Task::Seal { .. }
                | Task::Raze { .. }
                | Task::Rebuild { .. }
                | Task::Clone(_)
        ) && !matches!(
            &self.task,
            Task::Look {
                after: After::Safety(_) | After::Restored(_)
            }
        )
    }

    /// True if some of its snapshots may be held, as far as is known.
    pub(super) fn may_be_held(&self) -> bool {
        let mut shots = self.snapshots.values();
        shots.any(|shot| !shot.holds.is_empty())
    }

    /// Returns the goal of a restore under way.
    pub(super) fn restoring(&self) -> Option<&Goal> {
        match &self.task {
            Task::Restore { goal, .. }
            | Task::Seal { goal, .. }
            | Task::Drain(goal)
            | Task::Look {
                after: After::Safety(goal) | After::Restored(goal),
            } => Some(goal),
            _ => None,
        }
    }
}
