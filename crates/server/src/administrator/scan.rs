//! Scans of a volume's snapshots, as administrators see and slow them (F-10 … F-14).
//!
//! A pause lasts, also across restarts. So while deleted snapshots wait for a scan that is paused,
//! `status` warns, and the jobs that free space in the aggregate say why they do not go on.

use everglade_api::{Code, Condition, Health, Problem, Scan, SetScan, Size};
use everglade_engine::{VolumeInfo, admin};

use super::administrator::Administrator;
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
        volumes.iter().filter_map(paused).collect()
    }
}

/// Number of deleted snapshots that wait for a scan of the volume; none if the scan is not paused.
fn held_by_pause(volume: &VolumeInfo) -> Option<u64> {
    let scan = &volume.scan;
    let count = scan.victims + scan.waiting;
    (scan.pace_percent == 0 && count > 0).then_some(count)
}

fn paused(volume: &VolumeInfo) -> Option<Condition> {
    let code = Code::ScanPaused;
    let what = match held_by_pause(volume)? {
        1 => "1 deleted snapshot waits".to_owned(),
        count => format!("{count} deleted snapshots wait"),
    };
    Some(Condition {
        code: code.to_string(),
        health: Health::Warning,
        object: format!("volume {}", volume.name),
        what: format!(
            "its scan is paused, and {what} for it; about {} are not freed before it goes on",
            Size(bytes(volume.pending_blocks))
        ),
        action: format!(
            "'everglade snapshot scan {} --resume' lets it go on; a pool that is short of space \
            does so by itself",
            volume.name
        ),
        page: code.page(),
    })
}

/// Returns why deletions in an aggregate wait: the scan of one of its volumes is paused.
pub(super) fn held_in(aggregate: &str, volumes: &[VolumeInfo]) -> Option<String> {
    let mut here = volumes
        .iter()
        .filter(|volume| volume.aggregate == aggregate);
    let volume = here.find(|volume| held_by_pause(volume).is_some())?;
    Some(format!(
        "the scan of volume {0} is paused; 'everglade snapshot scan {0} --resume' lets it go on",
        volume.name
    ))
}
