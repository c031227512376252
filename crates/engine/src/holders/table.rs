//! A volume's snapshots in memory, their records written by the consistency point.
//!
//! ```text
//! (freeze) ──create──▶ created ──image sealed──▶ live ──delete──▶ deleting
//! deleting ──scan──▶ gone ──not needed──▶ (no record)
//! live ──put──▶ in the trash ──purge──▶ deleting
//!    ◀──undelete──────┘
//! ```
//!
//! 1. A snapshot that was created in a freeze has no record until the consistency point knows its
//!    image; until then the active image still descends from the snapshot before.
//! 2. Every record keeps its slot while it lives. A record is written when it changed.
//! 3. No snapshot that a client can name is *deleting* or *gone*, or in the trash.
//! 4. `names` has exactly the names of the live snapshots that are not in the trash, each with its
//!    id. A snapshot in the trash is *live* in all other respects.
//!
//! Deletions and similar changes happen in the freeze, and all clients wait for the freeze
//! (docs/design/design.md §6). So a name is found without a search through a thousand records, and
//! facts derived from the records are dropped later, at the next question for them.

use std::cell::{RefCell, RefMut};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use everglade_format::metafile::ACTIVE_MAP;
use everglade_format::snapshot::{ALSO_MAX, Hold, RECORDS_PER_BLOCK, SNAPSHOTS_MAX, State};
use everglade_format::volume::{Scan, SnapshotRoots, Split};
use everglade_format::{BITS_PER_BLOCK, Damage, FileId, SnapshotId, SnapshotRecord};

use crate::holders::held::Held;
use crate::holders::history::{self, History, Line};
use crate::holders::lun_clone;
use crate::holders::lun_restore::LunRestore;
use crate::holders::plan::Plan;
use crate::read::load::{Damaged, Gather, LoadCx, Stop, unless_damaged};
use crate::tree::{Content, File};

/// A snapshot of the image that the running consistency point writes.
#[derive(Clone, Debug)]
pub(crate) struct Created {
    pub(crate) name: String,
    pub(crate) seconds: u64,
    /// True if the snapshot has no name: it counts as deleted from the beginning, and is released
    /// when its purpose is done.
    pub(crate) is_nameless: bool,
}

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Snapshots {
    /// Summary map, table, release file, parent of the active image, scan: what the superblock
    /// says.
    pub(crate) roots: SnapshotRoots,
    records: BTreeMap<SnapshotId, (u64, SnapshotRecord)>,
    slots: BTreeMap<u64, SnapshotId>,
    names: BTreeMap<String, SnapshotId>,
    changed: BTreeSet<u64>,
    /// Snapshots of this consistency point, oldest first.
    pub(crate) created: Vec<Created>,
    /// The snapshot whose image becomes the active one with this consistency point.
    pub(crate) restoring: Option<SnapshotId>,
    /// The volume is a new clone: parent and snapshot whose image it is to get.
    pub(crate) cloning: Option<(FileId, SnapshotId)>,
    /// A LUN restore that this consistency point completes.
    pub(crate) lun: Option<LunRestore>,
    /// State of the LUN clone job, besides the superblock's record.
    pub(crate) lun_clone: lun_clone::Job,
    /// Loaded state of active map blocks that change in this consistency point.
    pub(crate) held: BTreeMap<u64, Held>,
    /// Blocks of `held` that the scan made out of date.
    pub(crate) stale: BTreeSet<u64>,
    /// Blocks of the victims' snapmaps, ascending; `None` until a delete scan has read them.
    pub(crate) protected: Option<Vec<(u64, SnapshotId)>>,
    /// Counts of delete passes since the volume was opened.
    pub(crate) counts: Counts,
    /// When the pass under way, or the volume, was begun, seconds since 1970 UTC, and how far it
    /// was then.
    pub(crate) since: Option<(u64, u64)>,
    /// Time when the split began or resumed, in seconds since 1970 UTC, and its progress then.
    pub(crate) split_since: Option<(u64, u64)>,
    /// Something that the superblock or the table says was changed.
    is_changed: bool,
    /// What follows from the records, until they change: there may be a thousand, and every map
    /// block asks.
    known: RefCell<Derived>,
}

/// Blocks of the maps that delete passes dealt with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Map blocks done by subtraction.
    pub subtracted: u64,
    /// Map blocks done by addition.
    pub added: u64,
    /// Map blocks skipped, because nothing changes in them.
    pub skipped: u64,
}

/// State derived from the records.
#[derive(Default)]
struct Derived {
    /// The records have changed since.
    is_stale: bool,
    has_scan: Option<bool>,
    /// The plan for the rest of the pass.
    plan: Option<Arc<Plan>>,
    /// While vvbns are not done, and once they are.
    history: [Option<Arc<History>>; 2],
}

/// Returns the damage, if a block was damaged.
fn damaged(stop: impl Into<Stop>) -> Option<Damaged> {
    match stop.into() {
        Stop::Damaged(damaged) => Some(*damaged),
        _ => None,
    }
}

impl Snapshots {
    /// Reads the table of a volume; all of it, or it stops.
    pub(crate) fn load(
        roots: SnapshotRoots,
        table: Option<&File>,
        cx: &mut LoadCx<'_>,
    ) -> Result<Snapshots, Stop> {
        let (snapshots, lost) = Snapshots::load_readable(roots, table, cx)?;
        unless_damaged(snapshots, lost)
    }

    /// Reads what can be read of the table, and says what cannot. Of a table that is not whole,
    /// only the snapshots that clients can name are of use.
    pub(crate) fn load_readable(
        roots: SnapshotRoots,
        table: Option<&File>,
        cx: &mut LoadCx<'_>,
    ) -> Result<(Snapshots, Vec<Damaged>), Stop> {
        let mut snapshots = Snapshots {
            roots,
            ..Snapshots::default()
        };
        let mut lost = Vec::new();
        let Some(table) = table else {
            return Ok((snapshots, lost));
        };
        let most = 4 * SNAPSHOTS_MAX as u64;
        let found = table.inode.block_count();
        let mut gather = Gather::default();
        if found > most {
            let expected = format!("at most {most} blocks");
            lost.extend(damaged(Damage::new("snapshot table", expected, found)));
        }
        for block in 0..found.min(most) {
            match snapshots.load_block(table, cx, block) {
                Err(Stop::Damaged(damaged)) => lost.push(*damaged),
                loaded => _ = gather.add(loaded),
            }
        }
        gather.finish()?;
        if lost.is_empty() {
            lost.extend(snapshots.check_tree().err().and_then(damaged));
        }
        Ok((snapshots, lost))
    }

    fn load_block(&mut self, table: &File, cx: &mut LoadCx<'_>, block: u64) -> Result<(), Stop> {
        let leaf = table.leaf(cx, block)?;
        for (slot, record) in SnapshotRecord::decode(leaf.bytes())? {
            let (slot, id) = (block * RECORDS_PER_BLOCK + slot, record.id);
            if id >= self.next_id() {
                let expected = format!("below {}", self.next_id());
                return Err(Damage::new("snapshot id", expected, id).into());
            }
            if self.has(id) {
                return Err(Damage::new("snapshot table", "one record for each id", id).into());
            }
            if !record.is_sound() {
                let expected = "state, flags and holds that go together";
                return Err(Damage::new("snapshot record", expected, id).into());
            }
            if record.is_named() && self.names.contains_key(&record.name) {
                let expected = "one live record for each name";
                return Err(Damage::new("snapshot table", expected, &record.name).into());
            }
            self.enter(slot, record);
        }
        Ok(())
    }

    /// Parents exist and are older, so that the history is a tree.
    fn check_tree(&self) -> Result<(), Stop> {
        let lines = self
            .all()
            .map(|record| (record.id, record.parent, &record.also));
        let active = (self.next_id(), self.roots.parent, &self.roots.also);
        for (id, parent, also) in lines.chain([active]) {
            for parent in parent.iter().chain(also) {
                if *parent >= id || !self.records.contains_key(parent) {
                    return Err(Damage::new("parent of a snapshot", "an older one", parent).into());
                }
            }
        }
        Ok(())
    }

    /// True if there is a record of this id.
    pub(crate) fn has(&self, id: SnapshotId) -> bool {
        self.records.contains_key(&id)
    }

    /// The id that the next snapshot will get that is taken in this freeze.
    pub(crate) fn id_of_next(&self) -> SnapshotId {
        let before = u32::try_from(self.created.len()).expect("a volume has few snapshots");
        SnapshotId(self.next_id().0.saturating_add(before))
    }

    /// The active image descends from this one too. False if it descends from too many already.
    pub(crate) fn descend_from(&mut self, id: SnapshotId) -> bool {
        let mut line = Line {
            parent: self.roots.parent,
            also: std::mem::take(&mut self.roots.also),
        };
        let is_one_more = line.parent != Some(id) && !line.also.contains(&id);
        let has_room = line.also.len() < ALSO_MAX;
        if is_one_more && has_room {
            line.add(id);
        }
        self.roots.also = line.also;
        self.set_changed();
        !is_one_more || has_room
    }

    /// The LUN that is being cloned is shared below this level-1 block.
    pub(crate) fn lun_clone_is_at(&mut self, next: u64) {
        let cloning = self.roots.lun_clone.as_mut();
        cloning.expect("it is being made").next = next;
        self.is_changed = true;
    }

    fn next_id(&self) -> SnapshotId {
        self.roots.next.max(SnapshotId(1))
    }

    /// True if the volume has, or had and not yet released, any snapshot.
    pub(crate) fn any(&self) -> bool {
        !self.records.is_empty() || self.roots.release.is_some()
    }

    /// The summary map, a file of the aggregate.
    pub(crate) fn summary(&self) -> FileId {
        self.roots
            .files
            .expect("a volume with snapshots has side files")
            .0
    }

    /// Every record, ghosts included.
    pub(crate) fn all(&self) -> impl Iterator<Item = &SnapshotRecord> {
        self.records.values().map(|(_, record)| record)
    }

    pub(crate) fn get(&self, id: SnapshotId) -> &SnapshotRecord {
        &self
            .records
            .get(&id)
            .expect("known snapshots have records")
            .1
    }

    /// Takes a new record in.
    fn enter(&mut self, slot: u64, record: SnapshotRecord) {
        let id = record.id;
        if record.is_named() {
            self.add_name(&record.name, id);
        }
        self.slots.insert(slot, id);
        self.records.insert(id, (slot, record));
    }

    /// A live snapshot is called that from now on, which no other is.
    pub(crate) fn rename(&mut self, id: SnapshotId, to: &str) {
        self.forget_name(id);
        self.add_name(to, id);
        to.clone_into(&mut self.get_mut(id).name);
    }

    /// Marks a live snapshot as deleted: its name is removed, and a scan will release its blocks.
    pub(crate) fn delete(&mut self, id: SnapshotId) {
        if self.get(id).is_named() {
            self.forget_name(id);
        }
        let record = self.get_mut(id);
        (record.state, record.deleted_seconds) = (State::Deleting, 0);
    }

    /// Puts a live snapshot into the trash: its name is free.
    pub(crate) fn put_into_trash(&mut self, id: SnapshotId, seconds: u64) {
        self.forget_name(id);
        self.get_mut(id).deleted_seconds = seconds.max(1);
    }

    /// Takes a snapshot out of the trash, under a name that no other has.
    pub(crate) fn revive(&mut self, id: SnapshotId, name: &str) {
        assert!(self.get(id).is_in_trash(), "{id} is in the trash");
        self.add_name(name, id);
        let record = self.get_mut(id);
        record.deleted_seconds = 0;
        name.clone_into(&mut record.name);
    }

    fn add_name(&mut self, name: &str, id: SnapshotId) {
        let twin = self.names.insert(name.to_owned(), id);
        assert_eq!(twin, None, "names of live snapshots are unique");
    }

    fn forget_name(&mut self, id: SnapshotId) {
        let (_, record) = &self.records[&id];
        let known = self.names.remove(&record.name);
        assert_eq!(known, Some(id), "live snapshots have names");
    }

    /// Returns a record for changes of anything but its name or live state; this consistency point
    /// writes the record.
    pub(crate) fn get_mut(&mut self, id: SnapshotId) -> &mut SnapshotRecord {
        let (slot, record) = self
            .records
            .get_mut(&id)
            .expect("known snapshots have records");
        self.changed.insert(*slot);
        self.is_changed = true;
        self.known.get_mut().is_stale = true;
        record
    }

    /// A live snapshot by its name.
    pub(crate) fn find(&self, name: &str) -> Option<&SnapshotRecord> {
        self.names.get(name).map(|id| self.get(*id))
    }

    /// Snapshots that clients can name.
    pub(crate) fn live(&self) -> impl Iterator<Item = &SnapshotRecord> {
        self.all().filter(|record| record.is_named())
    }

    /// Those in the trash.
    pub(crate) fn trashed(&self) -> impl Iterator<Item = &SnapshotRecord> {
        self.all().filter(|record| record.is_in_trash())
    }

    /// Both: all that are live.
    pub(crate) fn kept(&self) -> impl Iterator<Item = &SnapshotRecord> {
        self.all().filter(|record| record.state == State::Live)
    }

    /// Returns the snapshots that the delete scan under way releases, or that the next scan will
    /// release.
    pub(crate) fn victims(&self) -> Vec<SnapshotId> {
        let victims = self.all().filter(|record| record.is_in_pass);
        victims.map(|record| record.id).collect()
    }

    /// Returns the snapshots that wait for a delete scan or are in it, except a snapshot that a LUN
    /// is being cloned from.
    pub(crate) fn deleting(&self) -> impl Iterator<Item = &SnapshotRecord> {
        let source = self.roots.lun_clone.map(|cloning| cloning.source);
        let deleting = self.all().filter(|record| record.state == State::Deleting);
        deleting.filter(move |record| Some(record.id) != source)
    }

    /// The first one that the summary map may lack blocks of.
    pub(crate) fn unfolded(&self) -> Option<SnapshotId> {
        self.all()
            .find(|record| record.is_unfolded)
            .map(|record| record.id)
    }

    /// True while there is anything to do in the background.
    pub(crate) fn has_scan(&self) -> bool {
        *self.known().has_scan.get_or_insert_with(|| {
            self.roots.scan != Scan::None
                || self.roots.release.is_some()
                || self.unfolded().is_some()
                || self.deleting().next().is_some()
        })
    }

    /// True if the consistency point has anything to write for the snapshots.
    pub(crate) fn is_changed(&self) -> bool {
        self.is_changed || !self.created.is_empty() || self.restoring.is_some()
    }

    /// The superblock is to be written.
    pub(crate) fn set_changed(&mut self) {
        self.is_changed = true;
        self.known.get_mut().is_stale = true;
    }

    /// What follows from the records as they are.
    fn known(&self) -> RefMut<'_, Derived> {
        let mut known = self.known.borrow_mut();
        if known.is_stale {
            *known = Derived::default();
        }
        known
    }

    /// The scan is here now.
    pub(crate) fn set_scan(&mut self, scan: Scan) {
        let is_another = std::mem::discriminant(&scan) != std::mem::discriminant(&self.roots.scan);
        self.roots.scan = scan;
        self.is_changed = true;
        if is_another {
            self.since = None;
            self.set_changed();
        }
    }

    /// The split is here now.
    pub(crate) fn set_split(&mut self, split: Split) {
        self.roots.split = split;
        self.is_changed = true;
    }

    /// True while what the base holds is to be copied.
    pub(crate) fn is_splitting(&self) -> bool {
        matches!(self.roots.split, Split::Copying { .. })
    }

    /// Returns the ancestry that applies to vvbns that the delete scan has, or has not, done.
    pub(crate) fn history(&self, is_done: bool) -> Arc<History> {
        let known = &mut self.known().history[usize::from(is_done)];
        let history = known.get_or_insert_with(|| {
            let parents = self.all().map(|record| (record.id, record.parent));
            let ghosts = self
                .all()
                .filter(|record| record.state == State::Gone || record.is_in_pass && is_done);
            let ghosts = ghosts.map(|record| record.id);
            let mut history = History::new(parents, ghosts, self.roots.parent);
            let lines = self
                .all()
                .map(|record| (history::Node::Snapshot(record.id), &record.also));
            for (node, also) in lines.chain([(history::Node::Active, &self.roots.also)]) {
                also.iter().for_each(|id| history.join(node, *id));
            }
            Arc::new(history)
        });
        history.clone()
    }

    /// Returns the plan for the rest of the delete pass, from the current history.
    pub(crate) fn plan(&self) -> Arc<Plan> {
        if let Some(plan) = &self.known().plan {
            return plan.clone();
        }
        let plan = Arc::new(Plan::new(&self.history(false), &self.victims()));
        self.known().plan = Some(plan.clone());
        plan
    }

    /// Returns the position of the delete scan: vvbns below are done.
    pub(crate) fn done_below(&self) -> u64 {
        match self.roots.scan {
            Scan::Delete { next } => next,
            _ => 0,
        }
    }

    /// Bits of a map block that the delete scan has passed.
    fn done_in(&self, block: u64) -> u64 {
        let below = self.done_below().saturating_sub(block * BITS_PER_BLOCK);
        below.min(BITS_PER_BLOCK)
    }

    /// The histories that hold for a block of the map, each with the bits from, and the end, for
    /// which it does: the one after the delete scan for what the scan has passed, and the one
    /// before it for the rest.
    pub(crate) fn histories(&self, block: u64) -> impl Iterator<Item = (Arc<History>, (u64, u64))> {
        let done = self.done_in(block);
        [(true, (0, done)), (false, (done, BITS_PER_BLOCK))]
            .into_iter()
            .filter(|(_, (from, to))| from < to)
            .map(|(is_done, bits)| (self.history(is_done), bits))
    }

    /// The nearest ancestors of the active image whose blocks may be in the active map only, for a
    /// block of the map: each with the first bit that counts.
    pub(crate) fn ancestors(&self, block: u64) -> Vec<(SnapshotId, u64)> {
        let mut found = Vec::new();
        let done = self.done_in(block);
        let mut at = self.roots.parent;
        while let Some(id) = at {
            let record = self.get(id);
            at = record.parent;
            match record.state {
                State::Gone => {}
                _ if !record.is_in_pass => {
                    found.push((id, 0));
                    break;
                }
                _ if done < BITS_PER_BLOCK => found.push((id, done)),
                _ => {}
            }
        }
        found
    }

    /// The slot for a new record.
    fn free_slot(&self) -> u64 {
        (0..)
            .find(|slot| !self.slots.contains_key(slot))
            .expect("slots do not run out")
    }

    /// Enters the snapshots of this consistency point, now that their image is known. `image` fills
    /// in the image's fields; ids, names and the place in the history are set here. Returns their
    /// ids.
    pub(crate) fn complete(
        &mut self,
        image: &dyn Fn(SnapshotId) -> SnapshotRecord,
    ) -> Vec<SnapshotId> {
        let mut ids = Vec::new();
        let is_restoring = self.restoring.is_some();
        let last = self.created.len();
        for (index, created) in std::mem::take(&mut self.created).into_iter().enumerate() {
            let id = self.next_id();
            self.roots.next = SnapshotId(id.0.checked_add(1).expect("2^32 snapshots were taken"));
            let slot = self.free_slot();
            let record = SnapshotRecord {
                id,
                name: created.name,
                seconds: created.seconds,
                parent: self.roots.parent,
                also: std::mem::take(&mut self.roots.also),
                // The active image holds all of the snapshot's blocks too, unless a restore
                // replaces it.
                exclusive: match is_restoring && index + 1 == last {
                    true => self.roots.exclusive,
                    false => 0,
                },
                ..image(id)
            };
            let record = match created.is_nameless {
                true => SnapshotRecord {
                    state: State::Deleting,
                    ..record
                },
                false => record,
            };
            assert_eq!(
                record.active_map.id, ACTIVE_MAP,
                "a snapmap is an active map"
            );
            self.changed.insert(slot);
            self.enter(slot, record);
            // The active image has just one edge then.
            self.roots.parent = Some(id);
            self.roots.exclusive = 0;
            self.set_changed();
            ids.push(id);
        }
        // Later snapshots of the source are not in the snapshot just taken.
        if let Some(cloning) = self.roots.lun_clone {
            let is_known = self.descend_from(cloning.source);
            assert!(
                is_known || ids.is_empty(),
                "a new snapshot took over all edges"
            );
        }
        ids
    }

    /// Begins the create scan of the newest snapshot's map (F-06), and ends its parent's: a block
    /// that the parent holds, the newest holds too, or the block was freed and folded first (F-07).
    /// If a snapshot is deleted during its scan, the scan finishes before any of its blocks is
    /// released, so no other scan is repeated (F-08).
    pub(crate) fn begin_create_scan(&mut self, newest: SnapshotId) {
        let scanned = self.unfolded();
        self.get_mut(newest).is_unfolded = true;
        let Some(parent) = self.get(newest).parent else {
            return;
        };
        if self.get(parent).is_unfolded {
            self.get_mut(parent).is_unfolded = false;
            if scanned == Some(parent) && matches!(self.roots.scan, Scan::Fold { .. }) {
                self.set_scan(Scan::None);
            }
        }
    }

    /// Enters the snapshot that a clone begins as.
    pub(crate) fn adopt(&mut self, record: SnapshotRecord) {
        assert!(self.records.is_empty(), "a clone begins with its base");
        let (id, slot) = (record.id, self.free_slot());
        self.roots.next = SnapshotId(id.0 + 1);
        self.roots.parent = Some(id);
        self.changed.insert(slot);
        self.enter(slot, record);
        self.set_changed();
    }

    /// Counts blocks that a node has, or has not any more, for itself.
    pub(crate) fn add_exclusive(&mut self, node: history::Node, blocks: i64) {
        if blocks == 0 {
            return;
        }
        // Media may have wrong values, so they do not stop the process.
        match node {
            history::Node::Active if self.records.is_empty() => {}
            history::Node::Active => {
                self.roots.exclusive = self.roots.exclusive.saturating_add_signed(blocks);
            }
            history::Node::Snapshot(id) => {
                let (slot, record) = self
                    .records
                    .get_mut(&id)
                    .expect("known snapshots have records");
                self.changed.insert(*slot);
                record.exclusive = record.exclusive.saturating_add_signed(blocks);
            }
        }
        self.is_changed = true;
    }

    /// Removes the records of victims that hold nothing any more, and ghosts that are not needed.
    pub(crate) fn bury(&mut self, victims: &[SnapshotId]) {
        for id in victims {
            let record = self.get_mut(*id);
            (record.state, record.is_in_pass) = (State::Gone, false);
            record.holds.clear();
        }
        let line = |parent: Option<SnapshotId>, also: &[SnapshotId]| Line {
            parent,
            also: also.to_vec(),
        };
        let mut lines = self
            .all()
            .map(|record| (record.id, line(record.parent, &record.also)))
            .collect();
        let gone = self.all().filter(|record| record.state == State::Gone);
        let mut ghosts = gone.map(|record| record.id).collect();
        let mut active = line(self.roots.parent, &self.roots.also);
        for id in history::prune(&mut lines, &mut ghosts, &mut active) {
            let (slot, _) = self.records.remove(&id).expect("ghosts have records");
            self.slots.remove(&slot);
            self.changed.insert(slot);
        }
        (self.roots.parent, self.roots.also) = (active.parent, active.also);
        for (id, after) in lines {
            let record = self.get(id);
            if (record.parent, &record.also) != (after.parent, &after.also) {
                let record = self.get_mut(id);
                (record.parent, record.also) = (after.parent, after.also);
            }
        }
        if self.records.is_empty() {
            self.roots.exclusive = 0;
        }
        self.set_changed();
    }

    /// Puts changed records into the blocks of the table.
    pub(crate) fn write(&mut self, table: &mut File, cx: &mut LoadCx<'_>) -> Result<(), Stop> {
        while let Some(slot) = self.changed.first().copied() {
            let (block, place) = SnapshotRecord::block_and_slot(slot);
            // At least one level, so that the file can shrink like any deleted one.
            table.grow((block + 1).max(2));
            let page = table.modify(cx, 0, block, Content::Keep)?;
            let id = self.slots.get(&slot);
            let record = id
                .and_then(|id| self.records.get(id))
                .map(|(_, record)| record);
            SnapshotRecord::encode_into(page, place, record);
            self.changed.remove(&slot);
        }
        Ok(())
    }

    /// Ends a consistency point.
    pub(crate) fn finish_cp(&mut self) {
        assert!(
            self.created.is_empty(),
            "a snapshot was taken but has no image"
        );
        self.held.clear();
        self.stale.clear();
        assert!(self.cloning.is_none(), "a clone has no image");
        assert!(self.lun.is_none(), "a LUN was not restored");
        self.restoring = None;
        self.is_changed = false;
    }

    /// True if a record has yet to be written.
    pub(crate) fn has_unwritten(&self) -> bool {
        !self.changed.is_empty()
    }

    /// A name for a snapshot: of those that are, or are just being taken.
    pub(crate) fn is_taken(&self, name: &str) -> bool {
        let mut created = self.created.iter().filter(|created| !created.is_nameless);
        self.find(name).is_some() || created.any(|created| created.name == name)
    }

    /// Snapshots that count for the most a volume may have.
    pub(crate) fn count(&self) -> usize {
        let held = self
            .all()
            .filter(|record| record.state != State::Gone)
            .count();
        held + self.created.len()
    }

    /// Blocks that scans have yet to release, about: a victim's own count is as high as before the
    /// pass where that adds up.
    pub(crate) fn pending_blocks(&self) -> u64 {
        self.deleting().map(|record| record.exclusive).sum()
    }
}

/// A hold placed now.
pub(crate) fn hold(tag: &str, seconds: u64) -> Hold {
    Hold {
        tag: tag.to_owned(),
        seconds,
    }
}
