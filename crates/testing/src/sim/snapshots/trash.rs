//! LUNs that are deleted and come back.

use std::collections::BTreeMap;

use everglade_engine::TrashInfo;
use everglade_engine::admin::{self, Change};

use super::{BLOCK, Life, State, Step};
use crate::Rng;
use crate::sim::Failure;
use crate::sim::asker::Ended;

/// Most LUNs that the trash may have for one more to be put there.
const TRASH_MAX: usize = 4;

/// Draws something about the trash, if there is something to do.
pub(super) fn draw(rng: &mut Rng, state: &State, number: u64) -> Option<Step> {
    let is_free = |name: &&String| !state.trash.contains_key(*name);
    let free: Vec<&String> = state.active.keys().filter(is_free).collect();
    let trashed: Vec<&String> = state.trash.keys().collect();
    match rng.below(8) {
        0..3 if !free.is_empty() && trashed.len() < TRASH_MAX => {
            Some(Step::Change(Change::TrashLun {
                volume: state.volume().to_owned(),
                name: free[rng.index(free.len())].clone(),
            }))
        }
        3..7 if !trashed.is_empty() => {
            let name = trashed[rng.index(trashed.len())].clone();
            let is_taken = state.active.contains_key(&name) || state.cloning() == Some(&name);
            let to = match is_taken || rng.one_in(2) {
                true => format!("u{number}"),
                false => name.clone(),
            };
            Some(Step::Undelete(name, to))
        }
        7 if !trashed.is_empty() => {
            let name = trashed[rng.index(trashed.len())].clone();
            Some(Step::Purge(name))
        }
        _ => None,
    }
}

/// What the trash is said to have, by the names of LUNs.
type Trashed = BTreeMap<String, TrashInfo>;

impl State {
    /// Only these LUNs are left in the trash.
    pub(super) fn keep_in_trash(&mut self, listed: &Trashed) {
        self.trash.retain(|name, _| listed.contains_key(name));
    }
}

impl Life<'_> {
    /// What the trash is said to have.
    pub(super) fn trashed(&self) -> Trashed {
        let name = |info: &TrashInfo| {
            let (_, lun) = info.name.split_once('/').expect("volume/lun");
            lun.to_owned()
        };
        let listed = self.asker.system.engine().trash().into_iter();
        listed.map(|info| (name(&info), info)).collect()
    }

    /// If LUNs have left the trash because space was short, takes them out of the states.
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
        let listed = self.trashed();
        let listed: BTreeMap<&String, u64> =
            listed.iter().map(|(name, it)| (name, blocks(it))).collect();
        let expected = state.trash.iter().map(|(name, lun)| (name, lun.blocks));
        let expected: BTreeMap<&String, u64> = expected.collect();
        match listed == expected {
            true => Ok(()),
            false => Err(Failure::new(format!(
                "Exports: in the trash are {listed:?}, not {expected:?}"
            ))),
        }
    }

    /// Takes a LUN out of the trash, or removes it for good. It may have left the trash just
    /// before, because space was short.
    pub(super) fn leave_trash(&mut self, step: &Step, mut next: State) -> Result<bool, Failure> {
        let (Step::Undelete(name, _) | Step::Purge(name)) = step else {
            unreachable!("nothing else leaves the trash");
        };
        let Some(lun) = self.trashed().get(name).and_then(|info| info.lun) else {
            return Err(Failure::new(format!(
                "Exports: {name} has left the trash by itself"
            )));
        };
        let volume = next.volume().to_owned();
        let known = next.trash.remove(name).expect("drawn from there");
        let change = match step {
            Step::Undelete(_, to) => {
                next.active.insert(to.clone(), known);
                let name = to.clone();
                Change::UndeleteLun { volume, lun, name }
            }
            _ => Change::PurgeLun { volume, lun },
        };
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
                match self.now().trash.contains_key(name) {
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
