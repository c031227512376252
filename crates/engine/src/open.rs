//! Opening an aggregate: what is done before its home mounts it. Blocks the caller.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use everglade_affinity::{AggregateAffinities, RANGES};
use everglade_env::{DeviceId, Storage};

use crate::media::Layout;
use crate::media::heal::Healing;
use crate::mend::Mender;
use crate::mount::labels::{self, Labels};
use crate::mount::members::Missing;
use crate::mount::mounting::Mounting;
use crate::mount::opening::Opening;
use crate::mount::refusal::Refusal;
use crate::mount::{lost, raid_log};
use crate::pool::aggregate::Aggregate;
use crate::pool::space::Space;
use crate::shared::{Engine, Message, share_dirty_memory};

impl Engine {
    /// Opens the aggregate on these devices: reads labels and superblock at once, and leaves
    /// mounting to the home reactor, which must be woken. If the caller remembers the aggregate, it
    /// must be the same one. Devices of `joining` may turn out not to be members: their joining was
    /// cut. Watch [`Engine::aggregates`] for the outcome, and for the devices.
    ///
    /// # Errors
    /// A refusal has three parts: found, expected and remedy. Nothing is written.
    pub fn open(
        &self,
        storage: &dyn Storage,
        devices: &[DeviceId],
        joining: &[DeviceId],
        expected: Option<&labels::Expected>,
    ) -> Result<u32, Refusal> {
        self.open_with(storage, (devices, joining), expected, Opening::default())
    }

    /// Opens an aggregate like [`Engine::open`], in a particular way. A new name is on the devices
    /// when clients are admitted, unless the aggregate is opened for reading.
    ///
    /// # Errors
    /// See [`Engine::open`].
    pub fn open_with(
        &self,
        storage: &dyn Storage,
        (devices, joining): (&[DeviceId], &[DeviceId]),
        expected: Option<&labels::Expected>,
        opening: Opening<'_>,
    ) -> Result<u32, Refusal> {
        let missing = match opening.is_degraded {
            true => Missing::Allowed,
            false => Missing::IfSafe,
        };
        let labels = labels::read(storage, devices, joining, expected, missing)?;
        self.open_labelled(storage, labels, opening)
    }

    fn open_labelled(
        &self,
        storage: &dyn Storage,
        labels: Labels,
        opening: Opening<'_>,
    ) -> Result<u32, Refusal> {
        let shared = &self.0;
        // Reactors use the table of aggregates all the time, so they do not wait while devices are
        // read here.
        let _alone = shared.opening.lock();
        let known = shared.all();
        let mut open = known.iter().filter(|known| !known.is_forgotten());
        if let Some(twin) = open.find(|known| known.uuid == labels.config.uuid) {
            return Err(Refusal::new(
                format!("aggregate {} is open already", twin.name),
                "each aggregate once",
                "Remove one of the copies. Nothing was changed",
            ));
        }
        let id = u32::try_from(known.len()).expect("few aggregates");
        let mut layout = Layout::new(labels.config, labels.devices).map_err(|damage| {
            Refusal::new(damage.to_string(), "a valid label", "Nothing was changed")
        })?;
        let affinities = AggregateAffinities::add(&shared.affinities, RANGES)
            .map_err(|gone| Refusal::new(gone.to_string(), "a running engine", "Start again"))?;
        let (superblock, astray, former) = (labels.superblock, labels.astray, labels.removed);
        let lost = lost::find(storage, &mut layout, &superblock, &astray)?;
        // After the crash of a daemon, the content read here may still be in a device's cache. A
        // flush is answered from committed content, so that content must be stable now.
        for device in layout.devices().collect::<Vec<DeviceId>>() {
            if layout.is_out(device) {
                continue;
            }
            let (found, expected, remedy) = match storage.flush(device) {
                _ if astray.contains(&device) => (
                    "another commit of the same number".to_owned(),
                    "the same commit on all devices",
                    "Take the device away. Nothing was changed",
                ),
                Ok(()) => continue,
                Err(error) => (
                    error.to_string(),
                    "a device that can be flushed",
                    "Replace the device's host storage, then start again",
                ),
            };
            layout = layout.without(device).ok_or_else(|| {
                Refusal::new(format!("device {}: {found}", device.0), expected, remedy)
            })?;
        }
        let highest = labels.highest_epoch;
        let highest_epoch = match opening.is_for_reading {
            true => raid_log::check(storage, &layout, &superblock).map(|()| highest)?,
            false => raid_log::recover(storage, &mut layout, &superblock, highest)?,
        };
        let has_groups = layout.config.has_groups();
        shared.has_groups.fetch_or(has_groups, Ordering::Relaxed);
        let healing = Healing::find(storage, &layout, &superblock);
        let backed = superblock.areas_used * layout.geometry.area_blocks();
        let backed = backed.min(layout.config.staying_blocks());
        let space = Space::new(
            layout.config.staying_blocks(),
            layout.config.reserve_blocks,
            superblock.blocks_used,
            backed,
        );
        let home = id as usize % shared.options.reactors;
        let mut aggregate = Aggregate::new(
            id,
            layout,
            highest_epoch,
            affinities,
            home,
            &superblock,
            space,
        );
        aggregate.add_former(&former);
        aggregate.commits_first = healing.is_needed();
        if let Some(name) = opening.name {
            aggregate.begin_as(name);
        }
        if opening.is_for_reading {
            aggregate.begin_for_reading();
        }
        (aggregate.lost_segments, aggregate.spared_segments) = (lost.missed, lost.spared);
        let aggregate = Arc::new(aggregate);
        let aggregates = shared.aggregates.write();
        let mut aggregates = aggregates;
        aggregates.push(aggregate.clone());
        share_dirty_memory(&shared.options, &aggregates);
        drop(aggregates);
        let mender = Mender::new(&aggregate, superblock.inode_file.clone(), superblock.cp);
        let mounting = Mounting {
            aggregate,
            superblock,
            healing,
            affinities: BTreeMap::new(),
            begun: None,
            mender,
            derived: Vec::new(),
            leaves_out: false,
        };
        shared.post(home, Message::Mount(Box::new(mounting)));
        Ok(id)
    }
}
