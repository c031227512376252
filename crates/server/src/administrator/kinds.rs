//! Kinds of devices: as they are recorded, and as administrators read them.

use everglade_api::DeviceKind as Shown;

use crate::datadir::DeviceKind;

/// Returns the kind of a recorded device, for an answer.
pub(super) fn shown(kind: DeviceKind) -> Shown {
    match kind {
        DeviceKind::Directory => Shown::Directory,
        DeviceKind::File => Shown::File,
        DeviceKind::Block => Shown::Block,
    }
}
