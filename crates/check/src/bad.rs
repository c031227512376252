//! Bad blocks: the blocks that are known to be unreadable, and the problem that names each of them.

use std::collections::BTreeMap;
use std::fmt::Display;

use everglade_format::{FileId, Pvbn};

use crate::contents::WrongCopy;
use crate::files::Files;
use crate::filesystem::FileSystem;
use crate::findings::Findings;
use crate::media::Fault;
use crate::problem::{Kind, ProblemPlace};
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

/// Reports a wrong copy of a block under the file of the aggregate that owns the block.
pub(crate) fn report_copy(
    fs: &FileSystem<'_>,
    files: &Files,
    reference: &Reference,
    copy: &WrongCopy,
    findings: &mut Findings,
) {
    let found: &dyn Display = match &copy.fault {
        Fault::Disk(error) => error,
        Fault::Tag(found) => found,
        Fault::Outside | Fault::Unmapped | Fault::Disagreement | Fault::Unknown => return,
    };
    let object = files.object_of(fs, reference.file);
    let run = fs.media.geometry.locate(Pvbn(reference.number));
    let place = ProblemPlace {
        member: Some(copy.drive.member),
        dbn: run.map(|run| run.dbn),
        ..reference.place_in_aggregate()
    };
    let tag = reference.tag;
    let expected = match copy.right {
        Some(right) => format!(
            "tag {tag}, which member {} has, so this is repairable",
            right.member
        ),
        None => format!("tag {tag}, which the rest of the stripe gives, so this is repairable"),
    };
    findings.add(Kind::CopyWrong, &object, place, expected, found);
}
