//! Scans of a volume's snapshots, as administrators see and slow them (F-10 … F-14).

use everglade_api::{Condition, Problem, Scan, SetScan};
use everglade_engine::admin;

use super::administrator::Administrator;
use super::pauses;
use super::units::bytes;
use crate::records::course::percent;

impl Administrator {
    /// Returns the background work for a volume's snapshots.
    ///
    /// # Errors
    /// No volume has this name.
    pub fn scan(&self, volume: &str) -> Result<Scan, Problem> {
        let volumes = self.engine.volumes();
        let info = volumes.into_iter().find(|known| known.name == volume);
        let info = info.ok_or_else(|| Problem::not_found("volume", volume))?;
        let scan = info.scan;
        let percent = percent(scan.done.min(scan.total), scan.total);
        Ok(Scan {
            volume: info.name,
            kind: scan.kind.to_owned(),
            deleted_count: scan.victims,
            waiting_count: scan.waiting,
            percent: percent.unwrap_or(100),
            eta_seconds: scan.eta_seconds,
            way: scan.way.map(str::to_owned),
            pending_free_bytes: bytes(info.pending_blocks),
            pace_percent: scan.pace_percent,
            subtracted_maps: scan.counts.subtracted,
            added_maps: scan.counts.added,
            skipped_maps: scan.counts.skipped,
        })
    }

    /// Pauses or resumes scans.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn set_scan(&self, volume: &str, request: SetScan) -> Result<Scan, Problem> {
        let percent = request.pace_percent;
        self.change_in(
            volume,
            admin::Change::SetScanPace {
                volume: volume.to_owned(),
                percent,
            },
        )?;
        tracing::info!("scans of volume {volume} have a pace of {percent} %");
        self.scan(volume)
    }

    /// Returns a condition for each volume whose scan is paused while deleted snapshots wait for
    /// it.
    pub(super) fn paused_scans(&self) -> Vec<Condition> {
        let volumes = self.engine.volumes();
        volumes.iter().filter_map(pauses::condition).collect()
    }
}
