//! The kinds of side files.

use everglade_format::Kind as FileKind;

/// True for the kinds of side files.
pub(crate) fn is_side(kind: FileKind) -> bool {
    name(kind).is_some()
}

/// Its name for people.
pub(crate) fn name(kind: FileKind) -> Option<&'static str> {
    match kind {
        FileKind::Summary => Some("summary map"),
        FileKind::Snapshots => Some("snapshot table"),
        FileKind::Release => Some("release file"),
        FileKind::Metafile | FileKind::Lun | FileKind::Container => None,
    }
}
