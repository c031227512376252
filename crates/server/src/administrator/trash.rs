//! The trash: deleted LUNs, snapshots and volumes come back, or leave when their time is over.
//!
//! What is in the trash is known to the engine alone, which also removes the oldest object when
//! space is short. A round looks for objects whose time is over, and tells what has left by itself.
//!
//! 1. A LUN in the trash keeps its limit and its reservations: it comes back with them. They are
//!    forgotten when it has left for good. Its mappings are forgotten at once, so nobody has access
//!    to it when it comes back unless that is given again.
//! 2. A volume that comes back has the snapshot policy of new volumes, not the one that it had.
//! 3. Only what people delete goes into the trash. A snapshot that its policy deletes, or that a
//!    restore discards, is gone.

use std::collections::{BTreeMap, BTreeSet};

use everglade_api::{
    Code, Moment, Name, Problem, Size, Trash, TrashItem, TrashKind, Undelete, Undeleted,
};
use everglade_engine::TrashInfo;
use everglade_engine::admin::Change;
use everglade_target::reservations::LunUuid;

use super::administrator::{Administrator, Deleted};
use super::inventory::host_shortage;
use super::report::Notice;
use super::units::bytes;
use crate::datadir::Uuid;

/// The parameter of a deletion that is for good.
pub(crate) const PURGE: &str = "purge";

/// What the rounds remember.
#[derive(Default)]
pub(crate) struct TrashRounds {
    /// Objects that left because space was short, by aggregate.
    purged: BTreeMap<String, u64>,
    /// LUNs that were in the trash at the last round, or in a volume there.
    uuids: BTreeSet<LunUuid>,
}

impl Administrator {
    /// When an object that is deleted now leaves the trash; none if it does not go there.
    pub(super) fn trash_until(&self, purge: bool) -> Option<Moment> {
        let until = Moment(self.now().0.saturating_add(self.trash_keep));
        (!purge && self.trash_keep > 0).then_some(until)
    }

    /// Returns what is in the trash, the oldest first.
    #[must_use]
    pub fn trash(&self) -> Trash {
        let view = |info: TrashInfo| TrashItem {
            id: Uuid(info.id).to_string(),
            kind: kind(&info),
            size_bytes: info.size_bytes,
            used_bytes: bytes(info.used_blocks),
            deleted: Moment(info.deleted_seconds).to_string(),
            until: Moment(info.deleted_seconds.saturating_add(self.trash_keep)).to_string(),
            name: info.name,
            aggregate: info.aggregate,
        };
        Trash {
            trash: self.engine.trash().into_iter().map(view).collect(),
        }
    }

    /// Returns how long objects stay in the trash; 0 if they do not go there.
    #[must_use]
    pub fn trash_keep_seconds(&self) -> u64 {
        self.trash_keep
    }

    fn trashed(&self, id: &str) -> Result<TrashInfo, Problem> {
        let mut known = self.engine.trash().into_iter();
        let found = known.find(|info| Uuid(info.id).to_string() == id);
        found.ok_or_else(|| {
            let text = format!("nothing in the trash has the id {id}");
            Problem::new(Code::NotFound, text)
        })
    }

    /// Returns what an object in the trash is called, for the history.
    ///
    /// # Errors
    /// There is none with this id.
    pub(crate) fn name_in_trash(&self, id: &str) -> Result<String, Problem> {
        Ok(self.trashed(id)?.name)
    }

    /// Takes an object out of the trash.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn undelete(&self, id: &str, request: &Undelete) -> Result<Undeleted, Problem> {
        let info = self.trashed(id)?;
        let wanted = request.name.as_ref().map(Name::as_str);
        let named = |had: &str| wanted.unwrap_or(had).to_owned();
        let (full, change) = match what(&info) {
            What::Lun { volume, had, lun } => {
                let name = named(had);
                let full = format!("{volume}/{name}");
                let volume = volume.to_owned();
                (full, Change::UndeleteLun { volume, lun, name })
            }
            What::Snapshot {
                volume,
                had,
                snapshot,
            } => {
                let name = named(had);
                let full = format!("{volume}@{name}");
                let volume = volume.to_owned();
                let change = Change::UndeleteSnapshot {
                    volume,
                    snapshot,
                    name,
                };
                (full, change)
            }
            What::Volume => {
                let (volume, name) = (info.volume.volume, named(&info.name));
                (name.clone(), Change::UndeleteVolume { volume, name })
            }
        };
        let change = || self.change(info.volume.aggregate, change).map(drop);
        let made = match kind(&info) {
            TrashKind::Volume => {
                let policy = (full.as_str(), self.usual_policy.as_str());
                self.schedule().bring_back(self.now(), policy, change)
            }
            TrashKind::Lun | TrashKind::Snapshot => change(),
        };
        made.map_err(|problem| match problem.code {
            Code::Exists => Problem::of_field(
                Code::Exists,
                "name",
                format!("{full} exists; choose another name"),
            ),
            _ => problem,
        })?;
        tracing::info!("{full} came back from the trash");
        Ok(Undeleted {
            kind: kind(&info),
            name: full,
        })
    }

    /// Removes an object for good that is in the trash.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn purge(&self, id: &str) -> Result<Deleted, Problem> {
        let info = self.trashed(id)?;
        self.purge_known(&info)?;
        let size = match kind(&info) {
            TrashKind::Snapshot => bytes(info.used_blocks),
            TrashKind::Lun | TrashKind::Volume => info.size_bytes,
        };
        Ok(Deleted {
            pending: self.pending_of(info.volume.aggregate),
            detail: format!("{}, out of the trash", Size(size).said()),
            kept_until: None,
        })
    }

    fn purge_known(&self, info: &TrashInfo) -> Result<(), Problem> {
        let change = match what(info) {
            What::Lun { volume, lun, .. } => Change::PurgeLun {
                volume: volume.to_owned(),
                lun,
            },
            What::Snapshot {
                volume, snapshot, ..
            } => Change::PurgeSnapshot {
                volume: volume.to_owned(),
                snapshot,
            },
            What::Volume => Change::PurgeVolume {
                volume: info.volume.volume,
            },
        };
        self.change(info.volume.aggregate, change)?;
        tracing::info!("deleted {} {} for good", kind(info).noun(), info.name);
        Ok(())
    }
}

/// What an object in the trash is: for a LUN or a snapshot the volume that it is of, the name that
/// it had there, and its number.
enum What<'a> {
    Lun {
        volume: &'a str,
        had: &'a str,
        lun: u32,
    },
    Snapshot {
        volume: &'a str,
        had: &'a str,
        snapshot: u32,
    },
    Volume,
}

fn what(info: &TrashInfo) -> What<'_> {
    let (lun, snapshot) = (info.name.split_once('/'), info.name.split_once('@'));
    match (lun.zip(info.lun), snapshot.zip(info.snapshot)) {
        (Some(((volume, had), lun)), _) => What::Lun { volume, had, lun },
        (None, Some(((volume, had), snapshot))) => What::Snapshot {
            volume,
            had,
            snapshot,
        },
        (None, None) => What::Volume,
    }
}

fn kind(info: &TrashInfo) -> TrashKind {
    match what(info) {
        What::Lun { .. } => TrashKind::Lun,
        What::Snapshot { .. } => TrashKind::Snapshot,
        What::Volume => TrashKind::Volume,
    }
}

impl TrashRounds {
    /// Removes what has been in the trash for long enough. Returns what happened.
    pub(crate) fn round(&mut self, administrator: &Administrator) -> Vec<Notice> {
        let mut notices = self.tell_purged(administrator);
        let now = administrator.now().0;
        let is_over = |info: &&TrashInfo| {
            // A clock that was set back makes nothing older.
            now.saturating_sub(info.deleted_seconds) >= administrator.trash_keep
        };
        let online = administrator.engine.online();
        let known = administrator.engine.trash();
        let known = known
            .iter()
            .filter(|info| online.contains(&info.volume.aggregate));
        let mut left = Vec::new();
        for info in known.clone().filter(is_over) {
            left.push((info, "left the trash, its time is over"));
        }
        let aggregates = match known.clone().next() {
            Some(_) => administrator.aggregates().aggregates,
            // Mostly; then the round is to cost nothing.
            None => Vec::new(),
        };
        for aggregate in aggregates {
            let oldest = known.clone().find(|info| info.aggregate == aggregate.name);
            // One at a time, since the host gets its space back a little later.
            if let Some(info) = oldest
                && host_shortage(&aggregate).is_some()
                && aggregate.pending_free_bytes == 0
                && !is_over(&info)
            {
                left.push((info, "left the trash, because the host is short of space"));
            }
        }
        for (info, text) in left {
            // The next round tries again what is refused now.
            if administrator.purge_known(info).is_ok() {
                notices.push(Notice {
                    object: format!("{} {}", kind(info).noun(), info.name),
                    is_warning: false,
                    text: text.to_owned(),
                });
            }
        }
        self.forget_gone(administrator);
        notices
    }

    /// Tells what left because space was short.
    fn tell_purged(&mut self, administrator: &Administrator) -> Vec<Notice> {
        let mut notices = Vec::new();
        for info in administrator.engine.aggregates() {
            let uuid = Uuid(info.uuid).to_string();
            let told = self.purged.insert(uuid, info.purged.count).unwrap_or(0);
            let new = info.purged.count.saturating_sub(told);
            if new > 0 {
                let others = match new {
                    1 => String::new(),
                    _ => format!(", and {} before it", new - 1),
                };
                notices.push(Notice {
                    object: format!("aggregate {}", info.name),
                    is_warning: true,
                    text: format!(
                        "space was short: {} left the trash for good{others}",
                        info.purged.last
                    ),
                });
            }
        }
        notices
    }

    /// Forgets limits and reservations of what has left for good.
    fn forget_gone(&mut self, administrator: &Administrator) {
        let known = administrator.engine.trash();
        let uuids = known.iter();
        let uuids = uuids.flat_map(|info| info.luns.iter().chain([&info.id]).copied());
        let now: BTreeSet<LunUuid> = uuids.collect();
        let left = self.uuids.difference(&now).copied();
        let left: Vec<LunUuid> = left.collect();
        self.uuids = now;
        if left.is_empty() {
            return;
        }
        let luns = administrator.engine.luns().into_iter();
        let mut here: BTreeSet<LunUuid> = luns.map(|lun| lun.uuid).collect();
        here.extend(administrator.engine.volume_uuids().into_keys());
        let gone = left.into_iter().filter(|lun| !here.contains(lun));
        let gone: Vec<LunUuid> = gone.collect();
        if !gone.is_empty() {
            administrator.forget_reservations(&gone);
        }
    }
}
