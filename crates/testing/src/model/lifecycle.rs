//! Volumes and LUNs come, grow, shrink and go.

use super::{Deed, Lun, LunId, Model, OpId, Volume, VolumeId};

impl Model {
    /// Adds a volume that exists from the start.
    pub fn add_volume(&mut self, name: &str, aggregate: u32) -> VolumeId {
        let name = name.to_owned();
        self.volumes.push(Volume {
            name,
            aggregate,
            created: None,
            deletes: Vec::new(),
        });
        VolumeId(self.volumes.len() - 1)
    }

    /// Adds a LUN that exists from the start, full of zeroes. `name` is its export name.
    pub fn add_lun(&mut self, volume: VolumeId, name: &str, size_bytes: u64) -> LunId {
        self.luns.push(Lun {
            name: name.to_owned(),
            volume,
            created: None,
            deletes: Vec::new(),
            sizes: vec![(None, size_bytes)],
            blocks: std::collections::BTreeMap::new(),
            reads_in_flight: 0,
        });
        LunId(self.luns.len() - 1)
    }

    /// Begins the creation of a volume. Like all administrative changes it is durable once
    /// acknowledged.
    pub fn begin_create_volume(&mut self, name: &str, aggregate: u32) -> (OpId, VolumeId) {
        let volume = self.add_volume(name, aggregate);
        let op = self.record(Deed::CreateVolume(volume), aggregate, true);
        self.volumes[volume.0].created = Some(op);
        (op, volume)
    }

    /// Begins the deletion of a volume, with its LUNs.
    pub fn begin_delete_volume(&mut self, volume: VolumeId) -> OpId {
        let aggregate = self.volumes[volume.0].aggregate;
        let op = self.record(Deed::DeleteVolume(volume), aggregate, true);
        self.volumes[volume.0].deletes.push(op);
        for lun in self.luns.iter_mut().filter(|lun| lun.volume == volume) {
            lun.deletes.push(op);
        }
        op
    }

    /// Begins the creation of a LUN.
    pub fn begin_create_lun(
        &mut self,
        volume: VolumeId,
        name: &str,
        size_bytes: u64,
    ) -> (OpId, LunId) {
        let lun = self.add_lun(volume, name, size_bytes);
        let op = self.begin(Deed::CreateLun(lun), lun, true);
        self.luns[lun.0].created = Some(op);
        (op, lun)
    }

    /// Begins the deletion of a LUN.
    pub fn begin_delete_lun(&mut self, lun: LunId) -> OpId {
        let op = self.begin(Deed::DeleteLun(lun), lun, true);
        self.luns[lun.0].deletes.push(op);
        op
    }

    /// Begins the growth of a LUN.
    pub fn begin_grow(&mut self, lun: LunId, size_bytes: u64) -> OpId {
        let op = self.begin(Deed::Grow(lun, size_bytes), lun, true);
        self.luns[lun.0].sizes.push((Some(op), size_bytes));
        op
    }

    /// Begins the shrinkage of a LUN: blocks beyond the new end are zeroes from then on, though
    /// clients cannot read them before the LUN grows again.
    pub fn begin_shrink(&mut self, lun: LunId, size_bytes: u64) -> OpId {
        let before = self.size_bytes(lun);
        let op = self.begin(Deed::Shrink(lun, size_bytes), lun, true);
        let gone = size_bytes / super::BLOCK..before.div_ceil(super::BLOCK);
        self.occupy(op, lun, gone.clone());
        for (_, versions) in self.luns[lun.0].blocks.range_mut(gone) {
            versions.push(op, vec![super::Content::zero()], true);
        }
        self.luns[lun.0].sizes.push((Some(op), size_bytes));
        op
    }

    pub(super) fn withdraw_lifecycle(&mut self, op: OpId) {
        match self.ops[op.0].what {
            // It was never there: as if deleted by its own creation.
            Deed::CreateVolume(volume) => self.volumes[volume.0].deletes.push(op),
            Deed::CreateLun(lun) => self.luns[lun.0].deletes.push(op),
            Deed::DeleteVolume(volume) => {
                self.volumes[volume.0]
                    .deletes
                    .retain(|&delete| delete != op);
                self.luns
                    .iter_mut()
                    .for_each(|lun| lun.deletes.retain(|&delete| delete != op));
            }
            Deed::DeleteLun(lun) => self.luns[lun.0].deletes.retain(|&delete| delete != op),
            Deed::Grow(lun, _) | Deed::Shrink(lun, _) => {
                self.luns[lun.0].sizes.retain(|&(by, _)| by != Some(op))
            }
            _ => {}
        }
    }

    /// The LUN of this export name, if it may exist; the youngest if names were used again.
    #[must_use]
    pub fn lun(&self, name: &str) -> Option<LunId> {
        let index = self.luns.iter().rposition(|lun| lun.name == name)?;
        self.luns[index].deletes.is_empty().then_some(LunId(index))
    }

    /// Blocks ever written in a LUN of this name, in any of its lives.
    #[must_use]
    pub fn blocks_ever(&self, name: &str) -> Vec<u64> {
        let luns = self.luns.iter().filter(|lun| lun.name == name);
        luns.flat_map(|lun| lun.blocks.keys().copied()).collect()
    }

    /// Returns those of [`Model::blocks_ever`] that an operation from `since` on touched, and one
    /// in `others` of the rest.
    #[must_use]
    pub fn blocks_since(&self, name: &str, since: OpId, others: u64) -> Vec<u64> {
        let luns = self.luns.iter().filter(|lun| lun.name == name);
        luns.flat_map(|lun| lun.blocks.iter())
            .filter(|(block, history)| {
                let last = history.versions().last();
                let newest = last.and_then(|version| version.op);
                newest.is_some_and(|op| op >= since) || block.is_multiple_of(others)
            })
            .map(|(block, _)| *block)
            .collect()
    }

    /// The volume of this name, if it may exist.
    #[must_use]
    pub fn volume(&self, name: &str) -> Option<VolumeId> {
        let index = self
            .volumes
            .iter()
            .rposition(|volume| volume.name == name)?;
        self.volumes[index]
            .deletes
            .is_empty()
            .then_some(VolumeId(index))
    }

    /// Names of the volumes that may exist.
    #[must_use]
    pub fn volumes_now(&self) -> Vec<String> {
        let names = self.volumes.iter().map(|volume| &volume.name);
        let mut names: Vec<String> = names
            .filter(|name| self.volume(name).is_some())
            .cloned()
            .collect();
        names.sort();
        names.dedup();
        names
    }

    /// Names and sizes of the LUNs that may exist.
    #[must_use]
    pub fn luns_now(&self) -> Vec<(String, u64)> {
        let names: std::collections::BTreeSet<&String> =
            self.luns.iter().map(|lun| &lun.name).collect();
        let size = |name: &String| Some((name.clone(), self.size_bytes(self.lun(name)?)));
        names.into_iter().filter_map(size).collect()
    }

    /// True once the deletion of the LUN or its volume was requested.
    #[must_use]
    pub fn is_deleting(&self, lun: LunId) -> bool {
        !self.luns[lun.0].deletes.is_empty()
    }

    /// Export name of a LUN.
    #[must_use]
    pub fn name(&self, lun: LunId) -> &str {
        &self.luns[lun.0].name
    }

    /// Size of a LUN once everything under way is done.
    #[must_use]
    pub fn size_bytes(&self, lun: LunId) -> u64 {
        self.luns[lun.0].sizes.last().expect("a LUN has a size").1
    }
}
