//! A volume's superblock, read through its container.

use everglade_format::volume::SUPERBLOCK_VVBN;
use everglade_format::{Pointer, VolumeSuperblock};

use crate::bad::BadBlocks;
use crate::filesystem::{FileSystem, pointer_at};
use crate::findings::Findings;
use crate::problem::{Kind, ProblemPlace};
use crate::tree;

pub(crate) fn read_superblock(
    fs: &FileSystem<'_>,
    bad: &mut BadBlocks,
    findings: &mut Findings,
) -> Option<(VolumeSuperblock, Pointer)> {
    let inside = fs.inside.as_ref()?;
    let object = fs.object();
    let kind = Kind::VolumeSuperblockDamaged;
    let vvbn = SUPERBLOCK_VVBN.0;
    // A container that cannot be read was reported.
    let slot = pointer_at(inside.aggregate, inside.container, vvbn).ok()?;
    let mut place = ProblemPlace::at_vvbn(vvbn);
    if slot.is_hole() {
        findings.add(kind, &object, place, "a superblock", "a hole");
        return None;
    }
    place.pvbn = Some(slot.pvbn);
    let block = match fs.media.read(slot.pvbn, slot.tag) {
        Ok(block) => block,
        Err(fault) => {
            // Reported here, under the volume.
            bad.remove(&(inside.volume, vvbn));
            tree::content_fault(findings, &object, place, slot.tag, &fault);
            return None;
        }
    };
    let superblock = match VolumeSuperblock::decode(&block, inside.volume, &fs.media.uuid) {
        Ok(superblock) => superblock,
        Err(damage) => {
            findings.damage(kind, &object, place, &damage);
            return None;
        }
    };
    if superblock.cp > fs.cp {
        let expected = format_args!("consistency point {} at most", fs.cp);
        findings.add(Kind::StampAhead, &object, place, expected, superblock.cp);
    }
    Some((superblock, slot))
}
