//! Clones: volumes that begin as a snapshot of another, their *base*, whose blocks are in the parent's container.
//!
//! A clone has its base as the first of its own snapshots. That record and the one in the parent's table must name the
//! same trees, or blocks of one would be taken for blocks of the other.

use std::collections::{BTreeMap, BTreeSet};

use everglade_format::snapshot::State;
use everglade_format::{FileId, Inode, Kind as FileKind, SnapshotId, SnapshotRecord};

use crate::aggregate::BadBlocks;
use crate::files::Files;
use crate::filesystem::{FileSystem, Inside};
use crate::findings::Findings;
use crate::problem::{Kind, Object, Place};
use crate::volume::read_superblock;

/// The id of the base among the clone's own snapshots.
pub(crate) const BASE: SnapshotId = SnapshotId(1);

type Roots = (Inode, Inode);

fn roots_of(record: &SnapshotRecord) -> Roots {
    (record.inode_file.clone(), record.active_map.clone())
}

/// What volumes say of bases: those that need one, and those that have it.
#[derive(Default)]
pub(crate) struct Clones {
    wanted: Vec<(Object, FileId, SnapshotId, Option<Roots>)>,
    offered: BTreeMap<(FileId, SnapshotId), Roots>,
    /// Volumes whose snapshots could not be read.
    pub(crate) unread: BTreeSet<FileId>,
}

impl Clones {
    /// Takes note of a volume's snapshots.
    pub(crate) fn note(
        &mut self,
        (volume, object): (FileId, Object),
        base: Option<(FileId, SnapshotId)>,
        records: &[SnapshotRecord],
    ) {
        for record in records.iter().filter(|record| record.state == State::Live) {
            self.offered.insert((volume, record.id), roots_of(record));
        }
        if let Some((parent, snapshot)) = base {
            let own = records.iter().find(|record| record.id == BASE);
            let own = own.filter(|record| record.state == State::Live);
            self.wanted
                .push((object, parent, snapshot, own.map(roots_of)));
        }
    }

    /// Compares the bases with what the parents have.
    pub(crate) fn finish(&self, findings: &mut Findings) {
        for (object, parent, snapshot, own) in &self.wanted {
            if self.unread.contains(parent) {
                continue;
            }
            let expected = format_args!("snapshot {snapshot} of volume {parent} as its first");
            let found = match (own, self.offered.get(&(*parent, *snapshot))) {
                (Some(own), Some(offered)) if own == offered => continue,
                (Some(_), Some(_)) => "another one",
                (None, _) => "no first snapshot",
                (_, None) => "no such snapshot there",
            };
            findings.add(Kind::CloneBase, object, Place::NONE, expected, found);
        }
    }
}

/// Containers of a clone's parents, the nearest first.
pub(crate) fn containers_above(
    aggregate: &FileSystem<'_>,
    files: &Files,
    container: &Inode,
) -> Vec<Inode> {
    let mut above = Vec::new();
    let mut seen = BTreeSet::from([container.id]);
    let mut at = container.clone();
    while let Some(base) = base_of(aggregate, &at) {
        let parent = files.inodes.all.get(&base);
        let Some(parent) = parent.filter(|it| it.kind == FileKind::Container) else {
            break;
        };
        if !seen.insert(parent.id) {
            break;
        }
        above.push(parent.clone());
        at = parent.clone();
    }
    above
}

/// The volume that this one is a clone of. A superblock that cannot be read is reported with its volume.
fn base_of(aggregate: &FileSystem<'_>, container: &Inode) -> Option<FileId> {
    let fs = FileSystem {
        has_lost: false,
        media: aggregate.media,
        cp: aggregate.cp,
        inside: Some(Inside {
            volume: container.id,
            name: "".into(),
            aggregate,
            container,
            above: Vec::new(),
        }),
    };
    let (superblock, _) = read_superblock(&fs, &mut BadBlocks::default(), &mut Findings::deaf())?;
    superblock.snapshots.base.map(|(parent, _)| parent)
}
