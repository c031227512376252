//! Snapshots of a volume: records of the snapshot table, a side file of the volume in the aggregate
//! (F-01).
//!
//! A snapshot is the root in the volume's superblock at one consistency point: the inode of its
//! inode file. The inode of its active map, then called *snapmap* (F-02), is kept beside it, so
//! that scans need nothing else of the snapshot's tree. Two records to a block, at 16 + 2,040 × i,
//! after a [`crate::indirect::Header`].
//!
//! | offset in a record | bytes | field |
//! | --- | --- | --- |
//! | 0 | 4 | snapshot id, from 1 on; 0 in a free slot, which is all zero |
//! | 4 | 1 | state: 1 = live, 2 = being deleted, 3 = gone |
//! | 5 | 1 | length of the name |
//! | 6 | 1 | number of holds, at most 16 |
//! | 7 | 1 | flags: bit 0 = the summary map may lack blocks of it, bit 1 = the delete scan under way is for it |
//! | 8 | 64 | name |
//! | 72 | 4 | parent: the snapshot it descends from, 0 = none |
//! | 76 | 4 | next file id of its image |
//! | 80 | 8 | consistency point |
//! | 88 | 8 | time, seconds since 1970 UTC |
//! | 96 | 8 | blocks of its image: set bits of its snapmap |
//! | 104 | 8 | exclusive blocks: those that nothing else holds |
//! | 112 | 8 | of its blocks, those of files that were being deleted when it was taken |
//! | 120 | 8 | lost blocks, as in the volume's superblock |
//! | 128 | 8 | time of deletion, seconds since 1970 UTC, if the snapshot is in the trash; otherwise 0 |
//! | 144 | 288 | inode of the inode file |
//! | 432 | 288 | inode of the active map |
//! | 720 | 80 each | holds |
//! | 2000 | 4 each | up to 8 further snapshots that it descends from, 0 = none: LUNs of theirs were restored |
//!
//! | offset in a hold | bytes | field |
//! | --- | --- | --- |
//! | 0 | 1 | length of the tag |
//! | 8 | 64 | tag, by the rule for names |
//! | 72 | 8 | time, seconds since 1970 UTC |
//!
//! Of a *gone* snapshot only id and parent matter: it joins its children in the history tree.
//!
//! A live snapshot that is in the trash is whole, and its name is free for others. A build that
//! does not know the field shows it as if it had not been deleted, and refuses the volume if
//! another snapshot has got its name.

use crate::bytes::{array_at, put, u32_at, u64_at};
use crate::config::name_is_valid;
use crate::indirect::HEADER_BYTES;
use crate::inode::INODE_BYTES;
use crate::{Block, CpNumber, Damage, FileId, Inode, Layer, SnapshotId};

/// Records in a block of the snapshot table.
pub const RECORDS_PER_BLOCK: u64 = 2;
/// Most holds on one snapshot.
pub const HOLDS_MAX: usize = 16;
/// Most snapshots of one volume that are not gone.
pub const SNAPSHOTS_MAX: usize = 1_023;
/// Most snapshots that an image descends from besides its parent.
pub const ALSO_MAX: usize = 8;
const RECORD_BYTES: usize = 2_040;
const HOLDS_OFFSET: usize = 720;
const HOLD_BYTES: usize = 80;
const ALSO_OFFSET: usize = HOLDS_OFFSET + HOLDS_MAX * HOLD_BYTES;
const _: () = assert!(ALSO_OFFSET + 4 * ALSO_MAX <= RECORD_BYTES);
const FLAG_UNFOLDED: u8 = 1;
const FLAG_IN_PASS: u8 = 2;

/// The state of a record's snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// A snapshot.
    Live = 1,
    /// A deleted one whose blocks the scan has yet to release (F-10).
    Deleting = 2,
    /// A deleted one without blocks; its place in the history tree joins others.
    Gone = 3,
}

/// A reason, given by a client, not to delete a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Its name, unique among the snapshot's.
    pub tag: String,
    /// When it was placed, seconds since 1970 UTC.
    pub seconds: u64,
}

/// One record of the snapshot table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotRecord {
    /// Never reused in the volume.
    pub id: SnapshotId,
    /// State of the snapshot.
    pub state: State,
    /// Unique among the volume's live snapshots that are not in the trash.
    pub name: String,
    /// When it was put into the trash, seconds since 1970 UTC; 0 if it is not there.
    pub deleted_seconds: u64,
    /// Parent of the image in the history.
    pub parent: Option<SnapshotId>,
    /// Further ancestors of the image: LUNs of these snapshots were restored. Ascending, without
    /// duplicates.
    pub also: Vec<SnapshotId>,
    /// The summary map may lack blocks of this snapshot: the snapshot is a child of no ancestor of
    /// the active image, and the fold scan has not added all its blocks yet.
    pub is_unfolded: bool,
    /// The delete scan under way releases it.
    pub is_in_pass: bool,
    /// The next file id of its image.
    pub next_file: FileId,
    /// The consistency point whose image it is.
    pub cp: CpNumber,
    /// When it was taken, seconds since 1970 UTC.
    pub seconds: u64,
    /// Set bits of its snapmap.
    pub blocks_used: u64,
    /// Blocks that neither the active image nor another snapshot holds.
    pub exclusive: u64,
    /// Blocks of files that were being deleted when it was taken.
    pub pending: u64,
    /// Lost blocks of the volume at that time.
    pub lost: u64,
    /// Root of its files.
    pub inode_file: Inode,
    /// Its snapmap.
    pub active_map: Inode,
    /// Reasons not to delete it.
    pub holds: Vec<Hold>,
}

fn name_at(record: &[u8], at: usize, length: u8, what: &'static str) -> Result<String, Damage> {
    let length = usize::from(length).min(64);
    let name = String::from_utf8_lossy(&record[at..at + length]).into_owned();
    if !name_is_valid(&name) {
        return Err(Damage::new(what, "letters, digits and ._-", name));
    }
    Ok(name)
}

impl SnapshotRecord {
    /// True if state, flags and holds agree (F-10). Only a deleting snapshot is in a pass, and it
    /// is folded then. Only a live snapshot has holds or is in the trash, and it never has both. A
    /// gone snapshot has neither flags nor holds.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let is_held = !self.holds.is_empty();
        match self.state {
            State::Live => !(self.is_in_pass || is_held && self.deleted_seconds != 0),
            State::Deleting => !(is_held || self.is_in_pass && self.is_unfolded),
            State::Gone => !(is_held || self.is_in_pass || self.is_unfolded),
        }
    }

    /// True if it was deleted and can come back.
    #[must_use]
    pub fn is_in_trash(&self) -> bool {
        self.state == State::Live && self.deleted_seconds != 0
    }

    /// True if clients find it by its name.
    #[must_use]
    pub fn is_named(&self) -> bool {
        self.state == State::Live && self.deleted_seconds == 0
    }

    /// Block of the table and slot in it.
    #[must_use]
    pub fn block_and_slot(slot: u64) -> (u64, u64) {
        (slot / RECORDS_PER_BLOCK, slot % RECORDS_PER_BLOCK)
    }

    /// Writes `record` (or nothing) into a slot of a block that already has its header.
    pub fn encode_into(block: &mut Block, slot: u64, record: Option<&SnapshotRecord>) {
        assert!(slot < RECORDS_PER_BLOCK, "slot {slot} of a snapshot block");
        let at = HEADER_BYTES + usize::from(slot == 1) * RECORD_BYTES;
        block[at..at + RECORD_BYTES].fill(0);
        let Some(record) = record else { return };
        assert!(name_is_valid(&record.name), "name {:?}", record.name);
        assert!(record.holds.len() <= HOLDS_MAX, "too many holds");
        put(block, at, record.id.0.to_le_bytes());
        block[at + 4] = record.state as u8;
        block[at + 5] = u8::try_from(record.name.len()).expect("at most 64");
        block[at + 6] = u8::try_from(record.holds.len()).expect("at most 16");
        block[at + 7] = u8::from(record.is_unfolded) * FLAG_UNFOLDED
            + u8::from(record.is_in_pass) * FLAG_IN_PASS;
        block[at + 8..at + 8 + record.name.len()].copy_from_slice(record.name.as_bytes());
        put(
            block,
            at + 72,
            record.parent.map_or(0, |id| id.0).to_le_bytes(),
        );
        put(block, at + 76, record.next_file.0.to_le_bytes());
        put(block, at + 80, record.cp.0.to_le_bytes());
        put(block, at + 88, record.seconds.to_le_bytes());
        put(block, at + 96, record.blocks_used.to_le_bytes());
        put(block, at + 104, record.exclusive.to_le_bytes());
        put(block, at + 112, record.pending.to_le_bytes());
        put(block, at + 120, record.lost.to_le_bytes());
        put(block, at + 128, record.deleted_seconds.to_le_bytes());
        put(block, at + 144, record.inode_file.encode(Layer::Volume));
        put(block, at + 432, record.active_map.encode(Layer::Volume));
        encode_also(block, at + ALSO_OFFSET, &record.also);
        for (index, hold) in record.holds.iter().enumerate() {
            assert!(name_is_valid(&hold.tag), "tag {:?}", hold.tag);
            let at = at + HOLDS_OFFSET + index * HOLD_BYTES;
            block[at] = u8::try_from(hold.tag.len()).expect("at most 64");
            block[at + 8..at + 8 + hold.tag.len()].copy_from_slice(hold.tag.as_bytes());
            put(block, at + 72, hold.seconds.to_le_bytes());
        }
    }

    /// Reads the records of a block with their slots in it.
    ///
    /// # Errors
    /// Bytes that are no record.
    pub fn decode(block: &Block) -> Result<Vec<(u64, SnapshotRecord)>, Damage> {
        let mut records = Vec::new();
        for slot in 0..RECORDS_PER_BLOCK {
            let at = HEADER_BYTES + usize::from(slot == 1) * RECORD_BYTES;
            let bytes: [u8; RECORD_BYTES] = array_at(block, at);
            if bytes != [0; RECORD_BYTES] {
                records.push((slot, decode_record(&bytes)?));
            }
        }
        Ok(records)
    }
}

/// Writes what an image descends from besides its parent.
pub(crate) fn encode_also(block: &mut Block, at: usize, also: &[SnapshotId]) {
    assert!(also.len() <= ALSO_MAX, "{also:?} are too many");
    for (index, id) in also.iter().enumerate() {
        put(block, at + 4 * index, id.0.to_le_bytes());
    }
}

/// Reads it.
pub(crate) fn decode_also(bytes: &[u8], at: usize) -> Result<Vec<SnapshotId>, Damage> {
    let ids = (0..ALSO_MAX).map(|index| SnapshotId(u32_at(bytes, at + 4 * index)));
    let also: Vec<SnapshotId> = ids.filter(|id| id.0 != 0).collect();
    if !also.is_sorted_by(|one, other| one < other) {
        let found = format!("{also:?}");
        return Err(Damage::new(
            "snapshots descended from",
            "ascending ids",
            found,
        ));
    }
    Ok(also)
}

fn decode_record(bytes: &[u8; RECORD_BYTES]) -> Result<SnapshotRecord, Damage> {
    let id = SnapshotId(u32_at(bytes, 0));
    if id.0 == 0 {
        return Err(Damage::new("snapshot id", "at least 1", 0));
    }
    let state = match bytes[4] {
        1 => State::Live,
        2 => State::Deleting,
        3 => State::Gone,
        other => return Err(Damage::new("snapshot state", "1 to 3", other)),
    };
    if usize::from(bytes[6]) > HOLDS_MAX {
        return Err(Damage::new("number of holds", "at most 16", bytes[6]));
    }
    let mut holds = Vec::new();
    for index in 0..usize::from(bytes[6]) {
        let at = HOLDS_OFFSET + index * HOLD_BYTES;
        holds.push(Hold {
            tag: name_at(bytes, at + 8, bytes[at], "tag of a hold")?,
            seconds: u64_at(bytes, at + 72),
        });
    }
    let parent = u32_at(bytes, 72);
    Ok(SnapshotRecord {
        id,
        state,
        name: name_at(bytes, 8, bytes[5], "snapshot name")?,
        parent: (parent != 0).then_some(SnapshotId(parent)),
        also: decode_also(bytes, ALSO_OFFSET)?,
        is_unfolded: bytes[7] & FLAG_UNFOLDED != 0,
        is_in_pass: bytes[7] & FLAG_IN_PASS != 0,
        next_file: FileId(u32_at(bytes, 76)),
        cp: CpNumber(u64_at(bytes, 80)),
        seconds: u64_at(bytes, 88),
        blocks_used: u64_at(bytes, 96),
        exclusive: u64_at(bytes, 104),
        pending: u64_at(bytes, 112),
        lost: u64_at(bytes, 120),
        deleted_seconds: u64_at(bytes, 128),
        inode_file: Inode::decode(&array_at::<INODE_BYTES>(bytes, 144), Layer::Volume)?,
        active_map: Inode::decode(&array_at::<INODE_BYTES>(bytes, 432), Layer::Volume)?,
        holds,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inode::Kind;
    use crate::metafile::{ACTIVE_MAP, INODE_FILE};

    fn record(id: u32) -> SnapshotRecord {
        SnapshotRecord {
            id: SnapshotId(id),
            state: State::Deleting,
            name: format!("daily.{id}"),
            parent: Some(SnapshotId(9)),
            also: vec![SnapshotId(2), SnapshotId(5)],
            is_unfolded: true,
            is_in_pass: false,
            next_file: FileId(71),
            cp: CpNumber(12),
            seconds: 1_700_000_000,
            blocks_used: 100,
            exclusive: 7,
            pending: 3,
            lost: 1,
            deleted_seconds: 0,
            inode_file: Inode::new(INODE_FILE, Kind::Metafile, CpNumber(1), 5),
            active_map: Inode::new(ACTIVE_MAP, Kind::Metafile, CpNumber(1), 5),
            holds: vec![Hold {
                tag: "backup".to_owned(),
                seconds: 4,
            }],
        }
    }

    #[test]
    fn state_flags_and_holds_go_together() {
        let sound = |state, is_unfolded, is_in_pass, is_held: bool| {
            let one = record(1);
            let record = SnapshotRecord {
                state,
                is_unfolded,
                is_in_pass,
                holds: one.holds.iter().filter(|_| is_held).cloned().collect(),
                ..one
            };
            record.is_sound()
        };
        assert!(sound(State::Live, true, false, true));
        assert!(!sound(State::Live, false, true, false), "not deleted");
        assert!(sound(State::Deleting, true, false, false));
        assert!(sound(State::Deleting, false, true, false));
        assert!(!sound(State::Deleting, true, true, false), "not folded");
        assert!(!sound(State::Deleting, false, false, true), "held");
        assert!(sound(State::Gone, false, false, false));
        assert!(!sound(State::Gone, true, false, false));
        assert!(!sound(State::Gone, false, true, false));
        assert!(!sound(State::Gone, false, false, true));
        let trashed = SnapshotRecord {
            state: State::Live,
            deleted_seconds: 9,
            holds: Vec::new(),
            ..record(1)
        };
        assert!(trashed.is_sound() && trashed.is_in_trash() && !trashed.is_named());
        let holds = record(1).holds;
        let held = SnapshotRecord { holds, ..trashed };
        assert!(!held.is_sound(), "held");
    }

    #[test]
    fn records_survive_the_round_trip_and_keep_their_slots() {
        let mut block = [0; crate::BLOCK_SIZE];
        SnapshotRecord::encode_into(&mut block, 1, Some(&record(8)));
        assert_eq!(SnapshotRecord::decode(&block), Ok(vec![(1, record(8))]));
        let mut full = record(7);
        full.holds = (0..HOLDS_MAX)
            .map(|index| Hold {
                tag: format!("{index:064}"),
                seconds: u64::MAX,
            })
            .collect();
        full.parent = None;
        full.also = (1..=8).map(SnapshotId).collect();
        SnapshotRecord::encode_into(&mut block, 0, Some(&full));
        assert_eq!(
            SnapshotRecord::decode(&block),
            Ok(vec![(0, full), (1, record(8))])
        );
        SnapshotRecord::encode_into(&mut block, 0, None);
        assert_eq!(SnapshotRecord::decode(&block), Ok(vec![(1, record(8))]));
    }

    #[test]
    fn bytes_that_are_no_record_are_refused() {
        let mut block = [0; crate::BLOCK_SIZE];
        SnapshotRecord::encode_into(&mut block, 0, Some(&record(8)));
        let broken = |at: usize, byte: u8| {
            let mut block = block;
            block[HEADER_BYTES + at] = byte;
            SnapshotRecord::decode(&block)
        };
        assert!(broken(4, 0).is_err(), "state");
        assert!(broken(5, 0).is_err(), "no name");
        assert!(broken(6, 17).is_err(), "holds");
        assert!(broken(8, b'/').is_err(), "name");
        assert!(broken(144 + 4, 99).is_err(), "inode kind");
        assert!(broken(2004, 2).is_err(), "one id twice");
    }
}
