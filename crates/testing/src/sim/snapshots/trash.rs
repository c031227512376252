//! LUNs and snapshots that are deleted and come back.

use std::collections::BTreeMap;

use everglade_engine::TrashInfo;
use everglade_engine::admin::{self, Change};

use super::{BLOCK, Image, Life, State, Step};
use crate::Rng;
use crate::sim::Failure;
use crate::sim::asker::Ended;

/// Most LUNs, and most snapshots, that the trash may have for one more to be put there.
const TRASH_MAX: usize = 4;

/// A snapshot in the trash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Binned {
    /// Its LUNs.
    pub(super) image: Image,
    /// LUNs that were in the trash when it was taken.
    pub(super) trash: Image,
    /// Its place among all that were taken.
    pub(super) taken: u64,
}

/// Something in the trash, by the name that it had.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::sim) enum Item {
    Lun(String),
    Snapshot(String),
}

impl Item {
    fn name(&self) -> &str {
        let (Item::Lun(name) | Item::Snapshot(name)) = self;
        name
    }

    fn of(info: &TrashInfo) -> Item {
        match (info.name.split_once('/'), info.name.split_once('@')) {
            (Some((_, lun)), _) => Item::Lun(lun.to_owned()),
            (None, Some((_, snapshot))) => Item::Snapshot(snapshot.to_owned()),
            (None, None) => unreachable!("no volume is put into the trash"),
        }
    }
}

/// Draws something about the trash, if there is something to do.
pub(super) fn draw(rng: &mut Rng, state: &State, number: u64) -> Option<Step> {
    let volume = state.volume().to_owned();
    let is_free = |name: &&String| !state.trash.contains_key(*name);
    let luns: Vec<&String> = state.active.keys().filter(is_free).collect();
    let is_free = |name: &&String| !state.bin.contains_key(*name);
    let snapshots: Vec<&String> = state.snapshots.keys().filter(is_free).collect();
    let trashed: Vec<Item> = state.items().into_keys().collect();
    match rng.below(12) {
        0..3 if !luns.is_empty() && state.trash.len() < TRASH_MAX => {
            let name = luns[rng.index(luns.len())].clone();
            Some(Step::Change(Change::TrashLun { volume, name }))
        }
        3..6 if !snapshots.is_empty() && state.bin.len() < TRASH_MAX => {
            let name = snapshots[rng.index(snapshots.len())].clone();
            Some(Step::Change(Change::TrashSnapshot { volume, name }))
        }
        6..10 if !trashed.is_empty() => {
            let item = trashed[rng.index(trashed.len())].clone();
            let name = item.name();
            let is_taken = match &item {
                Item::Lun(_) => state.active.contains_key(name) || state.cloning() == Some(name),
                Item::Snapshot(_) => state.snapshots.contains_key(name),
            };
            let to = match is_taken || rng.one_in(2) {
                true => format!("u{number}"),
                false => name.to_owned(),
            };
            Some(Step::Undelete(item, to))
        }
        10..12 if !trashed.is_empty() => {
            Some(Step::Purge(trashed[rng.index(trashed.len())].clone()))
        }
        _ => None,
    }
}

/// What the trash is said to have.
type Trashed = BTreeMap<Item, TrashInfo>;

impl State {
    /// Only these objects are left in the trash.
    pub(super) fn keep_in_trash(&mut self, listed: &Trashed) {
        let is_left = |item: Item| listed.contains_key(&item);
        self.trash
            .retain(|name, _| is_left(Item::Lun(name.clone())));
        self.bin
            .retain(|name, _| is_left(Item::Snapshot(name.clone())));
    }

    /// What is in the trash, each with the blocks of its LUNs.
    fn items(&self) -> BTreeMap<Item, u64> {
        let luns = self.trash.iter();
        let luns = luns.map(|(name, lun)| (Item::Lun(name.clone()), lun.blocks));
        let snapshots = self.bin.iter().map(|(name, binned)| {
            let blocks = binned.image.values().map(|lun| lun.blocks);
            (Item::Snapshot(name.clone()), blocks.sum())
        });
        luns.chain(snapshots).collect()
    }
}

impl Life<'_> {
    /// What the trash is said to have.
    pub(super) fn trashed(&self) -> Trashed {
        let listed = self.asker.system.engine().trash().into_iter();
        listed.map(|info| (Item::of(&info), info)).collect()
    }

    /// If objects have left the trash because space was short, takes them out of the states.
    pub(super) fn resolve_trash(&mut self) {
        if !self.has_purged() {
            return;
        }
        let listed = self.trashed();
        for state in &mut self.states {
            state.keep_in_trash(&listed);
        }
    }

    /// True if something has left the trash because space was short, since the volume was opened.
    pub(super) fn has_purged(&self) -> bool {
        let aggregates = self.asker.system.engine().aggregates();
        aggregates.iter().any(|known| known.purged.count > 0)
    }

    /// Compares the trash with that of a state.
    pub(super) fn compare_trash(&self, state: &State) -> Result<(), Failure> {
        let blocks = |info: &TrashInfo| info.size_bytes / BLOCK;
        let listed = self.trashed().into_iter();
        let listed: BTreeMap<Item, u64> = listed.map(|(item, it)| (item, blocks(&it))).collect();
        let expected = state.items();
        match listed == expected {
            true => Ok(()),
            false => Err(Failure::new(format!(
                "Exports: in the trash are {listed:?}, not {expected:?}"
            ))),
        }
    }

    /// Takes something out of the trash, or removes it for good. It may have left the trash just
    /// before, because space was short.
    pub(super) fn leave_trash(&mut self, step: &Step, mut next: State) -> Result<bool, Failure> {
        let (Step::Undelete(item, _) | Step::Purge(item)) = step else {
            unreachable!("nothing else leaves the trash");
        };
        let Some(info) = self.trashed().remove(item) else {
            return Err(Failure::new(format!(
                "Exports: {item:?} has left the trash by itself"
            )));
        };
        let to = match step {
            Step::Undelete(_, to) => Some(to),
            _ => None,
        };
        let change = next.take_out(item, to, &info);
        let text = format!("{change:?}");
        match self.asker.administer(Some(change))? {
            Ended::Cut => {
                self.states.push(next);
                Ok(false)
            }
            Ended::With(Ok(())) => {
                self.happened(next, true)?;
                Ok(true)
            }
            // Space was short meanwhile.
            Ended::With(Err(admin::Error::NotFound(_))) => {
                self.resolve_trash();
                match self.now().items().contains_key(item) {
                    false => Ok(true),
                    true => Err(Failure::new(format!("{text}: it is still there"))),
                }
            }
            Ended::With(Err(error)) => Err(Failure::new(format!(
                "a valid request failed: {text}: {error}"
            ))),
        }
    }
}

impl State {
    /// Takes something out of the trash: back under a name, or for good. Returns the request.
    fn take_out(&mut self, item: &Item, to: Option<&String>, info: &TrashInfo) -> Change {
        let volume = self.volume().to_owned();
        match item {
            Item::Lun(name) => {
                let known = self.trash.remove(name).expect("drawn from there");
                let lun = info.lun.expect("a LUN");
                let Some(to) = to else {
                    return Change::PurgeLun { volume, lun };
                };
                self.active.insert(to.clone(), known);
                let name = to.clone();
                Change::UndeleteLun { volume, lun, name }
            }
            Item::Snapshot(name) => {
                let known = self.bin.remove(name).expect("drawn from there");
                let snapshot = info.snapshot.expect("a snapshot");
                let Some(to) = to else {
                    return Change::PurgeSnapshot { volume, snapshot };
                };
                self.snapshots.insert(to.clone(), known.image);
                self.trashes.insert(to.clone(), known.trash);
                self.order.push((known.taken, to.clone()));
                self.order.sort_unstable();
                let name = to.clone();
                Change::UndeleteSnapshot {
                    volume,
                    snapshot,
                    name,
                }
            }
        }
    }
}
