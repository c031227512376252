//! The volumes as the schedule of snapshots sees them.

use everglade_api::Problem;
use everglade_engine::admin;

use super::administrator::Administrator;
use super::snapshots::deletion;
use crate::schedule::{SnapshotEntry, Volumes};

impl Administrator {
    /// Changes volumes, wherever they are, in as few consistency points as possible.
    fn change_volumes(
        &self,
        changes: &[(String, String)],
        change: impl Fn(&str, &str) -> admin::Change,
    ) -> Vec<Result<(), Problem>> {
        let places: Vec<_> = changes
            .iter()
            .map(|(volume, _)| self.aggregate_of(volume))
            .collect();
        let asked = places.iter().zip(changes);
        let asked = asked.filter_map(|(place, (volume, name))| {
            let aggregate = place.as_ref().ok()?;
            Some((*aggregate, change(volume, name)))
        });
        let mut answers = self.change_all(asked).into_iter();
        let answer = |place: Result<u32, Problem>| {
            place?;
            let answer = answers.next().expect("one for each that was asked");
            answer.map(drop)
        };
        places.into_iter().map(answer).collect()
    }

    /// The snapshots of a volume; none if there is no such volume.
    pub(crate) fn seen(&self, volume: &str) -> Vec<SnapshotEntry> {
        let snapshots = self.engine.snapshots(volume).into_iter();
        snapshots
            .map(|info| SnapshotEntry {
                id: u64::from(info.id),
                obstacle: match info.holds.as_slice() {
                    [] if info.is_exported => Some("open in a client".to_owned()),
                    [] if !info.clones.is_empty() => {
                        Some(format!("the base of {}", info.clones.join(", ")))
                    }
                    [] if info.is_base => Some("what this clone began as".to_owned()),
                    [] => None,
                    holds => Some(format!("held by {}", holds.join(", "))),
                },
                name: info.name,
            })
            .collect()
    }
}

impl Volumes for Administrator {
    fn snapshots(&self, volume: &str) -> Option<Vec<SnapshotEntry>> {
        self.aggregate_of(volume).ok()?;
        Some(self.seen(volume))
    }

    fn take(&self, wanted: &[(String, String)]) -> Vec<Result<u64, String>> {
        let change = |volume: &str, name: &str| admin::Change::CreateSnapshot {
            volume: volume.to_owned(),
            name: name.to_owned(),
        };
        let results = self.change_volumes(wanted, change).into_iter().zip(wanted);
        results
            .map(|(result, (volume, name))| {
                result.map_err(|problem| problem.to_string())?;
                let mut seen = self.seen(volume).into_iter();
                let found = seen.find(|seen| seen.name == *name);
                // If somebody renamed or deleted the snapshot meanwhile, the policy no longer owns
                // it.
                Ok(found.map_or(0, |seen| seen.id))
            })
            .collect()
    }

    fn delete(&self, doomed: &[(String, String)]) -> Vec<Result<(), String>> {
        let results = self.change_volumes(doomed, deletion).into_iter();
        results
            .map(|result| result.map_err(|problem| problem.to_string()))
            .collect()
    }
}
