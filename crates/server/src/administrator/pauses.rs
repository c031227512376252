//! Pauses of scans that hold deletions. A pause lasts, also across restarts. So while deleted
//! snapshots wait for a scan that is paused, `status` warns, and the jobs that free space in the
//! aggregate say why they do not go on.

use everglade_api::{Code, Condition, Health, Size};
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
