//! The snapshot table: each record by itself, and the history that the records form.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use everglade_format::metafile::{ACTIVE_MAP, INODE_FILE};
use everglade_format::release::RELEASES_PER_BLOCK;
use everglade_format::snapshot::{SNAPSHOTS_MAX, State};
use everglade_format::volume::{LunCloning, Scan, Split};
use everglade_format::{
    BITS_PER_BLOCK, Block, Inode, Kind as FileKind, Layer, SPAN, SnapshotId, SnapshotRecord,
};

use super::Volume;
use crate::clones::BASE;
use crate::filesystem::FileSystem;
use crate::findings::Findings;
use crate::problem::{Kind, Object, ProblemPlace};
use crate::tree::{self, Leaves, Visit};

/// Blocks of a table: it holds the most snapshots there can be, and those that are gone, many times
/// over.
const BLOCKS_MAX: u64 = 4 * SNAPSHOTS_MAX as u64;

/// All records, by id.
pub(super) struct Table {
    pub(super) records: Vec<SnapshotRecord>,
    /// For each record, and last for the active image, the place of its parent among them.
    pub(super) parents: Vec<Option<usize>>,
    /// Indexes of the further ancestors, whose LUNs were restored.
    pub(super) also: Vec<Vec<usize>>,
    /// True if every parent exists, so that ancestry is well defined.
    pub(super) is_connected: bool,
}

/// True if the record stands for an image that can be read as a whole.
pub(super) fn has_image(record: &SnapshotRecord) -> bool {
    record.state != State::Gone && !record.is_in_pass
}

/// A snapshot, for people.
pub(super) fn object_of(volume: &Volume<'_>, record: &SnapshotRecord) -> Object {
    volume.fs.image(&record.name, record).object()
}

/// Without a table there are no snapshots, and no fields about snapshots may be set.
pub(super) fn check_roots_of_none(volume: &Volume<'_>, findings: &mut Findings) {
    let roots = &volume.superblock.snapshots;
    let nothing = roots.release.is_none()
        && roots.parent.is_none()
        && roots.also.is_empty()
        && roots.scan == Scan::None
        && roots.lun_clone.is_none()
        && roots.exclusive == 0
        && roots.base.is_none()
        && roots.split == Split::None;
    if !nothing {
        let expected = "no release file, parent, scan, clone, base, split or exclusive blocks \
            without a snapshot table";
        let found = format_args!("{roots:?}");
        let kind = Kind::SnapshotRoots;
        findings.add(
            kind,
            &volume.fs.object(),
            ProblemPlace::NONE,
            expected,
            found,
        );
    }
}

/// Reads the table. `None` if a part of the table cannot be read, because then the holders of
/// blocks are not known.
pub(super) fn read(volume: &Volume<'_>, inode: &Inode, findings: &mut Findings) -> Option<Table> {
    let aggregate = volume.fs.inside.as_ref()?.aggregate;
    let object = volume.aggregate_files.object_of(aggregate, inode.id);
    let kind = Kind::SnapshotTableDamaged;
    if inode.block_count() > BLOCKS_MAX {
        let expected = format_args!("at most {BLOCKS_MAX} blocks");
        findings.add(
            kind,
            &object,
            ProblemPlace::NONE,
            expected,
            inode.block_count(),
        );
        return None;
    }
    let mut found: BTreeMap<SnapshotId, SnapshotRecord> = BTreeMap::new();
    let mut is_whole = true;
    for index in 0..inode.block_count() {
        let place = ProblemPlace {
            level: Some(0),
            index: Some(index),
            ..ProblemPlace::NONE
        };
        // Unreadable blocks were reported with the files of the aggregate.
        let Ok(block) = tree::leaf_at(aggregate, inode, index) else {
            is_whole = false;
            continue;
        };
        let Some(block) = block else { continue };
        match SnapshotRecord::decode(&block) {
            Ok(records) => {
                for (_, record) in records {
                    let id = record.id;
                    if found.insert(id, record).is_some() {
                        findings.add(kind, &object, place, "one record for each snapshot", id);
                        is_whole = false;
                    }
                }
            }
            Err(damage) => {
                is_whole = false;
                findings.damage(kind, &object, place, &damage);
            }
        }
    }
    is_whole.then(|| Table::new(found.into_values().collect(), volume, findings))
}

impl Table {
    /// Puts the history together. A parent must be an older snapshot.
    fn new(records: Vec<SnapshotRecord>, volume: &Volume<'_>, findings: &mut Findings) -> Table {
        let place_of = |id: SnapshotId| records.binary_search_by_key(&id, |it| it.id).ok();
        let mut is_connected = true;
        let mut wrong = |object: Object, parent: SnapshotId| {
            is_connected = false;
            let expected = "an older snapshot as parent";
            let kind = Kind::SnapshotHistory;
            findings.add(kind, &object, ProblemPlace::NONE, expected, parent);
        };
        let roots = &volume.superblock.snapshots;
        let (mut parents, mut also) = (Vec::new(), Vec::new());
        for at in 0..=records.len() {
            let record = records.get(at);
            let lines = record.map(|it| (it.parent, &it.also));
            let (first, others) = lines.unwrap_or((roots.parent, &roots.also));
            let mut places = Vec::new();
            for id in first.iter().chain(others) {
                let place = place_of(*id).filter(|place| *place < at);
                if place.is_none() {
                    let object = record.map_or(volume.fs.object(), |it| object_of(volume, it));
                    wrong(object, *id);
                }
                places.push(place);
            }
            let mut places = places.into_iter();
            parents.push(first.and_then(|_| places.next().flatten()));
            also.push(places.flatten().collect());
        }
        Table {
            records,
            parents,
            also,
            is_connected,
        }
    }

    /// For each record, and last for the active image, its ancestors and its descendants.
    pub(super) fn neighbours(&self) -> Vec<Vec<usize>> {
        let mut near = vec![Vec::new(); self.parents.len()];
        for (at, (parent, also)) in self.parents.iter().zip(&self.also).enumerate() {
            for parent in parent.iter().chain(also) {
                near[at].push(*parent);
                near[*parent].push(at);
            }
        }
        near
    }

    /// True if anything descends from more than its parent.
    pub(super) fn has_also(&self) -> bool {
        self.also.iter().any(|also| !also.is_empty())
    }

    /// Checks of records and roots that need no image.
    pub(super) fn check(&self, volume: &Volume<'_>, findings: &mut Findings) {
        let mut names = BTreeSet::new();
        let mut cp = 0;
        for (at, record) in self.records.iter().enumerate() {
            let object = object_of(volume, record);
            let mut rule = |holds: bool, kind: Kind, expected: &str, found: String| {
                if !holds {
                    findings.add(kind, &object, ProblemPlace::NONE, expected, found);
                }
            };
            let (id, next) = (record.id, volume.superblock.snapshots.next);
            let expected = format!("an id below {next}");
            rule(id < next, Kind::NextFile, &expected, id.to_string());
            let flags = format!(
                "{:?}, unfolded: {}, in the pass: {}, {} holds",
                record.state,
                record.is_unfolded,
                record.is_in_pass,
                record.holds.len()
            );
            let expected = "state, flags and holds that go together";
            rule(record.is_sound(), Kind::SnapshotRecord, expected, flags);
            if record.state == State::Gone {
                let lines = self.parents.iter().zip(&self.also);
                let children =
                    lines.filter(|(parent, also)| **parent == Some(at) || also.contains(&at));
                let children = children.count();
                // Its ancestors may have been too many for the record of the one that descends from
                // it.
                let is_needed = children > 1 || !self.also[at].is_empty();
                let expected = "a snapshot that is gone to join two others";
                let found = format!("{children} descend from it");
                rule(is_needed, Kind::SnapshotHistory, expected, found);
                continue;
            }
            if record.is_named() {
                let name = record.name.clone();
                let is_new = names.insert(record.name.as_str());
                rule(is_new, Kind::NameTwice, "each name once", name);
            }
            let tags: BTreeSet<&str> = record.holds.iter().map(|hold| &*hold.tag).collect();
            let found = format!("{:?}", record.holds);
            let is_single = tags.len() == record.holds.len();
            rule(is_single, Kind::NameTwice, "each hold once", found);
            let limit = volume.fs.cp;
            let expected = format!("consistency point {cp} to {limit}");
            let is_ordered = (cp..=limit.0).contains(&record.cp.0);
            rule(
                is_ordered,
                Kind::StampAhead,
                &expected,
                record.cp.to_string(),
            );
            cp = cp.max(record.cp.0);
            let most = volume.superblock.lost;
            let expected = format!("at most {most} lost blocks, as the volume has");
            let found = record.lost.to_string();
            rule(record.lost <= most, Kind::SnapshotRecord, &expected, found);
            let most = volume.superblock.next_file;
            let expected = format!("{most} at most as next file id");
            let found = record.next_file.to_string();
            rule(record.next_file <= most, Kind::NextFile, &expected, found);
            let is_root = record.inode_file.id == INODE_FILE && is_tree(&record.inode_file);
            let is_map = record.active_map.id == ACTIVE_MAP && is_tree(&record.active_map);
            let found = format!("{} and {}", record.inode_file.id, record.active_map.id);
            let expected = "inodes of inode file and active map";
            rule(is_root && is_map, Kind::InodeUnexpected, expected, found);
        }
        self.check_roots(volume, findings);
        if let Some(cloning) = &volume.superblock.snapshots.lun_clone {
            self.check_lun_clone(volume, cloning, findings);
        }
    }

    /// A LUN that is being cloned has its name in the hidden namespace, and a source that stays,
    /// which the active image descends from.
    fn check_lun_clone(&self, volume: &Volume<'_>, cloning: &LunCloning, findings: &mut Findings) {
        let files = volume.files;
        let roots = &volume.superblock.snapshots;
        let name = files.names.of.get(&cloning.to);
        let inode = files.inodes.all.get(&cloning.to);
        let is_made = name.is_some_and(|name| name.hidden)
            && inode.is_some_and(|inode| inode.kind == FileKind::Lun);
        let source = self.records.iter().find(|it| it.id == cloning.source);
        let stays = source.is_some_and(has_image);
        let descends = roots.parent == Some(cloning.source) || roots.also.contains(&cloning.source);
        let is_known = !files.names.partial && !files.inodes.partial;
        if !stays || !descends || !is_made && is_known {
            let kind = Kind::SnapshotRoots;
            let expected = "a hidden LUN, and a snapshot that stays and is descended from";
            let found = format_args!("{cloning:?}");
            findings.add(
                kind,
                &volume.fs.object(),
                ProblemPlace::NONE,
                expected,
                found,
            );
        } else if let (Some(source), Some(inode)) = (source, inode) {
            check_cloned(volume, cloning, (source, inode), findings);
        }
    }

    fn check_roots(&self, volume: &Volume<'_>, findings: &mut Findings) {
        let roots = &volume.superblock.snapshots;
        let mut rule = |holds: bool, expected: &str, found: String| {
            if !holds {
                let kind = Kind::SnapshotRoots;
                findings.add(
                    kind,
                    &volume.fs.object(),
                    ProblemPlace::NONE,
                    expected,
                    found,
                );
            }
        };
        let with_image = self.records.iter().filter(|it| it.state != State::Gone);
        let count = with_image.count();
        let expected = format!("at most {SNAPSHOTS_MAX} snapshots");
        rule(count <= SNAPSHOTS_MAX, &expected, count.to_string());
        let in_pass = || self.records.iter().filter(|record| record.is_in_pass);
        let found = || format!("{:?}, {} records in a pass", roots.scan, in_pass().count());
        match roots.scan {
            Scan::None => rule(in_pass().count() == 0, "no pass without a scan", found()),
            Scan::Fold { next } => {
                let is_needed = self.records.iter().any(|record| record.is_unfolded);
                let is_sound = is_needed && next.is_multiple_of(BITS_PER_BLOCK);
                let expected = "an unfolded snapshot, and whole map blocks done";
                rule(is_sound && in_pass().count() == 0, expected, found());
            }
            Scan::Delete { next } => {
                let ends = in_pass().map(|record| record.active_map.block_count());
                let end = ends.max().map(|end| end.saturating_mul(BITS_PER_BLOCK));
                let expected = format!("victims, and a place up to {end:?}");
                rule(end.is_some_and(|end| next <= end), &expected, found());
            }
            Scan::Release { .. } => {
                let is_sound = roots.release.is_some() && in_pass().count() == 0;
                rule(is_sound, "a release file", found());
            }
        }
        if let Some(next) = roots.split.next() {
            let mut records = self.records.iter();
            let base = records.find(|record| record.id == BASE);
            let end = base.map(|base| base.active_map.block_count().saturating_mul(BITS_PER_BLOCK));
            let expected = format!("a base, and a place of the split up to {end:?}");
            let is_sound = end.is_some_and(|end| next <= end);
            rule(is_sound, &expected, format!("{:?}", roots.split));
        }
        let is_turn = matches!(roots.scan, Scan::None | Scan::Release { .. });
        let expected = "no other scan before a release file is done";
        rule(roots.release.is_none() || is_turn, expected, found());
    }
}

/// The leaves of a LUN that is being cloned: exactly the source's leaves below the cursor.
fn check_cloned(
    volume: &Volume<'_>,
    cloning: &LunCloning,
    (source, made): (&SnapshotRecord, &Inode),
    findings: &mut Findings,
) {
    let image = volume.fs.image(&source.name, source);
    let (index, slot) = Inode::block_and_slot(cloning.from);
    // Unreadable blocks are reported with the image.
    let Ok(block) = tree::leaf_at(&image, &source.inode_file, index) else {
        return;
    };
    let decode = |block: &Block| Inode::decode_from(block, slot, cloning.from, Layer::Volume);
    let from = block.map(|block| decode(&block)).transpose();
    let Ok(from) = from else { return };
    let mut wrong = |expected: String, found: String| {
        let kind = Kind::SnapshotRoots;
        findings.add(
            kind,
            &volume.fs.object(),
            ProblemPlace::NONE,
            expected,
            found,
        );
    };
    let Some(from) = from.flatten().filter(|it| it.kind == FileKind::Lun) else {
        let expected = format!("LUN {} in the snapshot it is cloned from", cloning.from);
        return wrong(expected, "none".to_owned());
    };
    // Blocks beyond the end of a LUN that was cut short are not its own.
    let end = cloning.next.saturating_mul(SPAN);
    let end = end.min(from.block_count());
    let (wanted, there) = (
        leaves(&image, &from, 0..end),
        leaves(volume.fs, made, 0..u64::MAX),
    );
    if let (Some(wanted), Some(there)) = (wanted, there)
        && wanted != there
    {
        let expected = format!(
            "the {} leaves that the source has before block {end}",
            wanted.0
        );
        wrong(expected, format!("{} leaves, or others", there.0));
    }
}

/// Number of a file's leaves in a range, and a digest of their places and vvbns; nothing if some
/// cannot be read.
fn leaves(fs: &FileSystem<'_>, inode: &Inode, range: Range<u64>) -> Option<(u64, u64)> {
    let file = tree::File {
        inode,
        object: &Object::Aggregate,
        leaves: Leaves::Opaque,
        range,
        bounded: false,
    };
    let (mut count, mut digest) = (0, DefaultHasher::new());
    let walked = tree::walk(fs, &file, &mut Findings::deaf(), &mut |_, visit| {
        if let Visit::Reference {
            level: 0,
            index,
            pointer,
        } = visit
        {
            count += 1;
            (index, pointer.vvbn.0).hash(&mut digest);
        }
    });
    (!walked.partial).then(|| (count, digest.finish()))
}

/// Entries of the release file that were released.
pub(super) fn released(scan: Scan, release: &Inode) -> Option<u64> {
    let most = release
        .block_count()
        .saturating_mul(RELEASES_PER_BLOCK as u64);
    match scan {
        Scan::Release { next } => (next <= most).then_some(next),
        _ => Some(0),
    }
}

fn is_tree(inode: &Inode) -> bool {
    inode.kind == FileKind::Metafile && inode.inline.is_none()
}
