//! What is known of a volume, and what an administrator is doing to it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::track::{Seen, Value};

/// One client's blocks, for each client of a volume.
pub(super) type Image = Vec<Vec<Value>>;

/// A snapshot.
#[derive(Clone, Debug)]
pub(super) struct Shot {
    /// What it shows, once somebody has looked.
    pub(super) image: Option<Image>,
    /// Changes of each client that were answered before it was asked for, and that were asked for
    /// before it was answered: what it may have.
    pub(super) bounds: Vec<(usize, usize)>,
    /// What the LUNs are called in it.
    pub(super) luns: Vec<String>,
    /// Tags of holds that stay.
    pub(super) holds: BTreeSet<String>,
}

/// An administrator's business with a volume; one at a time.
#[derive(Clone, Debug, Default)]
pub(super) enum Task {
    #[default]
    None,
    /// A snapshot was asked for.
    Create { name: String, least: Vec<usize> },
    /// Some deletions were asked for at once.
    Delete { names: Vec<String> },
    /// The volume, or one LUN of it, is to be as it was.
    Restore { goal: Goal, least: Vec<usize> },
    /// It was answered; clients end what they began before or during it.
    Drain(Goal),
    /// What was seen after it is made durable, where nothing else tells which changes came before
    /// it.
    Seal { goal: Goal, seen: Vec<Vec<Seen>> },
    /// A snapshot is held, deleted in vain, and released.
    Hold,
    /// Another name for the volume was asked for.
    Rename { to: String },
    /// For a LUN.
    RenameLun { lun: usize, to: String },
    /// For a snapshot.
    RenameSnapshot { from: String, to: String },
    /// A hold that stays was asked for, or its end.
    Keep {
        snapshot: String,
        tag: String,
        is_end: bool,
    },
    /// Something was asked for that cannot be.
    Vain,
    /// A consistency point was asked for. So many changes of each client are durable with it.
    Point { least: Vec<usize> },
    /// Somebody looks at all blocks of a snapshot, or of the active image.
    Look { after: After },
    /// Its deletion was asked for; a restore may be on its way too: its target, its safety
    /// snapshot, and how many changes that has at least.
    Raze {
        restore: Option<(String, String, Vec<usize>)>,
    },
    /// It was deleted. It, then its LUNs, are made anew when its clients have heard of it.
    Rebuild { is_asked: bool, luns: usize },
    /// The same, but it was asked for as a clone.
    Clone(Base),
    /// Something about a clone of a LUN was asked for.
    LunClone,
}

/// What a clone begins as.
#[derive(Clone, Debug)]
pub(super) struct Base {
    /// The volume that it is a clone of.
    pub(super) parent: usize,
    /// The snapshot of that.
    pub(super) snapshot: String,
    /// What it is called in the clone.
    pub(super) own: String,
    pub(super) image: Image,
    /// What its LUNs are called.
    pub(super) luns: Vec<String>,
}

/// What a restore goes to.
#[derive(Clone, Debug)]
pub(super) struct Goal {
    pub(super) target: String,
    pub(super) before: Before,
    /// Only this LUN.
    pub(super) lun: Option<usize>,
}

/// What becomes of the image before a restore.
#[derive(Clone, Debug)]
pub(super) enum Before {
    /// It stays, as this snapshot.
    Safety(String),
    /// It is discarded, with these snapshots.
    Discarded(Vec<String>),
}

impl Goal {
    /// True for a LUN that it changes.
    pub(super) fn covers(&self, lun: usize) -> bool {
        self.lun.is_none_or(|only| only == lun)
    }

    /// True for a snapshot that shows what was there before.
    pub(super) fn is_safety(&self, snapshot: &str) -> bool {
        matches!(&self.before, Before::Safety(name) if name == snapshot)
    }

    /// Whether it happened, by the snapshots that there are.
    pub(super) fn is_reached(&self, listed: &BTreeSet<String>) -> bool {
        match &self.before {
            Before::Safety(name) => listed.contains(name),
            Before::Discarded(newer) => !newer.iter().any(|name| listed.contains(name)),
        }
    }
}

/// What comes after a look.
#[derive(Clone, Debug)]
pub(super) enum After {
    /// The snapshot shows what it always did, or is seen for the first time.
    Shot(String),
    /// The safety snapshot of a restore tells which changes came before it.
    Safety(Goal),
    /// The restored image has the target's blocks, and what came after.
    Restored(Goal),
    /// A clone of a LUN shows what it always did.
    LunClone(String),
}

/// See the module's documentation.
#[derive(Clone, Debug)]
pub(super) struct Volume {
    pub(super) name: String,
    /// What its LUNs are called.
    pub(super) luns: Vec<String>,
    /// Its clients, among all.
    pub(super) clients: Range<usize>,
    pub(super) snapshots: BTreeMap<String, Shot>,
    /// Clones of its LUNs, by name: which LUN, and what they show wherever they are.
    pub(super) clones: BTreeMap<String, (usize, Image)>,
    /// Of a clone.
    pub(super) base: Option<Base>,
    /// Its split was asked for: it may be no clone any more.
    pub(super) may_be_split: bool,
    /// It was deleted for good, at the end.
    pub(super) is_gone: bool,
    pub(super) task: Task,
    /// Administrators' requests not answered.
    pub(super) asked: usize,
    /// Blocks that a look has seen so far, and reads that are under way.
    pub(super) seen: Vec<Option<Vec<Seen>>>,
    pub(super) reads: usize,
    /// Numbers of changes of each client that may have been before the last restore.
    pub(super) from: Vec<Vec<usize>>,
    /// Somebody saw what the restore under way goes to, when so many changes of each client had
    /// been asked for: nobody sees anything else from then on, and what is asked for later comes on
    /// top of it.
    pub(super) shown: Option<Vec<usize>>,
}

/// What LUNs are called when they are made.
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

    /// Some of its snapshots may not be deleted, for all that is known.
    pub(super) fn may_be_held(&self) -> bool {
        let mut shots = self.snapshots.values();
        shots.any(|shot| !shot.holds.is_empty())
    }

    /// What a restore under way goes to.
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
