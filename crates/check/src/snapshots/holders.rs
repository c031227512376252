//! Holders: the maps of all images side by side, one block of the maps at a time, with summary map
//! and container.

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use everglade_format::metafile::ACTIVE_MAP;
use everglade_format::snapshot::State;
use everglade_format::volume::SUPERBLOCK_VVBN;
use everglade_format::volume::Scan;
use everglade_format::{BITS_PER_BLOCK, Block, Inode, Pointer, bitmap};

use super::column::{self, Hold, Station, without, zero};
use super::table::Table;
use super::{SideFiles, Volume, release, table};
use crate::clones::BASE;
use crate::filesystem::pointer_at;
use crate::findings::Findings;
use crate::problem::{Kind, Object, ProblemPlace};
use crate::tree::{self, Leaves, Visit};
use crate::usage;

/// The comparison of one volume.
struct Holders<'h> {
    volume: &'h Volume<'h>,
    table: &'h Table,
    summary: &'h Inode,
    /// Everybody's maps, in the order of the table; the active one is last.
    maps: Vec<&'h Inode>,
    /// Entries of the release file that have not had their turn.
    waiting: Vec<u64>,
    /// Blocks of victims' snapmaps.
    protected: BTreeSet<u64>,
    /// Position of the delete pass: vvbns below are done.
    done: u64,
    /// Position of the fold scan: below, the first unfolded snapshot is in the summary map.
    folded: u64,
    counts: Vec<Count>,
    /// True if a map block could not be read, so the counts miss its bits.
    is_partial: bool,
}

/// The counts for a record or, last, for the active image.
#[derive(Clone, Copy, Default)]
struct Count {
    used: u64,
    exclusive: u64,
}

/// One map block of each image, at the same index.
struct Column {
    stations: Vec<Station>,
    held: Vec<Box<Block>>,
    /// For each record, and last for the active image, its station.
    at: Vec<usize>,
    /// Its map block; a hole for an image that does not count.
    places: Vec<Pointer>,
    active: Box<Block>,
}

/// Compares everything. `map_blocks` are those that snapmaps have and the active map need not.
pub(super) fn check(
    volume: &Volume<'_>,
    table: &Table,
    sides: &SideFiles<'_>,
    map_blocks: BTreeSet<u64>,
    findings: &mut Findings,
) {
    let Some(active) = volume.files.metafile(ACTIVE_MAP) else {
        return;
    };
    let waiting = match sides.release {
        None => Some(Vec::new()),
        Some(release) => release::waiting(volume, release, findings),
    };
    let Some(waiting) = waiting else { return };
    let maps = table.records.iter().map(|record| &record.active_map);
    let victims = table.records.iter().filter(|record| record.is_in_pass);
    let (done, folded) = match volume.superblock.snapshots.scan {
        Scan::Delete { next } => (next, 0),
        Scan::Fold { next } => (0, next),
        Scan::None | Scan::Release { .. } => (0, 0),
    };
    let mut holders = Holders {
        volume,
        table,
        summary: sides.summary,
        maps: maps.chain([active]).collect(),
        protected: release::snapmaps(volume.fs, victims.map(|record| &record.active_map)),
        waiting,
        done,
        folded,
        counts: vec![Count::default(); table.records.len() + 1],
        is_partial: volume.files.bits_partial,
    };
    for block in holders.all_blocks(map_blocks) {
        holders.check_block(block, findings);
    }
    holders.check_counts(findings);
}

/// Bits of the numbers of one map block.
fn bits_of(numbers: impl Iterator<Item = u64>, block: u64) -> Box<Block> {
    let mut bits = zero();
    for number in numbers {
        bitmap::set(&mut bits, number - block * BITS_PER_BLOCK);
    }
    bits
}

impl Holders<'_> {
    /// Indices of the map blocks that at least one map has.
    fn all_blocks(&self, mut blocks: BTreeSet<u64>) -> BTreeSet<u64> {
        let object = Object::Aggregate;
        let volume = self.volume.fs;
        let Some(inside) = &volume.inside else {
            return blocks;
        };
        let active = self.maps[self.maps.len() - 1];
        let files = [
            (inside.aggregate, inside.container, BITS_PER_BLOCK),
            (inside.aggregate, self.summary, 1),
            (volume, active, 1),
        ];
        for (fs, inode, leaves) in files {
            let file = tree::File {
                inode,
                object: &object,
                leaves: Leaves::Opaque,
                range: 0..u64::MAX,
                bounded: false,
            };
            let mut last = u64::MAX;
            tree::walk(fs, &file, &mut Findings::deaf(), &mut |_, visit| {
                if let Visit::Reference {
                    level: 0, index, ..
                } = visit
                    && std::mem::replace(&mut last, index / leaves) != index / leaves
                {
                    blocks.insert(index / leaves);
                }
            });
        }
        let numbers = self.waiting.iter().chain(&self.protected);
        blocks.extend(numbers.map(|number| number / BITS_PER_BLOCK));
        let end = everglade_format::number::NUMBER_END.div_ceil(BITS_PER_BLOCK);
        blocks.split_off(&end);
        blocks
    }

    /// Everybody's map block; nothing if some of it cannot be read.
    fn column(&mut self, block: u64) -> Option<Column> {
        let fs = self.volume.fs;
        let first = block * BITS_PER_BLOCK;
        let done = self.done.saturating_sub(first).min(BITS_PER_BLOCK);
        let mut column = Column {
            stations: Vec::new(),
            held: Vec::new(),
            at: Vec::new(),
            places: Vec::new(),
            active: zero(),
        };
        let mut known: HashMap<u64, Rc<Block>> = HashMap::new();
        // The facts that decide whether two images are at one station.
        let mut keys: Vec<(Option<u64>, Pointer)> = Vec::new();
        for (node, map) in self.maps.iter().enumerate() {
            let record = self.table.records.get(node);
            let from = match record {
                Some(record) if record.state == State::Gone => None,
                Some(record) if record.is_in_pass => (done < BITS_PER_BLOCK).then_some(done),
                _ => Some(0),
            };
            let mut place = Pointer::HOLE;
            if from.is_some() {
                place = pointer_at(fs, map, block).ok()?;
            }
            let parent = self.table.parents[node];
            let same = parent.filter(|parent| {
                let (its, there) = keys[*parent];
                its == from && (there.vvbn, there.tag) == (place.vvbn, place.tag)
            });
            keys.push((from, place));
            column.places.push(place);
            if let Some(parent) = same {
                let station = column.at[parent];
                column.stations[station].members += 1;
                column.at.push(station);
                continue;
            }
            let hold = match from {
                None => Hold::Nothing,
                Some(from) if place.has_block() => {
                    let bits = match known.get(&place.vvbn.0) {
                        Some(bits) => bits.clone(),
                        None => fs.read(&place).ok()?,
                    };
                    known.insert(place.vvbn.0, bits.clone());
                    Hold::From(from, bits)
                }
                Some(from) => Hold::From(from, Rc::new(*zero())),
            };
            column.at.push(column.stations.len());
            column.stations.push(Station {
                parent: parent.map(|parent| column.at[parent]),
                hold,
                members: 1,
            });
        }
        column.held = column.stations.iter().map(Station::held).collect();
        let last = *column.at.last()?;
        column.active = column.held[last].clone();
        Some(column)
    }

    fn check_block(&mut self, block: u64, findings: &mut Findings) {
        let Some(column) = self.column(block) else {
            self.is_partial = true;
            return;
        };
        let Some(inside) = &self.volume.fs.inside else {
            return;
        };
        self.count(&column);
        // Unreadable blocks of the summary map were reported with the files of the aggregate.
        let Ok(summary) = tree::leaf_at(inside.aggregate, self.summary, block) else {
            return;
        };
        let summary = summary.map_or_else(zero, |bits| Box::new(*bits));
        if self.table.is_connected {
            let apart = column::apart(&column.stations, &column.held);
            let has_also = self.table.has_also();
            for bit in bitmap::ones(&apart) {
                // The parents alone do not connect them; other ancestors may.
                if has_also && self.is_connected(&column, bit) {
                    continue;
                }
                let expected = "holders that descend from one another without a gap";
                let found = self.names(&column, bit);
                self.report(Kind::HoldersApart, block, bit, expected, &found, findings);
            }
        }
        self.check_coverage(block, &column, &summary, findings);
        self.check_summary(block, &column, &summary, findings);
        self.check_container(block, &column, &summary, findings);
    }

    /// True if the whole history connects the holders of a block, through joining images without
    /// the block.
    fn is_connected(&self, column: &Column, bit: u64) -> bool {
        let near = self.table.neighbours();
        let station = |node: usize| column.at[node];
        let holds = |node: usize| bitmap::is_set(&column.held[station(node)], bit);
        let joins = |node: usize| match &column.stations[station(node)].hold {
            Hold::Nothing => true,
            Hold::From(first, _) => bit < *first || holds(node),
        };
        let Some(first) = (0..near.len()).find(|node| holds(*node)) else {
            return true;
        };
        let mut seen = vec![false; near.len()];
        seen[first] = true;
        let mut todo = vec![first];
        while let Some(node) = todo.pop() {
            for next in near[node].iter().copied().filter(|next| joins(*next)) {
                if !std::mem::replace(&mut seen[next], true) {
                    todo.push(next);
                }
            }
        }
        (0..near.len()).all(|node| seen[node] || !holds(node))
    }

    fn count(&mut self, column: &Column) {
        let shared = column::shared(&column.stations, &column.held);
        let mut counted: Vec<Option<(u64, u64)>> = vec![None; column.stations.len()];
        for (node, station) in column.at.iter().enumerate() {
            let held = &column.held[*station];
            let (used, exclusive) = *counted[*station].get_or_insert_with(|| {
                let alone = without(held, &shared);
                let count = |bits: &Block| bitmap::count(bits, 0, BITS_PER_BLOCK);
                (count(held), count(&alone))
            });
            self.counts[node].used += used;
            self.counts[node].exclusive += exclusive;
        }
    }

    /// Blocks that snapshots hold.
    fn held_by_snapshots(&self, column: &Column) -> Box<Block> {
        let mut held = zero();
        let mut stations: BTreeSet<usize> = column.at.iter().copied().collect();
        let active = column.at[column.at.len() - 1];
        if column.stations[active].members == 1 {
            stations.remove(&active);
        }
        for station in stations {
            bitmap::unite(&mut held, &column.held[station]);
        }
        held
    }

    /// Blocks that a clone's base holds, except the superblock, which every volume has for itself:
    /// the blocks that the clone has copied, and the blocks in a parent's container.
    fn base(&self, column: &Column, block: u64) -> (Box<Block>, Box<Block>) {
        let mut bits = zero();
        let roots = &self.volume.superblock.snapshots;
        let mut records = self.table.records.iter().zip(&column.at);
        if roots.base.is_some()
            && let Some((_, station)) = records.find(|(record, _)| record.id == BASE)
        {
            bitmap::unite(&mut bits, &column.held[*station]);
            if block == 0 {
                bitmap::clear(&mut bits, SUPERBLOCK_VVBN.0);
            }
        }
        let done = roots.split.next().unwrap_or(0);
        let done = done.saturating_sub(block * BITS_PER_BLOCK);
        let done = done.min(BITS_PER_BLOCK);
        let mut copied = bits.clone();
        bitmap::keep_range(&mut copied, 0, done);
        bitmap::keep_range(&mut bits, done, BITS_PER_BLOCK);
        (copied, bits)
    }

    /// Blocks of unfolded snapshots.
    fn unfolded(&self, column: &Column) -> Box<Block> {
        let mut bits = zero();
        for (record, station) in self.table.records.iter().zip(&column.at) {
            if record.is_unfolded {
                bitmap::unite(&mut bits, &column.held[*station]);
            }
        }
        bits
    }

    /// Bits that a change of this block of the active map copies to the summary map first.
    fn copied_on_change(&self, column: &Column) -> Box<Block> {
        let active = self.maps.len() - 1;
        let mut bits = zero();
        // Below the position of the pass its victims hold nothing; above, they are ordinary
        // ancestors.
        let mut from = BITS_PER_BLOCK;
        let mut at = self.table.parents[active];
        while let Some(node) = at
            && from > 0
        {
            at = self.table.parents[node];
            let station = column.at[node];
            let Hold::From(first, _) = &column.stations[station].hold else {
                continue;
            };
            let (here, there) = (column.places[active], column.places[node]);
            if here.has_block() && here.vvbn == there.vvbn && *first < from {
                let mut part = column.active.clone();
                bitmap::keep_range(&mut part, *first, from);
                bitmap::unite(&mut bits, &part);
            }
            from = from.min(*first);
        }
        bits
    }

    fn check_coverage(
        &self,
        block: u64,
        column: &Column,
        summary: &Block,
        findings: &mut Findings,
    ) {
        let mut safe = Box::new(*summary);
        bitmap::unite(&mut safe, &self.unfolded(column));
        bitmap::unite(&mut safe, &self.copied_on_change(column));
        let expected = "its bit in the summary map, or what will set it in time";
        for bit in bitmap::ones(&without(&self.held_by_snapshots(column), &safe)) {
            let found = match bitmap::is_set(&column.active, bit) {
                true => "neither; once the active image frees it it is lost",
                false => "neither; it is free",
            };
            let found = format!("{found}; held by {}", self.names(column, bit));
            self.report(Kind::Uncovered, block, bit, expected, &found, findings);
        }
        // Blocks that the fold scan has passed are not checked again.
        let is_unfolded = |record: &everglade_format::SnapshotRecord| record.is_unfolded;
        if let Some(node) = self.table.records.iter().position(is_unfolded) {
            let first = block * BITS_PER_BLOCK;
            let done = self.folded.saturating_sub(first).min(BITS_PER_BLOCK);
            let mut passed = column.held[column.at[node]].clone();
            bitmap::keep_range(&mut passed, 0, done);
            for bit in bitmap::ones(&without(&passed, summary)) {
                let expected = "its bit in the summary map, as the fold scan has passed";
                let found = format!("a clear one; held by {}", self.names(column, bit));
                self.report(Kind::Uncovered, block, bit, expected, &found, findings);
            }
        }
    }

    fn check_summary(&self, block: u64, column: &Column, summary: &Block, findings: &mut Findings) {
        let (first, end) = (block * BITS_PER_BLOCK, (block + 1) * BITS_PER_BLOCK);
        let held = self.held_by_snapshots(column);
        let from = self.waiting.partition_point(|vvbn| *vvbn < first);
        let to = self.waiting.partition_point(|vvbn| *vvbn < end);
        let waiting = bits_of(self.waiting[from..to].iter().copied(), block);
        let protected = bits_of(self.protected.range(first..end).copied(), block);
        let expected = "a block in the summary map alone, as it waits to be released";
        let mut wrong = without(&waiting, summary);
        let mut in_use = held.clone();
        bitmap::unite(&mut in_use, &column.active);
        bitmap::intersect(&mut in_use, &waiting);
        bitmap::unite(&mut wrong, &in_use);
        for bit in bitmap::ones(&wrong) {
            let found = match bitmap::is_set(summary, bit) {
                true => format!("held by {}", self.names(column, bit)),
                false => "not there".to_owned(),
            };
            self.report(Kind::ReleaseEntry, block, bit, expected, &found, findings);
        }
        let done = self.done.saturating_sub(first).min(BITS_PER_BLOCK);
        let mut passed = protected.clone();
        bitmap::keep_range(&mut passed, 0, done);
        for bit in bitmap::ones(&without(&passed, summary)) {
            let expected = "its bit in the summary map, as the delete pass needs it to the end";
            let found = "a clear one";
            self.report(Kind::Uncovered, block, bit, expected, found, findings);
        }
        let mut known = held;
        bitmap::unite(&mut known, &waiting);
        bitmap::unite(&mut known, &protected);
        for bit in bitmap::ones(&without(summary, &known)) {
            let expected = "a snapshot that holds it, or that it waits to be released";
            let kind = Kind::SummaryLeaked;
            self.report(kind, block, bit, expected, "neither", findings);
        }
        if block >= self.volume.superblock.frontier && bitmap::ones(&known).next().is_some() {
            let frontier = self.volume.superblock.frontier;
            let object = self.volume.fs.object();
            let expected = format_args!("nothing held from area {frontier} on");
            let found = format_args!("blocks that snapshots hold in area {block}");
            findings.add(
                Kind::Frontier,
                &object,
                ProblemPlace::at_vvbn(first),
                expected,
                found,
            );
        }
    }

    fn check_container(
        &self,
        block: u64,
        column: &Column,
        summary: &Block,
        findings: &mut Findings,
    ) {
        let (first, end) = (block * BITS_PER_BLOCK, (block + 1) * BITS_PER_BLOCK);
        let (slots, is_known) = usage::slots(self.volume.fs, &(first..end));
        let slots = bits_of(slots.iter().map(|(vvbn, _)| *vvbn), block);
        let mut kept = Box::new(*summary);
        bitmap::unite(&mut kept, &self.unfolded(column));
        // Blocks of a clone's base are in the parent's container, until a split has copied them.
        let (copied, foreign) = self.base(column, block);
        let kept = without(&kept, &foreign);
        let mut in_use = kept.clone();
        bitmap::unite(&mut in_use, &without(&column.active, &foreign));
        for bit in bitmap::ones(&without(&slots, &in_use)) {
            let expected = "a hole in the container for a block that nobody holds";
            let kind = Kind::ContainerExtra;
            self.report(kind, block, bit, expected, "a block", findings);
        }
        if is_known {
            // Holes that the active image has were reported with it.
            let mut holes = without(&kept, &column.active);
            // Blocks that a split has copied were not checked above, because the parent has them,
            // too.
            bitmap::unite(&mut holes, &copied);
            for bit in bitmap::ones(&without(&holes, &slots)) {
                let expected = "a block in the container";
                self.report(
                    Kind::ContainerHole,
                    block,
                    bit,
                    expected,
                    "a hole",
                    findings,
                );
            }
        }
    }

    /// The holders of a block, for people.
    fn names(&self, column: &Column, bit: u64) -> String {
        let mut names = Vec::new();
        let mut more = 0;
        for (node, station) in column.at.iter().enumerate() {
            if !bitmap::is_set(&column.held[*station], bit) {
                continue;
            }
            if names.len() == 4 {
                more += 1;
                continue;
            }
            names.push(match self.table.records.get(node) {
                Some(record) => format!("snapshot {} {}", record.id, record.name),
                None => "the active image".to_owned(),
            });
        }
        match (names.is_empty(), more) {
            (true, _) => "nobody".to_owned(),
            (_, 0) => names.join(", "),
            _ => format!("{} and {more} more", names.join(", ")),
        }
    }

    fn report(
        &self,
        kind: Kind,
        block: u64,
        bit: u64,
        expected: &str,
        found: &str,
        findings: &mut Findings,
    ) {
        let place = ProblemPlace::at_vvbn(block * BITS_PER_BLOCK + bit);
        findings.add(kind, &self.volume.fs.object(), place, expected, found);
    }

    fn check_counts(&self, findings: &mut Findings) {
        if self.is_partial {
            return;
        }
        let roots = &self.volume.superblock.snapshots;
        let mut compare = |object: &Object, kind: Kind, what: &str, expected: u64, found: u64| {
            if expected != found {
                let expected = format_args!("{expected} {what}");
                findings.add(kind, object, ProblemPlace::NONE, expected, found);
            }
        };
        let what = "blocks that nobody else holds";
        for (record, count) in self.table.records.iter().zip(&self.counts) {
            if record.state == State::Gone {
                continue;
            }
            let object = table::object_of(self.volume, record);
            // A pass by addition does not count the losses of its victims.
            let counted = match record.is_in_pass {
                true => record.exclusive.min(count.exclusive),
                false => record.exclusive,
            };
            compare(
                &object,
                Kind::ExclusiveCount,
                what,
                count.exclusive,
                counted,
            );
            if table::has_image(record) {
                let what = "blocks in use, as in its map";
                compare(
                    &object,
                    Kind::UsedCount,
                    what,
                    count.used,
                    record.blocks_used,
                );
            }
        }
        // Without snapshots there are no counts.
        let counted = match self.table.records.is_empty() {
            true => 0,
            false => self.counts[self.counts.len() - 1].exclusive,
        };
        let object = self.volume.fs.object();
        compare(
            &object,
            Kind::ExclusiveCount,
            what,
            counted,
            roots.exclusive,
        );
    }
}
