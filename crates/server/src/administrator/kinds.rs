//! Kinds of devices and of `sync`: as they are recorded, and as administrators read and write them.

use everglade_api::{DeviceKind as Shown, Sync};
use everglade_format::volume::Sync as MediaSync;

use crate::datadir::DeviceKind;

/// Returns the kind of a recorded device, for an answer.
pub(super) fn shown(kind: DeviceKind) -> Shown {
    match kind {
        DeviceKind::Directory => Shown::Directory,
        DeviceKind::File => Shown::File,
        DeviceKind::Block => Shown::Block,
    }
}

/// What a volume remembers of `sync`.
pub(super) fn on_media(sync: Sync) -> MediaSync {
    match sync {
        Sync::Standard => MediaSync::Standard,
        Sync::Always => MediaSync::Always,
    }
}
