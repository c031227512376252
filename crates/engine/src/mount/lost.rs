//! Lost segment files: found when an aggregate is opened, before anything is written to it.
//!
//! The aggregate serves what is left, and does nothing that would be wrong once the files are back:
//!
//! 1. A lost file with a part of the journal refuses the opening: acknowledged writes may be there
//!    and nowhere else, and an absent file looks like a journal that was never written.
//! 2. No block is allocated where a lost file should be: its areas are left out.
//! 3. Without all copies of the superblock nothing can be committed, so the aggregate is read-only.
//! 4. A block that cannot be read and that a change needs does not become lost in the tree: the
//!    aggregate becomes read-only instead ([`crate::home::volume`]).
//!
//! In a mirror:
//!
//! 5. A drive that has lost files is left out, like one that failed, if another drive of its column
//!    has all of its files. At the next start it is behind, and catches up: it gets all blocks in
//!    use, so a file that is absent is made anew.
//! 6. If no drive of a column has all of its files, all of these drives are read: what one lacks,
//!    another one may have. The aggregate is read-only, because a write that fails would take a
//!    drive out that alone has some of the blocks.
//! 7. A drive that is behind does not catch up while a file of it is cut off: nothing would give
//!    that file its length.

use std::collections::BTreeMap;
use std::ops::Range;

use everglade_env::{DeviceId, SegmentFault, Storage};
use everglade_format::Superblock;
use everglade_freespace::Areas;

use crate::media::Layout;
use crate::mount::refusal::Refusal;
use crate::pool::aggregate::Aggregate;
use crate::pool::segments::words;

/// Files that a refusal names.
const NAMED_MAX: usize = 3;

/// The lost files that were found.
#[derive(Debug, Default)]
pub(crate) struct Lost {
    /// Those of drives that are used.
    pub(crate) missed: Vec<SegmentFault>,
    /// Those of drives that are left out.
    pub(crate) spared: Vec<SegmentFault>,
}

/// Finds the lost files, and leaves drives out that can be spared.
///
/// Drives that are `astray` are no replacement for others.
pub(crate) fn find(
    storage: &dyn Storage,
    layout: &mut Layout,
    superblock: &Superblock,
    astray: &[DeviceId],
) -> Result<Lost, Refusal> {
    let mut written: BTreeMap<DeviceId, Vec<Range<u64>>> = BTreeMap::new();
    for (device, range) in layout.written_ranges(&superblock.frontiers) {
        written.entry(device).or_default().push(range);
    }
    let mut faults = BTreeMap::new();
    for (device, ranges) in written {
        let found = storage.find_lost(device, &ranges);
        if !found.is_empty() {
            faults.insert(device, found);
        }
    }
    let mut lost = Lost::default();
    let idle: Vec<DeviceId> = layout.devices().filter(|it| layout.is_out(*it)).collect();
    for device in idle {
        let found = storage.find_lost(device, &[]);
        if !found.is_empty()
            && let Some(next) = layout.without(device)
        {
            *layout = next;
            lost.spared.extend(found);
        }
    }
    for (device, found) in &faults {
        let is_whole = |other| !faults.contains_key(&other) && !astray.contains(&other);
        let is_spared = layout.suffices_without(*device, is_whole);
        match layout.without(*device).filter(|_| is_spared) {
            Some(next) => {
                *layout = next;
                lost.spared.extend_from_slice(found);
            }
            None => lost.missed.extend_from_slice(found),
        }
    }
    let journal = layout.journal();
    let in_journal = |fault: &&SegmentFault| has_part_of(fault, &journal);
    let needed: Vec<&SegmentFault> = lost.missed.iter().filter(in_journal).collect();
    let lacks = |(device, _): &(DeviceId, _)| needed.iter().any(|fault| fault.device == *device);
    match !journal.is_empty() && journal.iter().all(lacks) {
        true => Err(refusal(&needed)),
        false => Ok(lost),
    }
}

/// True if a part of these ranges of devices was in the file.
fn has_part_of(fault: &SegmentFault, ranges: &[(DeviceId, Range<u64>)]) -> bool {
    let lost = &fault.range;
    let mut own = ranges.iter().filter(|(device, _)| *device == fault.device);
    own.any(|(_, range)| range.start < lost.end && lost.start < range.end)
}

fn refusal(needed: &[&SegmentFault]) -> Refusal {
    let named = || needed.iter().take(NAMED_MAX);
    let mut found: Vec<String> = named().map(|fault| words(fault)).collect();
    let others = needed.len() - found.len();
    if others > 0 {
        found.push(format!("{others} more likewise"));
    }
    let making: Vec<String> = named().map(|fault| fault.making()).collect();
    Refusal::new(
        format!("{}, and the journal was there", found.join(", ")),
        "all segment files of the journal as they were left",
        format!(
            "While no daemon runs, put back what is missing. If it is lost for good, run {}: the \
            newest writes may then be missing, also those that were acknowledged. Nothing was \
            changed",
            making.join("; ")
        ),
    )
}

/// Leaves out the areas that have a part in a lost file.
pub(crate) fn leave_out(aggregate: &Aggregate, layout: &Layout, areas: &mut [Areas]) {
    for fault in &aggregate.lost_segments {
        for (extent, lost) in layout.areas_in(fault.device, &fault.range) {
            lost.for_each(|area| areas[extent].leave_out(area));
        }
    }
}

/// Makes the aggregate read-only if nothing may be written: rules 3 and 6.
pub(crate) fn halt_if_needed(aggregate: &Aggregate) {
    let layout = aggregate.media.layout();
    if layout.config.has_groups() {
        aggregate.halt("no drive of a group has all of its segment files".to_owned());
        return;
    }
    let labels: Vec<_> = layout.labels().collect();
    let mut lost = aggregate.lost_segments.iter();
    if lost.any(|fault| has_part_of(fault, &labels)) {
        aggregate.halt("a copy of the superblock cannot be written".to_owned());
    }
}

#[cfg(test)]
mod tests {
    use everglade_env::DiskError;
    use everglade_format::Dbn;
    use everglade_format::config::JournalRegion;

    use super::*;
    use crate::media::layout::tests::two_devices;
    use crate::mount::labels::tests::superblock;

    const BLOCK: u64 = 4096;

    /// Two devices of which one segment of the second is lost.
    struct Devices(Range<u64>);

    impl Storage for Devices {
        fn size_bytes(&self, _: DeviceId) -> u64 {
            2000 * BLOCK
        }

        fn read(&self, _: DeviceId, _: u64, _: &mut [u8]) -> Result<(), DiskError> {
            Err(DiskError::Gone)
        }

        fn write(&self, _: DeviceId, _: u64, _: &[u8]) -> Result<(), DiskError> {
            Err(DiskError::Gone)
        }

        fn flush(&self, _: DeviceId) -> Result<(), DiskError> {
            Err(DiskError::Gone)
        }

        fn allocate(&self, _: DeviceId, _: u64, _: u64) -> Result<(), DiskError> {
            Err(DiskError::Gone)
        }

        fn find_lost(&self, device: DeviceId, written: &[Range<u64>]) -> Vec<SegmentFault> {
            assert!(!written.is_empty(), "each device has labels");
            if device == DeviceId(4) {
                return Vec::new();
            }
            vec![SegmentFault {
                device,
                path: "/d/it's 1.seg".into(),
                found_bytes: Some(8192),
                expected_bytes: self.0.end - self.0.start,
                range: self.0.clone(),
            }]
        }
    }

    fn found(blocks: Range<u64>) -> Result<Lost, Refusal> {
        let mut layout = two_devices();
        layout.config.journal = JournalRegion {
            member: 1,
            first: Dbn(300),
            blocks: 400,
        };
        let superblock = Superblock {
            frontiers: vec![1, 0],
            ..superblock(7, 1)
        };
        let lost = blocks.start * BLOCK..blocks.end * BLOCK;
        find(&Devices(lost), &mut layout, &superblock, &[])
    }

    #[test]
    fn a_lost_part_of_the_journal_refuses_the_opening_and_another_part_does_not() {
        for blocks in [0..300, 700..1000] {
            let lost = found(blocks.clone()).expect("no part of the journal");
            assert_eq!((lost.missed.len(), lost.spared.len()), (1, 0), "{blocks:?}");
        }
        for blocks in [0..301, 699..1000, 400..500, 0..1000] {
            let bytes = (blocks.end - blocks.start) * BLOCK;
            let refusal = found(blocks).expect_err("refused").to_string();
            let part =
                format!("/d/it's 1.seg has 8192 of {bytes} bytes, and the journal was there");
            assert!(refusal.starts_with(&part), "{refusal}");
            let making = format!("run truncate -s {bytes} '/d/it'\\''s 1.seg': ");
            assert!(refusal.contains(&making), "{refusal}");
        }
    }
}
