//! Pauses of scans that hold deletions. A pause lasts, also across restarts. So while deleted
//! snapshots wait for a scan that is paused, `status` warns, and the jobs that free space in the
//! aggregate say why they do not go on.

use everglade_api::{Code, Condition, Health, Size, counted};
use everglade_engine::VolumeInfo;

use super::units::bytes;

/// Number of deleted snapshots that wait for a scan of the volume; none if the scan is not paused.
fn held_by_pause(volume: &VolumeInfo) -> Option<u64> {
    let scan = &volume.scan;
    let count = scan.victims + scan.waiting;
    (scan.pace_percent == 0 && count > 0).then_some(count)
}

/// Returns the condition of a volume whose scan is paused while deleted snapshots wait for it.
pub(super) fn condition(volume: &VolumeInfo) -> Option<Condition> {
    let code = Code::ScanPaused;
    let what = counted(held_by_pause(volume)?, "deleted snapshot");
    Some(Condition {
        code: code.to_string(),
        health: Health::Warning,
        object: format!("volume {}", volume.name),
        what: format!(
            "its scan is paused, so the space of {what} (about {}) is not freed",
            Size(bytes(volume.pending_blocks))
        ),
        action: format!(
            "run 'everglade snapshot scan {} --resume'; a pool that is short of space runs the \
            scan in any case",
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
        "the scan of volume {0} is paused; run 'everglade snapshot scan {0} --resume'",
        volume.name
    ))
}
