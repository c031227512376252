//! Candidate: areas that the gardener looks at together.

/// An area of an extent that is filled by itself, or the same area of all columns of a parity
/// group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Candidate {
    /// The extent, or the first column of a parity group.
    pub(crate) extent: usize,
    /// The area, counted from the beginning of the extent.
    pub(crate) area: u64,
}

impl Candidate {
    /// The first one, from this one on, of extents with so many areas.
    pub(crate) fn within(mut self, ends: &[u64]) -> Option<Candidate> {
        while let Some(end) = ends.get(self.extent) {
            if self.area < *end {
                return Some(self);
            }
            self = Candidate {
                extent: self.extent + 1,
                area: 0,
            };
        }
        None
    }

    /// The next area of the same extent.
    pub(crate) fn next(self) -> Candidate {
        Candidate {
            area: self.area + 1,
            ..self
        }
    }
}
