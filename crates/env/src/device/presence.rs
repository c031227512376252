//! Segment files that are not as a server left them: absent, empty or too short.
//!
//! A device does not record which of its segments were made, and an absent segment reads as zeroes.
//! So the caller says which parts of the device were written, and this module says which files
//! should be there for them. A file is made before the first write into it, with its full length
//! (invariant 1 of the module above). Therefore:
//!
//! 1. A file that is absent or empty, although a part of it was written, was lost. Without such a
//!    part it was never made, or a power cut left it empty, and nothing is wrong.
//! 2. A file that is neither empty nor as long as its segment was cut off.
//! 3. A file that is longer than its segment was left by a growth that was cut, and is in order.
//!
//! Lengths are those found when the device was opened. The files that were found out are lost from
//! then on (invariant 8 of the module above).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::Device;
use crate::{DeviceId, SegmentFault};

impl Device {
    /// Finds the segment files that are not as they were left, in order, and makes them lost; none
    /// if the device is no directory. `written` has the ranges of the device that were written, in
    /// bytes. Nothing may have been written since the device was opened.
    pub(crate) fn find_lost(&self, device: DeviceId, written: &[Range<u64>]) -> Vec<SegmentFault> {
        let Some(directory) = &self.directory else {
            return Vec::new();
        };
        let fault = |index: usize, found_bytes: Option<u64>| {
            let (first, length) = (
                index as u64 * self.segment_bytes,
                self.segment_length(index),
            );
            SegmentFault {
                device,
                path: directory.segment_path(&self.path, index),
                found_bytes,
                expected_bytes: length,
                range: first..first + length,
            }
        };
        let segment =
            |byte: u64| usize::try_from(byte / self.segment_bytes).expect("segments are few");
        let end = self.size_bytes();
        let ranges = written.iter().map(|range| range.start..range.end.min(end));
        let ranges = ranges.filter(|range| !range.is_empty());
        let written: BTreeSet<usize> = ranges
            .flat_map(|range| segment(range.start)..=segment(range.end - 1))
            .collect();
        let absent = written
            .iter()
            .filter(|index| !self.segment(**index).exists());
        let mut faults: BTreeMap<usize, SegmentFault> =
            absent.map(|index| (*index, fault(*index, None))).collect();
        let short = directory.short().iter();
        let short = short.filter(|(index, length)| *length > 0 || written.contains(index));
        faults.extend(short.map(|(index, length)| (*index, fault(*index, Some(*length)))));
        faults
            .keys()
            .for_each(|index| self.segment(*index).set_lost());
        faults.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::super::{Access, Geometry, create_directory, open_directory, open_file};
    use super::*;

    const SEGMENT: u64 = 64 << 10;

    /// Six segments: whole, absent, empty, cut off, too long, and a short one at the end.
    fn device(scratch: &tempfile::TempDir) -> Device {
        let geometry = Geometry {
            size_bytes: 5 * SEGMENT + 4096,
            segment_bytes: SEGMENT,
        };
        let path = scratch.path().join("device");
        create_directory(&path, geometry).unwrap().close();
        for (index, length) in [(0, SEGMENT), (2, 0), (3, 4096), (4, 2 * SEGMENT), (5, 4096)] {
            let file = File::create(path.join(format!("{index:08}.seg"))).unwrap();
            file.set_len(length).unwrap();
        }
        open_directory(&path, Access::Full).unwrap()
    }

    fn found(device: &Device, written: &[Range<u64>]) -> Vec<(String, Option<u64>, u64)> {
        let faults = device.find_lost(DeviceId(7), written).into_iter();
        let name = |fault: &SegmentFault| {
            let name = fault.path.file_name().unwrap();
            name.to_string_lossy()[..8]
                .trim_start_matches('0')
                .to_owned()
        };
        faults
            .map(|fault| (name(&fault), fault.found_bytes, fault.expected_bytes))
            .collect()
    }

    #[test]
    fn files_that_should_be_there_are_missed_and_others_are_not() {
        let scratch = tempfile::tempdir().unwrap();
        let device = device(&scratch);
        let cut_off = ("3".to_owned(), Some(4096), SEGMENT);
        let only_cut_off = vec![cut_off.clone()];
        assert_eq!(found(&device, &[]), only_cut_off);
        let whole = [0..4096, 0..SEGMENT, 4 * SEGMENT..5 * SEGMENT + 4096];
        assert_eq!(found(&device, &whole), only_cut_off);
        let absent = ("1".to_owned(), None, SEGMENT);
        let empty = ("2".to_owned(), Some(0), SEGMENT);
        let written = [SEGMENT - 4096..SEGMENT + 4096, SEGMENT + 4096..2 * SEGMENT];
        assert_eq!(found(&device, &written), [absent.clone(), cut_off.clone()]);
        let all = [0..SEGMENT, 0..5 * SEGMENT + 4096];
        assert_eq!(found(&device, &all), [absent, empty, cut_off]);
    }

    #[test]
    fn a_file_is_no_directory_and_has_no_segments() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("file");
        File::create(&path).unwrap().set_len(SEGMENT).unwrap();
        let device = open_file(&path, Access::Full).unwrap();
        let written = 0..SEGMENT;
        let found = device.find_lost(DeviceId(0), std::slice::from_ref(&written));
        assert_eq!(found, []);
    }
}
