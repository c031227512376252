//! Bad blocks: the blocks that are known to be unreadable, and the problem that names each of them.

use std::collections::BTreeMap;

use everglade_format::FileId;

use crate::files::Files;
use crate::filesystem::FileSystem;
use crate::findings::Findings;
use crate::media::Fault;
use crate::reference::Reference;
use crate::tree;

/// A block of a volume whose content is not what the container expects.
pub(crate) struct Bad {
    pub(crate) reference: Reference,
    pub(crate) fault: Fault,
}

/// Bad blocks by container and vvbn.
pub(crate) type BadBlocks = BTreeMap<(FileId, u64), Bad>;

/// Reports a bad block under the file of the aggregate that owns it.
pub(crate) fn report_bad(
    fs: &FileSystem<'_>,
    files: &Files,
    reference: &Reference,
    fault: &Fault,
    findings: &mut Findings,
) {
    let object = files.object_of(fs, reference.file);
    let place = reference.place_in_aggregate();
    tree::content_fault(findings, &object, place, reference.tag, fault);
}
