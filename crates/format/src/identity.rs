//! The UUID of a LUN: what hosts know it by, whatever its name is.
//!
//! It follows from numbers that never change and are never given twice: the aggregate's UUID, the
//! number of the volume in the aggregate and the number of the LUN's file in the volume. So it
//! needs no place on media; a LUN keeps it when it, its volume or its aggregate is renamed, and a
//! pool that moves to another machine takes it along. A clone is another file or in another volume,
//! and so has another one.
//!
//! A snapshot's image of a LUN is the same file in the same volume. Its UUID also follows from the
//! snapshot's name: it has the same one for as long as the snapshot has that name.
//!
//! The UUID has version 8 (RFC 9562): 122 bits of BLAKE3 over these, in this order.
//!
//! A volume has a UUID of the same kind, which no host sees: what is noted for a volume, such as
//! its limit, is noted under it. So has a snapshot, for people who mean one in the trash.

use crate::{FileId, SnapshotId};

/// Sets these UUIDs apart from other uses of the hash.
const CONTEXT: &str = "everglade 2026-11-26 UUID of a LUN";
const CONTEXT_OF_VOLUMES: &str = "everglade 2026-11-28 UUID of a volume";
const CONTEXT_OF_SNAPSHOTS: &str = "everglade 2026-11-28 UUID of a snapshot";

/// Returns the UUID of volume `volume`.
#[must_use]
pub fn volume_uuid(aggregate: &[u8; 16], volume: FileId) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new_derive_key(CONTEXT_OF_VOLUMES);
    hasher.update(aggregate);
    hasher.update(&volume.0.to_le_bytes());
    uuid_of(&hasher)
}

/// Returns the UUID of a snapshot of volume `volume`.
#[must_use]
pub fn snapshot_uuid(aggregate: &[u8; 16], volume: FileId, snapshot: SnapshotId) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new_derive_key(CONTEXT_OF_SNAPSHOTS);
    hasher.update(aggregate);
    hasher.update(&volume.0.to_le_bytes());
    hasher.update(&snapshot.0.to_le_bytes());
    uuid_of(&hasher)
}

/// Returns the UUID of file `lun` in volume `volume`, or of its image in a snapshot.
#[must_use]
pub fn lun_uuid(
    aggregate: &[u8; 16],
    volume: FileId,
    lun: FileId,
    snapshot: Option<&str>,
) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new_derive_key(CONTEXT);
    hasher.update(aggregate);
    hasher.update(&volume.0.to_le_bytes());
    hasher.update(&lun.0.to_le_bytes());
    if let Some(snapshot) = snapshot {
        hasher.update(snapshot.as_bytes());
    }
    uuid_of(&hasher)
}

fn uuid_of(hasher: &blake3::Hasher) -> [u8; 16] {
    let mut uuid = [0; 16];
    hasher.finalize_xof().fill(&mut uuid);
    uuid[6] = uuid[6] & 0x0f | 0x80;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    uuid
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hosts keep these: a change of how they are made would make every disk a new one.
    #[test]
    fn a_uuid_never_changes() {
        let lun = |snapshot| lun_uuid(&[7; 16], FileId(64), FileId(65), snapshot);
        let text = |uuid: [u8; 16]| format!("{:032x}", u128::from_be_bytes(uuid));
        assert_eq!(text(lun(None)), "dc8766bb27ad88d6912cc1dc9fba0162");
        assert_eq!(text(lun(Some("daily"))), "4ca950131b1c8155877da22e2c262493");
        let volume = volume_uuid(&[7; 16], FileId(64));
        assert_eq!(text(volume), "531adf11da2d8194a0506e5da698cabd");
    }

    #[test]
    fn volumes_files_and_aggregates_have_their_own() {
        let all = [
            lun_uuid(&[7; 16], FileId(64), FileId(65), None),
            lun_uuid(&[7; 16], FileId(65), FileId(64), None),
            lun_uuid(&[8; 16], FileId(64), FileId(65), None),
            lun_uuid(&[7; 16], FileId(64), FileId(65), Some("a")),
        ];
        let different: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len());
    }
}
