//! Volumes: each one's trees, Definition 1 over vvbns, and the container beside them (O-04).

use std::sync::Arc;

use everglade_format::volume::{SUPERBLOCK_VVBN, VOLUME_AREA_BLOCKS};
use everglade_format::{FileId, Inode, Kind as FileKind, Pointer, metafile};

use crate::bad::{Bad, BadBlocks, report_bad};
use crate::clones::{self, Clones};
use crate::files::{self, Files};
use crate::filesystem::{FileSystem, Inside};
use crate::findings::Findings;
use crate::problem::{Kind, Object};
use crate::reference::{Reference, References};
use crate::report::Counts;
use crate::sides::Sides;
use crate::snapshots::{self, Strays, Volume};
use crate::superblock::read_superblock;
use crate::tree;
use crate::usage::{Claims, Frontiers, Number, Usage, owner};

/// Verifies every volume that is not being deleted.
pub(crate) fn check_all(
    aggregate: &FileSystem<'_>,
    files: &Files,
    mut bad: BadBlocks,
    findings: &mut Findings,
    counts: &mut Counts,
    progress: &mut dyn FnMut(u64),
) {
    let mut sides = Sides::default();
    let mut clones = Clones::default();
    for (id, container) in &files.inodes.all {
        if *id < metafile::FIRST_FILE || container.kind != FileKind::Container {
            continue;
        }
        let name = match files.names.of.get(id) {
            Some(name) if name.hidden => {
                counts.hidden_files += 1;
                continue;
            }
            Some(name) => name.text.clone(),
            // If the directory cannot be read, it may have named this volume.
            None if files.names.partial => "(name lost)".into(),
            None => continue,
        };
        counts.volumes += 1;
        let outside = Outside { aggregate, files };
        let mut beside = (&mut sides, &mut clones);
        if !outside.check(container, name, &mut beside, &mut bad, findings, counts) {
            sides.is_partial = true;
            clones.unread.insert(*id);
        }
        progress(counts.volume_blocks_used);
    }
    sides.finish(aggregate, files, findings);
    clones.finish(findings);
    for Bad { reference, fault } in bad.values() {
        report_bad(aggregate, files, reference, fault, findings);
    }
}

/// The surroundings of volumes: their aggregate.
struct Outside<'o> {
    aggregate: &'o FileSystem<'o>,
    files: &'o Files,
}

impl Outside<'_> {
    /// Verifies a volume. False if its superblock cannot be read.
    fn check(
        &self,
        container: &Inode,
        name: Arc<str>,
        beside: &mut (&mut Sides, &mut Clones),
        bad: &mut BadBlocks,
        findings: &mut Findings,
        counts: &mut Counts,
    ) -> bool {
        let aggregate = self.aggregate;
        let fs = FileSystem {
            has_lost: false,
            media: aggregate.media,
            cp: aggregate.cp,
            inside: Some(Inside {
                volume: container.id,
                name,
                aggregate,
                container,
                above: clones::containers_above(aggregate, self.files, container),
            }),
        };
        let Some((superblock, pointer)) = read_superblock(&fs, bad, findings) else {
            return false;
        };
        let fs = FileSystem {
            has_lost: superblock.lost > 0,
            ..fs
        };
        let walk = |references: &mut References, findings: &mut Findings| {
            let own = SUPERBLOCK_VVBN.0;
            references.push(Reference::new(own, FileId(0), 0, 0, &pointer));
            let root = &superblock.inode_file;
            files::walk(&fs, root, superblock.next_file, findings, references)
        };
        let mut references = References::new(0);
        let files = walk(&mut references, findings);
        touch_container(&fs, &mut references);
        let claims = Claims {
            blocks_used: superblock.blocks_used,
            areas_used: None,
            area_blocks: VOLUME_AREA_BLOCKS,
            frontiers: Frontiers::Volume(superblock.frontier),
            may_be_restored: superblock.snapshots.files.is_some(),
        };
        let mut usage = Usage::new(&fs, &files, claims);
        let judge = Judge {
            fs: &fs,
            files: &files,
            is_alone: superblock.snapshots.files.is_none(),
        };
        let mut strays = Strays::default();
        let touched = std::mem::take(&mut references.touched);
        for (position, window) in touched.into_iter().enumerate() {
            if position > 0 || window > 0 {
                references = References::new(window);
                findings.mute(true);
                walk(&mut references, findings);
                findings.mute(false);
            }
            references.sort();
            usage.window(&references, findings, &mut |findings, number| {
                judge.compare(number, findings);
                if let Some(is_marked) = number.marked {
                    let there = i64::try_from(number.references.len()).unwrap_or(i64::MAX);
                    let counted = i64::from(is_marked) + i64::from(number.count.unwrap_or(0));
                    strays.add(number.number, there - counted);
                }
                judge.name_bad(number, bad, findings);
                counts.stale_hints += judge.stale_hints(number);
            });
        }
        usage.finish(findings);
        count(&files, &usage, counts);
        let volume = Volume {
            fs: &fs,
            superblock: &superblock,
            files: &files,
            aggregate_files: self.files,
        };
        snapshots::check(&volume, strays, beside, bad, findings, counts);
        true
    }
}

/// The windows in which the container has blocks must be compared as well.
fn touch_container(fs: &FileSystem<'_>, references: &mut References) {
    let Some(inside) = &fs.inside else { return };
    let object = Object::Aggregate;
    let file = tree::File {
        inode: inside.container,
        object: &object,
        leaves: tree::Leaves::Opaque,
        range: 0..u64::MAX,
        bounded: false,
    };
    let mut reported_before = Findings::deaf();
    tree::walk(
        inside.aggregate,
        &file,
        &mut reported_before,
        &mut |_, visit| {
            if let tree::Visit::Reference {
                level: 0, index, ..
            } = visit
            {
                references.touch(index);
            }
        },
    );
}

/// Compares what a volume says of its blocks with what its container says.
struct Judge<'j> {
    fs: &'j FileSystem<'j>,
    files: &'j Files,
    /// True without snapshots: a block that the active image does not hold has no holder.
    is_alone: bool,
}

impl Judge<'_> {
    fn compare(&self, number: &Number<'_>, findings: &mut Findings) {
        let inherited = self.inherited(number);
        let slot = inherited.as_ref().unwrap_or(&number.slot);
        if slot.is_hole() {
            let in_use = number.marked == Some(true) || !number.references.is_empty();
            if in_use && number.slot_known && number.number != 0 {
                let (object, place) = owner(self.fs, self.files, number.references.first(), number);
                let expected = "a block in the container";
                findings.add(Kind::ContainerHole, &object, place, expected, "a hole");
            }
            return;
        }
        if self.is_alone && number.marked == Some(false) && number.references.is_empty() {
            let (object, place) = owner(self.fs, self.files, None, number);
            let expected = "a hole in the container for a free block";
            let found = format_args!("pvbn {}", slot.pvbn);
            findings.add(Kind::ContainerExtra, &object, place, expected, found);
        }
        for reference in number.references {
            if reference.tag != slot.tag {
                let (object, place) = owner(self.fs, self.files, Some(reference), number);
                let expected = format_args!("tag {} as in the container", slot.tag);
                findings.add(Kind::ContainerTag, &object, place, expected, reference.tag);
            }
        }
    }

    /// For a clone, the slot of a block of its base.
    fn inherited(&self, number: &Number<'_>) -> Option<Pointer> {
        let inside = self.fs.inside.as_ref()?;
        let is_base = number.slot.is_hole() && !inside.above.is_empty();
        is_base.then(|| inside.slot(number.number).ok()).flatten()
    }

    /// Reports a bad block under the files that refer to it. Blocks that the walk read were
    /// reported by it.
    fn name_bad(&self, number: &Number<'_>, bad: &mut BadBlocks, findings: &mut Findings) {
        let Some(inside) = &self.fs.inside else {
            return;
        };
        let key = (inside.volume, number.number);
        if number.references.is_empty() {
            return;
        }
        let Some(Bad { reference, fault }) = bad.remove(&key) else {
            return;
        };
        for it in number.references {
            if it.is_user_leaf() || it.is_overflow_leaf() {
                let (object, place) = owner(self.fs, self.files, Some(it), number);
                tree::content_fault(findings, &object, place, reference.tag, &fault);
            }
        }
    }

    fn stale_hints(&self, number: &Number<'_>) -> u64 {
        let stale = |r: &&Reference| !number.slot.is_hole() && r.cached != number.slot.pvbn;
        number.references.iter().filter(stale).count() as u64
    }
}

fn count(files: &Files, usage: &Usage<'_>, counts: &mut Counts) {
    let (mut luns, mut hidden) = (0, 0);
    for inode in files.inodes.all.values() {
        if inode.id >= metafile::FIRST_FILE {
            match files.names.of.get(&inode.id) {
                Some(name) if name.hidden => hidden += 1,
                _ => luns += 1,
            }
        }
    }
    counts.luns += luns;
    counts.hidden_files += hidden;
    counts.files += files.inodes.all.len() as u64;
    counts.volume_blocks_used += usage.used;
    counts.lun_blocks += files.mapped;
    counts.lun_holes += files.holes;
    counts.overflow_blocks += files.overflow;
}
