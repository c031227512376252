//! Space on the host, and when a new area is better than the rest of an old one (D-13, decision
//! 0020).
//!
//! An area that is half full of blocks at random places is written three blocks at a time; a new
//! area, for which the host must give space, is written in whole stripes. Taking the rests of old
//! areas saves space on the host, taking new ones saves requests to the device, context blocks that
//! must be read, and the processor's time for both.
//!
//! | what the host has left | an old area is taken if it is free to |
//! | --- | --- |
//! | plenty: a tenth of the aggregate beyond one more area, or the device owns its space | 15/16 |
//! | less than that | 1/2 |
//! | nothing: it refused | any part |
//!
//! 1. The pool does not use so much of the host that `status` warns (at a twentieth left) while it
//!    could have reused old areas.
//! 2. Free areas that are not needed soon are returned to the host. While the host is short of
//!    space they are returned promptly; otherwise the pool keeps a few areas, because punching an
//!    area that is rewritten soon is wasted work.
//! 3. Areas that the pool has from a full host stay. After a start it is not known which free areas
//!    have their space, so the pool asks for each of them once, whether the host refuses or not;
//!    the reserve is among them.
//! 4. Maps are searched for old areas only if the best area that a search could find would be
//!    better than a new area.

/// New areas are preferred while the host has at least one part in `PLENTY_PART` of the aggregate
/// left.
const PLENTY_PART: u64 = 10;

/// Space that is left to the host when a pool asks for its last areas, unless the reserve needs it.
pub const HOST_MARGIN_BYTES: u64 = 64 << 20;

/// The consistency point's knowledge about its host.
#[derive(Default)]
pub(crate) struct Host {
    /// The area the consistency point waits for: extent and area.
    pub(crate) wanted: Option<(usize, u64)>,
    /// True if the host was asked for the space of this area.
    pub(crate) asked: bool,
    /// The host refused the last request; until it grants one, only areas it gave before are used.
    pub(crate) full: bool,
    /// The host had no space at the last request.
    pub(crate) refuses: bool,
    /// A search for areas that are unknown since the start was made after the host last gave space.
    pub(crate) searched: bool,
    /// True if the host reports enough space for new areas.
    pub(crate) has_plenty: bool,
}

impl Host {
    /// Records what the host with the least to give has left, in bytes; `None` if all devices own
    /// their space, or no host says.
    pub(crate) fn note_free(&mut self, free: Option<u64>, area_bytes: u64, aggregate_bytes: u64) {
        self.has_plenty = free.is_none_or(|free| {
            free.checked_sub(area_bytes)
                .is_some_and(|rest| rest >= aggregate_bytes / PLENTY_PART)
        });
    }

    /// True if a new area is better than most old ones.
    pub(crate) fn prefers_new(&self) -> bool {
        self.has_plenty && !self.full
    }

    /// Free blocks that an area in use has at least if it is taken before a new one.
    pub(crate) fn least_free(&self, area_blocks: u64) -> u64 {
        match self.prefers_new() {
            true => nearly_free(area_blocks),
            false => area_blocks / 2,
        }
    }
}

/// Free blocks of an area that is as good as a new one.
pub(crate) fn nearly_free(area_blocks: u64) -> u64 {
    area_blocks - area_blocks / 16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_areas_are_preferred_while_the_host_has_a_tenth_of_the_aggregate() {
        let mut host = Host::default();
        assert_eq!(host.least_free(256), 128, "nothing is known yet");
        host.note_free(Some(10_000 + 256), 256, 100_000);
        assert_eq!(host.least_free(256), 240);
        host.note_free(Some(10_000 + 255), 256, 100_000);
        assert_eq!(host.least_free(256), 128, "the area itself counts");
        host.note_free(None, 256, 100_000);
        assert_eq!(host.least_free(256), 240, "a disk owns its space");
        host.full = true;
        assert_eq!(host.least_free(256), 128, "it refused");
    }
}
