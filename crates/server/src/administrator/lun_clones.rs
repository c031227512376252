//! Cloning LUNs inside their volumes, as administrators see and ask for it (B-15).
//!
//! A request is answered when the beginning of the clone is durable. From then on the engine
//! continues the clone, also after a restart, and clients see the LUN when it is complete.
//!
//! A clone gives no client new access: a LUN that an allow-list restricts can be cloned only to a
//! name that allows the same clients, as for a rename ([`super::renaming`]).

use everglade_api::{CloneLun, Code, Problem};
use everglade_engine::admin;

use super::administrator::Administrator;
use crate::records::clones::{CloneOverview, CloneProgress};

impl Administrator {
    /// Begins to clone a LUN.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn clone_lun(
        &self,
        volume: &str,
        lun: &str,
        request: &CloneLun,
    ) -> Result<CloneProgress, Problem> {
        self.refuse_clone_for_others(volume, lun, request)?;
        let id = self.id_of(volume)?;
        let name = request.name.to_string();
        let from = request.snapshot.as_ref().map(ToString::to_string);
        if from.is_none() {
            self.lun(volume, lun)?;
        }
        self.change(
            id.aggregate,
            admin::Change::CloneLun {
                volume: volume.to_owned(),
                lun: lun.to_owned(),
                name: name.clone(),
                from: from.clone(),
            },
        )?;
        let at = from.map_or(String::new(), |snapshot| format!("@{snapshot}"));
        tracing::info!("began to clone LUN {volume}/{lun}{at} as {volume}/{name}");
        let sights = self.lun_clones().clones.into_iter();
        let mut here = sights.filter(|progress| progress.id == id && progress.name == name);
        // It may be there already.
        Ok(here.next().unwrap_or_else(|| {
            let size_bytes = self.lun(volume, &name).map_or(0, |lun| lun.size_bytes);
            CloneProgress {
                id,
                volume: volume.to_owned(),
                name,
                done: 0,
                total: size_bytes,
                eta_seconds: None,
                failed: None,
                code: None,
            }
        }))
    }

    /// Ends the making of a clone.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn cancel_lun_clone(&self, volume: &str, name: &str) -> Result<(), Problem> {
        let aggregate = self.aggregate_of(volume)?;
        let change = admin::Change::CancelLunClone {
            volume: volume.to_owned(),
            name: name.to_owned(),
        };
        self.change(aggregate, change)
            .map_err(|problem| match problem.code == Code::NotFound {
                true => Problem::new(
                    Code::NotCancellable,
                    format!("the clone {volume}/{name} is there already, or has ended"),
                ),
                false => problem,
            })?;
        tracing::info!("cancelled the clone {volume}/{name}");
        Ok(())
    }

    /// Returns the state of all clones.
    #[must_use]
    pub fn lun_clones(&self) -> CloneOverview {
        // In this order: a clone that is not being made any more is among the LUNs.
        let volumes = self.engine.volumes().into_iter();
        let clones = volumes.filter_map(|volume| {
            let info = volume.lun_clone?;
            Some(CloneProgress {
                id: volume.id,
                volume: volume.name,
                name: info.name,
                done: info.done_bytes,
                total: info.total_bytes,
                eta_seconds: info.eta_seconds,
                failed: info.failed,
                code: info.found_no_space.then_some(Code::NoSpace),
            })
        });
        let clones = clones.collect();
        let luns = self.engine.luns().into_iter();
        let luns = luns.filter_map(|lun| {
            let (_, name) = lun.name.split_once('/')?;
            Some((lun.volume, name.to_owned()))
        });
        CloneOverview {
            clones,
            luns: luns.collect(),
        }
    }
}
