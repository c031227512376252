//! Snapshots, as administrators see and change them (F-01, F-05, F-10, F-16).
//!
//! The engine reports a snapshot's numbers as of the last consistency point. The engine makes every
//! change, so a change happens as a whole or not at all. A restore that discards newer snapshots
//! names the snapshots that it may discard. If another snapshot is taken meanwhile, or one of them
//! is held or opened, the restore is refused and changes nothing.

use everglade_api::{
    Code, CreateSnapshot, HoldSnapshot, Moment, Problem, RenameSnapshot, RestoreSnapshot, Restored,
    Size, Snapshot, Snapshots, Taken,
};
use everglade_engine::{SnapshotInfo, admin};

use super::administrator::{Administrator, Deleted, not_changed};
use super::units::in_trash;
use crate::plane::control::Timing;

/// Nanoseconds of a second, and of a microsecond.
const SECOND: u64 = 1_000_000_000;
const MICROSECOND: u64 = 1_000;

impl Administrator {
    /// Returns the snapshots of a volume, in order of creation.
    ///
    /// # Errors
    /// No volume has this name.
    pub fn snapshots(&self, volume: &str) -> Result<Snapshots, Problem> {
        self.aggregate_of(volume)?;
        let known = self.engine.snapshots(volume);
        Ok(Snapshots {
            snapshots: known.iter().map(|info| view(volume, info)).collect(),
        })
    }

    /// Returns one snapshot.
    ///
    /// # Errors
    /// The volume or the snapshot does not exist.
    pub fn snapshot(&self, volume: &str, name: &str) -> Result<Snapshot, Problem> {
        self.aggregate_of(volume)?;
        let found = self.engine.snapshot(volume, name);
        found
            .map(|info| view(volume, &info))
            .ok_or_else(|| Problem::not_found("snapshot", format!("{volume}@{name:.64}")))
    }

    /// Takes a snapshot.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn create_snapshot(
        &self,
        volume: &str,
        request: &CreateSnapshot,
    ) -> Result<Snapshot, Problem> {
        let name = request.name.as_str();
        let timing = self.change_in(
            volume,
            admin::Change::CreateSnapshot {
                volume: volume.to_owned(),
                name: name.to_owned(),
            },
        )?;
        tracing::info!("took snapshot {volume}@{name}");
        let snapshot = self.snapshot(volume, name);
        let snapshot = snapshot.map_err(Problem::after_change)?;
        Ok(Snapshot {
            taken: Some(taken(self.now(), timing)),
            ..snapshot
        })
    }

    /// Gives a snapshot another name.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn rename_snapshot(
        &self,
        volume: &str,
        name: &str,
        request: &RenameSnapshot,
    ) -> Result<Snapshot, Problem> {
        let snapshot = self.snapshot(volume, name)?;
        let to = request.name.as_str();
        if to == name {
            return Ok(snapshot);
        }
        for export in &snapshot.nbd_exports {
            let (lun, _) = export
                .split_once('@')
                .expect("exports are VOLUME/LUN@SNAPSHOT");
            self.refuse_other_callers(export, &format!("{lun}@{to}"))?;
        }
        self.change_in(
            volume,
            admin::Change::RenameSnapshot {
                volume: volume.to_owned(),
                name: name.to_owned(),
                to: to.to_owned(),
            },
        )?;
        tracing::info!("renamed snapshot {volume}@{name} to {to}");
        self.snapshot(volume, to).map_err(Problem::after_change)
    }

    /// Puts a snapshot into the trash, or removes it.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn delete_snapshot(
        &self,
        volume: &str,
        name: &str,
        purge: bool,
    ) -> Result<Deleted, Problem> {
        let snapshot = self.snapshot(volume, name)?;
        let aggregate = self.aggregate_of(volume)?;
        let kept_until = self.trash_until(purge);
        let change = match kept_until {
            Some(_) => admin::Change::TrashSnapshot {
                volume: volume.to_owned(),
                name: name.to_owned(),
            },
            None => deletion(volume, name),
        };
        self.change(aggregate, change)?;
        tracing::info!("deleted snapshot {volume}@{name}{}", in_trash(kept_until));
        Ok(Deleted {
            kept_until,
            pending: self.pending_of(aggregate),
            detail: format!(
                "of {}, {} of its own",
                snapshot.created,
                Size(snapshot.exclusive_bytes).said()
            ) + &in_trash(kept_until),
        })
    }

    /// Keeps a snapshot from being deleted.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn hold_snapshot(
        &self,
        volume: &str,
        name: &str,
        request: &HoldSnapshot,
    ) -> Result<Snapshot, Problem> {
        self.change_in(
            volume,
            admin::Change::HoldSnapshot {
                volume: volume.to_owned(),
                name: name.to_owned(),
                tag: request.tag.to_string(),
            },
        )?;
        self.snapshot(volume, name).map_err(Problem::after_change)
    }

    /// Takes a hold away.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn release_snapshot(
        &self,
        volume: &str,
        name: &str,
        request: &HoldSnapshot,
    ) -> Result<Snapshot, Problem> {
        self.change_in(
            volume,
            admin::Change::ReleaseSnapshot {
                volume: volume.to_owned(),
                name: name.to_owned(),
                tag: request.tag.to_string(),
            },
        )?;
        self.snapshot(volume, name).map_err(Problem::after_change)
    }

    /// Makes the image of a snapshot the active one, or returns what would happen.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn restore_volume(
        &self,
        volume: &str,
        name: &str,
        request: &RestoreSnapshot,
    ) -> Result<Restored, Problem> {
        let aggregate = self.aggregate_of(volume)?;
        let target = self.snapshot(volume, name)?;
        let known = self.snapshots(volume)?.snapshots;
        let safety = match &request.safety_snapshot {
            Some(name) => name.to_string(),
            None => safety_name(self.now(), &known),
        };
        if known.iter().any(|snapshot| snapshot.name == safety) {
            let text = format!("snapshot {volume}@{safety} exists already; choose another name");
            return Err(Problem::new(Code::Exists, text));
        }
        let newer = known.into_iter().filter(|known| known.id > target.id);
        let newer: Vec<_> = newer.filter(|_| request.discard_newer).collect();
        refuse_kept(volume, &newer)?;
        let lun = request.lun.as_ref().map(ToString::to_string);
        if let Some(lun) = &lun {
            // The freeze checks this too. This check is for a request that only asks what would
            // happen.
            let checked = self.engine.check_restore_lun(volume, name, lun);
            checked.map_err(not_changed)?;
        }
        let mut restored = Restored {
            volume: volume.to_owned(),
            snapshot: target.name,
            lun: lun.clone(),
            dry_run: request.dry_run,
            safety_snapshot: (!request.discard_newer).then(|| safety.clone()),
            discarded: newer,
            taken: None,
        };
        if request.dry_run {
            return Ok(restored);
        }
        let (volume_name, snapshot) = (volume.to_owned(), name.to_owned());
        let change = match lun {
            None if request.discard_newer => admin::Change::RollBackVolume {
                volume: volume_name,
                snapshot,
                discards: names(&restored.discarded),
            },
            None => admin::Change::RestoreVolume {
                volume: volume_name,
                snapshot,
                safety: safety.clone(),
            },
            Some(lun) => admin::Change::RestoreLun {
                volume: volume_name,
                snapshot,
                lun,
                safety: safety.clone(),
            },
        };
        let timing = self.change(aggregate, change)?;
        restored.taken = Some(taken(self.now(), timing));
        let what = match &restored.lun {
            None => format!("volume {volume}"),
            Some(lun) => format!("LUN {volume}/{lun}"),
        };
        match &restored.safety_snapshot {
            Some(safety) => {
                tracing::info!("restored {what} to {name}; what was active is {volume}@{safety}");
            }
            None => tracing::info!(
                "restored {what} to {name}; what was active is gone, and so is what was newer: {}",
                names(&restored.discarded).join(", ")
            ),
        }
        Ok(restored)
    }
}

fn names(snapshots: &[Snapshot]) -> Vec<String> {
    let name = |snapshot: &Snapshot| snapshot.name.clone();
    snapshots.iter().map(name).collect()
}

pub(super) fn deletion(volume: &str, name: &str) -> admin::Change {
    admin::Change::DeleteSnapshot {
        volume: volume.to_owned(),
        name: name.to_owned(),
    }
}

/// Refuses a restore to before snapshots that must be kept.
fn refuse_kept(volume: &str, newer: &[Snapshot]) -> Result<(), Problem> {
    let reason = |snapshot: &Snapshot| match snapshot.holds.as_slice() {
        [] if snapshot.is_exported => Some(format!(
            "snapshot {volume}@{} is exported to a client; disconnect the client first",
            snapshot.name
        )),
        [] if !snapshot.clones.is_empty() => Some(format!(
            "snapshot {volume}@{} is the base of {}; {}",
            snapshot.name,
            snapshot.clones.join(", "),
            snapshot.remedy_of_clones()
        )),
        [] => None,
        holds => Some(format!(
            "snapshot {volume}@{} is held by {}; release the holds first",
            snapshot.name,
            holds.join(", ")
        )),
    };
    match newer.iter().find_map(reason) {
        None => Ok(()),
        Some(reason) => Err(Problem::new(
            Code::InUse,
            format!("{reason}, or restore without discarding what is newer"),
        )),
    }
}

/// Returns `before-restore-20261122-041500`, with a number appended if the name is taken.
fn safety_name(now: Moment, known: &[Snapshot]) -> String {
    let time = now.to_string().replace('T', "-");
    // The dashes of the date go, the one before the time stays.
    let (date, clock) = time.split_at(10);
    let digits = |text: &str| text.replace(|c: char| !c.is_ascii_digit(), "");
    let first = format!("before-restore-{}-{}", digits(date), digits(clock));
    let is_taken = |name: &str| known.iter().any(|snapshot| snapshot.name == name);
    let mut names =
        std::iter::once(first.clone()).chain((2..).map(|number: u32| format!("{first}-{number}")));
    names
        .find(|name| !is_taken(name))
        .expect("there are more numbers than snapshots")
}

/// Returns the times of a snapshot: durable at `now`, and taken the measured interval earlier.
fn taken(now: Moment, timing: Timing) -> Taken {
    let ago = timing.durable.saturating_sub(timing.executed) / SECOND;
    Taken {
        taken_at: Moment(now.0.saturating_sub(ago)).to_string(),
        durable_at: now.to_string(),
        taken_us: timing.executed / MICROSECOND,
        durable_us: timing.durable / MICROSECOND,
    }
}

fn view(volume: &str, info: &SnapshotInfo) -> Snapshot {
    let export = |lun: &String| format!("{volume}/{lun}@{}", info.name);
    Snapshot {
        name: info.name.clone(),
        volume: volume.to_owned(),
        object: format!("{volume}@{}", info.name),
        id: u64::from(info.id),
        parent: info.parent_name.clone(),
        created: Moment(info.created_seconds).to_string(),
        consistency_point: info.cp,
        logical_bytes: info.logical_bytes,
        exclusive_bytes: info.exclusive_bytes,
        pending_delete_bytes: info.pending_delete_bytes,
        holds: info.holds.clone(),
        is_exported: info.is_exported,
        nbd_exports: info.luns.iter().map(export).collect(),
        clones: info.clones.clone(),
        is_clone_base: info.is_base,
        taken: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(name: &str, holds: &[&str], is_exported: bool) -> Snapshot {
        let info = SnapshotInfo {
            name: name.to_owned(),
            id: 1,
            parent: None,
            parent_name: None,
            created_seconds: 0,
            cp: 1,
            logical_bytes: 0,
            exclusive_bytes: 0,
            pending_delete_bytes: 0,
            holds: holds.iter().map(|hold| (*hold).to_owned()).collect(),
            is_exported,
            luns: Vec::new(),
            clones: Vec::new(),
            is_base: false,
        };
        view("v", &info)
    }

    #[test]
    fn the_safety_snapshot_is_named_by_the_time_and_never_twice() {
        let now = Moment(1_704_067_199);
        let first = "before-restore-20231231-235959";
        assert_eq!(safety_name(now, &[]), first);
        let known = [snapshot(first, &[], false)];
        assert_eq!(safety_name(now, &known), format!("{first}-2"));
    }

    #[test]
    fn what_must_stay_stands_in_the_way_of_discarding() {
        assert_eq!(refuse_kept("v", &[snapshot("s", &[], false)]), Ok(()));
        let base = Snapshot {
            clones: vec!["c".to_owned(), "d".to_owned()],
            ..snapshot("s", &[], false)
        };
        for (found, part) in [
            (snapshot("s", &["backup"], false), "v@s is held by backup"),
            (snapshot("s", &[], true), "v@s is exported"),
            (base, "v@s is the base of c, d"),
        ] {
            let problem = refuse_kept("v", &[found]).expect_err(part);
            assert_eq!(problem.code, Code::InUse);
            assert!(problem.detail.contains(part), "{problem}");
        }
    }

    #[test]
    fn taken_is_before_durable() {
        let timing = Timing {
            executed: 2_000_000,
            durable: 3_000_000_000,
        };
        let found = taken(Moment(100), timing);
        assert_eq!((found.taken_us, found.durable_us), (2_000, 3_000_000));
        assert_eq!(found.taken_at, Moment(98).to_string());
        assert_eq!(found.durable_at, Moment(100).to_string());
    }
}
