//! The layout of an aggregate: which devices it has, and where its blocks are on them.
//!
//! A layout never changes. A freeze may replace it by the next one (decision 0040), which keeps all
//! extents of the former and appends others. So a place found in one layout is right in every later
//! one, and a reader need not hold on to the layout while its operation is under way.

use std::ops::Range;

use everglade_env::{BLOCK_SIZE, DeviceId};
use everglade_format::config::{CONFIG_BYTES, Member};
use everglade_format::label::{CONFIG_OFFSETS, LABEL_BYTES, config_slot, label_offsets};
use everglade_format::{Config, Damage, Geometry, Pvbn};

/// See the module's documentation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// The config record, as in the label of member 0.
    pub(crate) config: Config,
    pub(crate) geometry: Geometry,
    /// Device of each member.
    pub(crate) devices: Vec<DeviceId>,
}

/// The place of a block on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) device: DeviceId,
    /// Offset in bytes from the beginning of the device.
    pub(crate) offset: u64,
    /// Number of blocks from this block to the end of the run, this block included.
    pub(crate) run: u64,
}

impl Layout {
    /// Returns the layout that a config record describes; `devices` has the device of each member.
    ///
    /// # Errors
    /// The record's extents contradict each other.
    pub(crate) fn new(config: Config, devices: Vec<DeviceId>) -> Result<Layout, Damage> {
        assert_eq!(
            config.members.len(),
            devices.len(),
            "a device for each member"
        );
        Ok(Layout {
            geometry: config.geometry()?,
            config: Config {
                member_index: 0,
                ..config
            },
            devices,
        })
    }

    /// Returns the place of a block; `None` if no extent has the block.
    pub(crate) fn locate(&self, pvbn: Pvbn) -> Option<Place> {
        let place = self.geometry.locate(pvbn)?;
        Some(Place {
            device: self.devices[place.member as usize],
            offset: place.dbn.0 * BLOCK_SIZE as u64,
            run: place.run,
        })
    }

    /// Returns each member with its device.
    pub(crate) fn members(&self) -> impl Iterator<Item = (&Member, DeviceId)> {
        self.config.members.iter().zip(self.devices.iter().copied())
    }

    /// Returns the ranges of the devices that were written by the time of the superblock with these
    /// frontiers, in bytes: the config records of both labels, the journal, and the areas of each
    /// extent below its frontier.
    pub(crate) fn written(&self, frontiers: &[u32]) -> Vec<(DeviceId, Range<u64>)> {
        let block = BLOCK_SIZE as u64;
        let bytes = |first: u64, blocks: u64| first * block..(first + blocks) * block;
        let record = CONFIG_OFFSETS[config_slot(self.config.epoch)];
        let mut written = Vec::new();
        for (member, device) in self.members() {
            for label in label_offsets(member.size_blocks * block) {
                let first = label + record;
                written.push((device, first..first + CONFIG_BYTES as u64));
            }
        }
        written.extend(self.journal());
        for (extent, frontier) in self.geometry.extents().iter().zip(frontiers) {
            let blocks = u64::from(*frontier) * self.geometry.area_blocks();
            let range = bytes(extent.first_dbn.0, blocks.min(extent.length));
            written.push((self.devices[extent.member as usize], range));
        }
        written
    }

    /// Returns the device of the journal and its range there, in bytes, if there is a journal.
    pub(crate) fn journal(&self) -> Option<(DeviceId, Range<u64>)> {
        let block = BLOCK_SIZE as u64;
        let journal = &self.config.journal;
        let (first, end) = (journal.first.0, journal.first.0 + journal.blocks);
        let device = self.devices[journal.member as usize];
        (journal.blocks > 0).then(|| (device, first * block..end * block))
    }

    /// Returns the ranges of all labels, in bytes.
    pub(crate) fn labels(&self) -> impl Iterator<Item = (DeviceId, Range<u64>)> {
        self.members().flat_map(|(member, device)| {
            let labels = label_offsets(member.size_blocks * BLOCK_SIZE as u64);
            labels.map(|first| (device, first..first + LABEL_BYTES))
        })
    }

    /// Returns the areas that have a part in this range of a device, in bytes: the index of their
    /// extent, and their indices in it.
    pub(crate) fn areas_in(
        &self,
        device: DeviceId,
        range: &Range<u64>,
    ) -> Vec<(usize, Range<u64>)> {
        let block = BLOCK_SIZE as u64;
        let area_bytes = self.geometry.area_blocks() * block;
        let extents = self.geometry.extents().iter().enumerate();
        let here = extents.filter(|(_, extent)| self.devices[extent.member as usize] == device);
        let areas = here.map(|(index, extent)| {
            let first = extent.first_dbn.0 * block;
            let within = |byte: u64| byte.saturating_sub(first).min(extent.length * block);
            let (from, to) = (within(range.start), within(range.end));
            let areas = match from < to {
                true => from / area_bytes..to.div_ceil(area_bytes),
                false => 0..0,
            };
            (index, areas)
        });
        areas.filter(|(_, areas)| !areas.is_empty()).collect()
    }

    /// Returns the config record as the label of a member has it.
    pub(crate) fn record_of(&self, member: usize) -> Config {
        Config {
            member_index: u32::try_from(member).expect("few devices"),
            ..self.config.clone()
        }
    }

    /// True if this layout may follow `former`: it is of the next epoch, and keeps all extents and
    /// members.
    pub(crate) fn follows(&self, former: &Layout) -> bool {
        let is_kept = |(new, old): (&Member, &Member)| {
            (new.uuid, new.data_first) == (old.uuid, old.data_first)
                && new.size_blocks >= old.size_blocks
        };
        let (new, old) = (&self.config, &former.config);
        new.epoch == old.epoch + 1
            && (new.uuid, new.secret, new.area_blocks, new.journal)
                == (old.uuid, old.secret, old.area_blocks, old.journal)
            && new.extents.starts_with(&old.extents)
            && self.devices.starts_with(&former.devices)
            && new.members.iter().zip(&old.members).all(is_kept)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use everglade_format::Dbn;
    use everglade_format::config::{Extent, JournalRegion};

    use super::*;

    fn extent(base: u64, member: u32, first: u64) -> Extent {
        Extent {
            base,
            length: 512,
            member,
            group: 0,
            column: 0,
            first_dbn: Dbn(first),
        }
    }

    fn member(uuid: u8) -> Member {
        Member {
            uuid: [uuid; 16],
            size_blocks: 2000,
            data_first: Dbn(300),
        }
    }

    /// A record of epoch 1 without a journal.
    pub(crate) fn config(members: Vec<Member>, extents: Vec<Extent>) -> Config {
        Config {
            member_index: 0,
            epoch: 1,
            compatible: 0,
            incompatible: 0,
            uuid: [1; 16],
            secret: [2; 32],
            created_seconds: 0,
            area_blocks: 256,
            reserve_blocks: 0,
            journal: JournalRegion::default(),
            name: "aggr0".to_owned(),
            members,
            extents,
        }
    }

    /// Two devices: pvbns 0 to 511 on the first, 512 to 1,023 on the second.
    pub(crate) fn two_devices() -> Layout {
        let config = config(
            vec![member(4), member(5)],
            vec![extent(0, 0, 300), extent(512, 1, 700)],
        );
        Layout::new(config, vec![DeviceId(4), DeviceId(5)]).expect("a sound table")
    }

    /// The same with a third device.
    pub(crate) fn three_devices() -> Layout {
        let Layout {
            mut config,
            mut devices,
            ..
        } = two_devices();
        config.epoch = 2;
        config.members.push(member(6));
        config.extents.push(extent(1024, 2, 300));
        devices.push(DeviceId(6));
        Layout::new(config, devices).expect("a sound table")
    }

    #[test]
    fn a_block_is_where_its_extent_begins_plus_its_distance() {
        let layout = two_devices();
        let place = layout.locate(Pvbn(10)).expect("in the first extent");
        assert_eq!(place.device, DeviceId(4));
        assert_eq!(place.offset, 310 * BLOCK_SIZE as u64);
        assert_eq!(place.run, 502);
        let place = layout.locate(Pvbn(1023)).expect("the last one");
        assert_eq!((place.device, place.run), (DeviceId(5), 1));
        assert_eq!(place.offset, (700 + 511) * BLOCK_SIZE as u64);
        assert_eq!(layout.locate(Pvbn(1024)), None);
    }

    #[test]
    fn labels_journal_and_areas_below_the_frontier_were_written() {
        let mut layout = two_devices();
        let block = BLOCK_SIZE as u64;
        layout.config.journal = JournalRegion {
            member: 1,
            first: Dbn(300),
            blocks: 400,
        };
        let written = layout.written(&[1, 0]);
        let of = |device: u32| written.iter().filter(move |(id, _)| id.0 == device);
        let has = |device: u32, byte: u64| of(device).any(|(_, range)| range.contains(&byte));
        for device in [4, 5] {
            for label in label_offsets(2000 * block) {
                assert!(has(device, label + CONFIG_OFFSETS[config_slot(1)]));
            }
        }
        assert!(has(4, 300 * block) && has(4, 556 * block - 1), "area 0");
        assert!(!has(4, 556 * block) && !has(4, 299 * block));
        assert!(
            has(5, 300 * block) && has(5, 700 * block - 1),
            "the journal"
        );
        assert!(!has(5, 700 * block), "no area of this extent was opened");
    }

    #[test]
    fn areas_are_found_by_their_bytes() {
        let layout = two_devices();
        let block = BLOCK_SIZE as u64;
        let found = |device, first: u64, end: u64| {
            layout.areas_in(DeviceId(device), &(first * block..end * block))
        };
        assert_eq!(found(4, 0, 300), []);
        assert_eq!(found(4, 0, 301), [(0, 0..1)]);
        assert_eq!(found(4, 555, 557), [(0, 0..2)]);
        assert_eq!(found(4, 556, 9000), [(0, 1..2)]);
        assert_eq!(found(4, 812, 9000), []);
        assert_eq!(found(5, 0, 9000), [(1, 0..2)]);
    }

    #[test]
    fn a_layout_follows_one_that_it_only_adds_to() {
        let (two, three) = (two_devices(), three_devices());
        assert!(three.follows(&two));
        assert!(!two.follows(&three), "the former epoch");
        assert!(!two.follows(&two), "the same epoch");
        let changed = |change: fn(&mut Config)| {
            let mut config = three_devices().config;
            change(&mut config);
            Layout::new(config, three_devices().devices).expect("a sound table")
        };
        assert!(!changed(|it| it.epoch = 3).follows(&two));
        assert!(!changed(|it| it.extents[0].first_dbn = Dbn(301)).follows(&two));
        assert!(!changed(|it| it.members[1].uuid = [9; 16]).follows(&two));
        assert!(!changed(|it| it.members[0].size_blocks = 1999).follows(&two));
        assert!(changed(|it| it.members[0].size_blocks = 2001).follows(&two));
    }
}
