//! The affinities of one aggregate and of one volume, and the routing of block numbers to them.
//!
//! Routing is static: equal inputs give equal affinities for as long as the node lives, which is
//! what makes two messages on one block meet. The counts change only by removing and adding
//! anew.

use crate::affinities::Affinities;
use crate::class::{
    Aggregate, AggregateVbn, Kind, ParentOf, Range, Stripe, Volume, VolumeLogical, VolumeVbn,
};
use crate::node::Affinity;
use crate::outcome::Gone;

/// Stripe affinities per volume.
pub const STRIPES: usize = 64;
/// Stripe affinities per volume in the ablation that reproduces the papers' fixed count.
pub const STRIPES_ABLATION: usize = 9;
/// Range affinities per volume and per aggregate.
pub const RANGES: usize = 8;

/// The affinities of an aggregate, without its volumes.
#[derive(Clone, Debug)]
pub struct AggregateAffinities {
    /// The aggregate with all its volumes.
    pub aggregate: Affinity<Aggregate>,
    /// Its allocation metafiles.
    pub vbn: Affinity<AggregateVbn>,
    ranges: Box<[Affinity<Range>]>,
}

/// The affinities of a volume.
#[derive(Clone, Debug)]
pub struct VolumeAffinities {
    /// The whole volume.
    pub volume: Affinity<Volume>,
    /// Its client data.
    pub logical: Affinity<VolumeLogical>,
    /// Its allocation metafiles.
    pub vbn: Affinity<VolumeVbn>,
    stripes: Box<[Affinity<Stripe>]>,
    ranges: Box<[Affinity<Range>]>,
}

impl AggregateAffinities {
    /// Adds an aggregate. There must be at least one range.
    pub fn add<M: Copy>(
        affinities: &Affinities<M>,
        ranges: usize,
    ) -> Result<AggregateAffinities, Gone> {
        let aggregate = affinities.add(affinities.serial())?;
        let vbn = affinities.add(&aggregate)?;
        let ranges = add_all(affinities, &vbn, ranges)?;
        Ok(AggregateAffinities {
            aggregate,
            vbn,
            ranges,
        })
    }

    /// The range that owns block `index` of every allocation metafile of the aggregate.
    #[must_use]
    pub fn range(&self, index: u64) -> &Affinity<Range> {
        rotate(&self.ranges, index)
    }

    /// Returns all ranges.
    #[must_use]
    pub fn ranges(&self) -> &[Affinity<Range>] {
        &self.ranges
    }
}

impl VolumeAffinities {
    /// Adds a volume. There must be at least one stripe and one range.
    pub fn add<M: Copy>(
        affinities: &Affinities<M>,
        aggregate: &Affinity<Aggregate>,
        stripes: usize,
        ranges: usize,
    ) -> Result<VolumeAffinities, Gone> {
        let volume = affinities.add(aggregate)?;
        let logical = affinities.add(&volume)?;
        let vbn = affinities.add(&volume)?;
        let stripes = add_all(affinities, &logical, stripes)?;
        let ranges = add_all(affinities, &vbn, ranges)?;
        Ok(VolumeAffinities {
            volume,
            logical,
            vbn,
            stripes,
            ranges,
        })
    }

    /// The affinity of file stripe `index` of a file. Files start at different affinities, and
    /// consecutive file stripes follow each other around.
    #[must_use]
    pub fn stripe(&self, file: u32, index: u64) -> &Affinity<Stripe> {
        rotate(&self.stripes, index.wrapping_add(u64::from(file)))
    }

    /// The range that owns block `index` of every allocation metafile of the volume.
    #[must_use]
    pub fn range(&self, index: u64) -> &Affinity<Range> {
        rotate(&self.ranges, index)
    }

    /// Returns all stripes.
    #[must_use]
    pub fn stripes(&self) -> &[Affinity<Stripe>] {
        &self.stripes
    }

    /// Returns all ranges.
    #[must_use]
    pub fn ranges(&self) -> &[Affinity<Range>] {
        &self.ranges
    }
}

fn add_all<M: Copy, P: ParentOf<C>, C: Kind>(
    affinities: &Affinities<M>,
    parent: &Affinity<P>,
    count: usize,
) -> Result<Box<[Affinity<C>]>, Gone> {
    assert!(count > 0, "{parent:?} without any {}", C::CLASS);
    (0..count).map(|_| affinities.add(parent)).collect()
}

#[expect(clippy::cast_possible_truncation, reason = "less than a length")]
fn rotate<C: Kind>(all: &[Affinity<C>], index: u64) -> &Affinity<C> {
    &all[(index % all.len() as u64) as usize]
}
