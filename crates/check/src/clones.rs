//! Clones: volumes that begin as a snapshot of another, their *base*, whose blocks are in the
//! parent's container.
//!
//! A clone has its base as the first of its own snapshots. This record and the record in the
//! parent's table must name the same trees. Otherwise blocks of one image would be taken for blocks
//! of another.
//!
//! The parent does not record that a clone needs the base. Only the clone's superblock names the
//! base, and this protects it. So the verifier checks what the superblock says:
//!
//! 1. The parent was made in an earlier consistency point, so it has a lower id. Therefore no
//!    volume is above itself, and a search through the containers above a volume ends.
//! 2. A clone has at most [`CLONE_DEPTH_MAX`] volumes above it.
//! 3. The parent has the base, live, with the same two roots.
//!
//! A clone may name an older clone of the same snapshot instead of the parent. This is no
//! contradiction: the first snapshot of the older clone is the same image, and the older clone
//! keeps both bases.

use std::collections::{BTreeMap, BTreeSet};

use everglade_format::snapshot::State;
use everglade_format::volume::CLONE_DEPTH_MAX;
use everglade_format::{CpNumber, FileId, Inode, Kind as FileKind, SnapshotId, SnapshotRecord};

use crate::bad::BadBlocks;
use crate::files::Files;
use crate::filesystem::{FileSystem, Inside};
use crate::findings::Findings;
use crate::problem::{Kind, Object, ProblemPlace};
use crate::superblock::read_superblock;

/// The id of the base among the clone's own snapshots.
pub(crate) const BASE: SnapshotId = SnapshotId(1);

type Roots = (Inode, Inode);

fn roots_of(record: &SnapshotRecord) -> Roots {
    (record.inode_file.clone(), record.active_map.clone())
}

/// A clone, and its fields about its base.
struct Wanted {
    object: Object,
    parent: FileId,
    snapshot: SnapshotId,
    /// Roots from the clone's own record of its base.
    own: Option<Roots>,
}

/// The bases that volumes name: the clones that need a base, and the volumes that have it.
#[derive(Default)]
pub(crate) struct Clones {
    wanted: BTreeMap<FileId, Wanted>,
    offered: BTreeMap<(FileId, SnapshotId), Roots>,
    /// When each volume was made.
    made: BTreeMap<FileId, CpNumber>,
    /// Volumes whose snapshots could not be read.
    pub(crate) unread: BTreeSet<FileId>,
}

impl Clones {
    /// Takes in a volume, by its container, and of its snapshots.
    pub(crate) fn add_volume(
        &mut self,
        (volume, object): (&Inode, Object),
        base: Option<(FileId, SnapshotId)>,
        records: &[SnapshotRecord],
    ) {
        self.made.insert(volume.id, volume.cp_created);
        for record in records.iter().filter(|record| record.state == State::Live) {
            self.offered
                .insert((volume.id, record.id), roots_of(record));
        }
        if let Some((parent, snapshot)) = base {
            let own = records.iter().find(|record| record.id == BASE);
            let own = own.filter(|record| record.state == State::Live);
            let wanted = Wanted {
                object,
                parent,
                snapshot,
                own: own.map(roots_of),
            };
            self.wanted.insert(volume.id, wanted);
        }
    }

    /// Compares the bases with what the parents have.
    pub(crate) fn finish(&self, findings: &mut Findings) {
        for (volume, wanted) in &self.wanted {
            let Wanted {
                object,
                parent,
                snapshot,
                own,
            } = wanted;
            let mut wrong = |expected: String, found: String| {
                findings.add(Kind::CloneBase, object, ProblemPlace::NONE, expected, found);
            };
            let made = (self.made.get(parent), self.made.get(volume));
            let is_later = matches!(made, (Some(parent), Some(own)) if parent >= own);
            if parent >= volume || is_later {
                let when = made
                    .0
                    .map_or(String::new(), |cp| format!(" of consistency point {cp}"));
                let expected = "a parent that was there before it".to_owned();
                wrong(expected, format!("volume {parent}{when}"));
                continue;
            }
            let depth = self.depth(*volume);
            if depth > CLONE_DEPTH_MAX {
                let expected = format!("at most {CLONE_DEPTH_MAX} volumes above it");
                wrong(expected, depth.to_string());
            }
            if self.unread.contains(parent) {
                continue;
            }
            let found = match (own, self.offered.get(&(*parent, *snapshot))) {
                (Some(own), Some(offered)) if own == offered => continue,
                (Some(_), Some(_)) => "another one",
                (None, _) => "no first snapshot",
                (_, None) => "no such snapshot there",
            };
            let expected = format!("snapshot {snapshot} of volume {parent} as its first");
            wrong(expected, found.to_owned());
        }
    }

    /// Volumes above a clone.
    fn depth(&self, volume: FileId) -> usize {
        // Ids decrease, so this ends.
        let above = |id: &FileId| {
            let parent = self.wanted.get(id)?.parent;
            (parent < *id).then_some(parent)
        };
        std::iter::successors(above(&volume), above).count()
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

/// The volume that this one is a clone of. A superblock that cannot be read is reported with its
/// volume.
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

#[cfg(test)]
mod tests {
    use everglade_format::metafile::{ACTIVE_MAP, INODE_FILE};

    use super::*;

    fn record() -> SnapshotRecord {
        let inode = |id| Inode::new(id, FileKind::Metafile, CpNumber(1), 0);
        SnapshotRecord {
            id: BASE,
            state: State::Live,
            name: "s".into(),
            parent: None,
            also: Vec::new(),
            is_unfolded: false,
            is_in_pass: false,
            next_file: FileId(65),
            cp: CpNumber(1),
            seconds: 0,
            deleted_seconds: 0,
            blocks_used: 1,
            exclusive: 0,
            pending: 0,
            lost: 0,
            inode_file: inode(INODE_FILE),
            active_map: inode(ACTIVE_MAP),
            holds: Vec::new(),
        }
    }

    /// Returns the problems of volumes given by id, consistency point and parent, each with the
    /// same first snapshot.
    fn verdicts(volumes: &[(u32, u64, Option<u32>)]) -> Vec<String> {
        let (mut clones, mut findings) = (Clones::default(), Findings::new());
        for (id, cp, parent) in volumes {
            let container = Inode::new(FileId(*id), FileKind::Container, CpNumber(*cp), 0);
            let object = Object::Volume {
                volume: FileId(*id),
                name: format!("v{id}").into(),
            };
            let base = parent.map(|parent| (FileId(parent), BASE));
            clones.add_volume((&container, object), base, &[record()]);
        }
        clones.finish(&mut findings);
        findings.problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_clone_may_name_any_older_volume_that_has_its_base() {
        let all = [
            (64, 1, None),
            (70, 2, Some(64)),
            (80, 3, Some(70)),
            (90, 4, Some(64)),
        ];
        assert_eq!(verdicts(&all), [""; 0]);
    }

    #[test]
    fn a_clone_of_itself_of_a_younger_volume_or_of_one_as_old_is_impossible() {
        for (own, parent) in [
            ((70, 2), (70, 2)),
            ((70, 2), (80, 3)),
            ((80, 2), (70, 2)),
            ((80, 2), (70, 3)),
        ] {
            let others = [(64, 1, None), (parent.0, parent.1, Some(64))];
            let all: Vec<_> = others
                .into_iter()
                .filter(|(id, ..)| *id != own.0)
                .chain([(own.0, own.1, Some(parent.0))])
                .collect();
            let found = verdicts(&all);
            assert_eq!(found.len(), 1, "{own:?} {parent:?}: {found:?}");
            assert!(
                found[0].contains("a parent that was there before it"),
                "{found:?}"
            );
        }
    }

    #[test]
    fn a_chain_of_clones_has_an_end() {
        let chain: Vec<_> = (0..18u32)
            .map(|at| {
                (
                    64 + at,
                    u64::from(at) + 1,
                    at.checked_sub(1).map(|at| 64 + at),
                )
            })
            .collect();
        assert_eq!(verdicts(&chain[..17]), [""; 0]);
        let found = verdicts(&chain);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].contains("at most 16 volumes above it, found 17"),
            "{found:?}"
        );
    }
}
