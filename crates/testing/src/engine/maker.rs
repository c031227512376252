//! Devices, labels, mounting, offline checks.

use everglade_check::Kind;
use everglade_engine::{
    DRIVE_TIMEOUT, Engine, Expected, LUNS_TOGETHER, Options, ParityPlan, Plan, RECLAIM_REGIONS,
    SHARE_DEPTH, STAGE_BLOCKS, State,
};
use everglade_env::{BLOCK_SIZE, DeviceId, Nanos};
use everglade_format::Config;
use everglade_format::config::CONFIG_BYTES;
use everglade_format::label::{CONFIG_OFFSETS, LABEL_BLOCKS, label_offsets, size_for};
use everglade_format::tag::SECRET_BYTES;
use everglade_format::volume::Sync;

use super::EngineSystem;
use crate::system::{Maker, NotMounted, Promises};
use crate::world::{DeviceSpec, End, Turn};
use crate::{Rng, Seed, SimWorld};

/// Turns a mount may take.
const TURNS_MAX: u64 = 1_000_000;

/// Areas a device has at least.
const AREAS_MIN: u64 = 8;

/// Blocks that the last drive of an uneven mirror has more than the others.
const UNEVEN_BLOCKS: u64 = 37;

/// How a start deals with devices that are away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opening {
    /// An administrator said that the others are to be used, whatever they lack.
    pub is_degraded: bool,
    /// What the data directory of the daemon remembers.
    pub expected: Option<Expected>,
    /// Nothing is to be written.
    pub is_for_reading: bool,
}

/// Makes engines of one shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineMaker {
    /// Devices of the aggregate, or mirrors.
    pub devices: u64,
    /// Drives of each mirror: 2 or 3. 1: each device is alone, or there is parity.
    pub copies: usize,
    /// Each of the devices is a parity group of so many drives.
    pub parity: Option<ParityPlan>,
    /// The first device is twice as large as the others. The last drive of a mirror is a little
    /// larger than the others.
    pub uneven: bool,
    /// True if devices own their space, as block devices do.
    pub owns_space: bool,
    /// Blocks in an allocation area.
    pub area_blocks: u64,
    /// Memory of the engine.
    pub memory_bytes: u64,
    /// Longest time between consistency points, in nanoseconds.
    pub cp_interval: Nanos,
    /// Durability of new volumes.
    pub sync: Sync,
    /// Blocks in each half of the journal; 0 for none.
    pub journal_half_blocks: u64,
    /// The journal has a device of its own, besides the others: the first.
    pub journal_device: bool,
    /// Most regions of deleted files and snapshots that a consistency point frees; with a small
    /// number, scans are cut in the middle.
    pub reclaim_regions: u64,
    /// New snapshots are scanned, as before there was a way without.
    pub create_scan: bool,
    /// LUNs that are cleaned together.
    pub luns_together: usize,
    /// Blocks that cleaning replaces before the maps learn about them.
    pub stage_blocks: usize,
    /// A parity group that has no free area empties its emptiest one before writing there.
    pub cleans_on_demand: bool,
    /// A LUN that is put in order gets blocks of its own.
    pub moves_unshare: bool,
    /// What clients read in order, and does not lie in order, is put in order.
    pub writes_after_read: bool,
    /// Limits of LUNs are set, changed and removed, again and again.
    pub changes_limits: bool,
    /// Members leave, one after another, until one is left.
    pub removes_members: bool,
    /// Devices are made about equally full, again and again.
    pub rebalances: bool,
    /// Space maps are made, again and again.
    pub maps_space: bool,
    /// Areas of which so many percent are free are emptied, again and again.
    pub least_free_percent: Option<u8>,
}

impl EngineMaker {
    /// Name of new aggregates.
    pub const AGGREGATE: &str = "a";

    /// Settings with one thin device and small sizes.
    pub const SMALL: EngineMaker = EngineMaker {
        devices: 1,
        copies: 1,
        parity: None,
        uneven: false,
        owns_space: false,
        area_blocks: 256,
        memory_bytes: 8 << 20,
        cp_interval: 200_000_000,
        sync: Sync::Standard,
        journal_half_blocks: 0,
        journal_device: false,
        reclaim_regions: RECLAIM_REGIONS,
        create_scan: false,
        luns_together: LUNS_TOGETHER,
        stage_blocks: STAGE_BLOCKS,
        cleans_on_demand: true,
        writes_after_read: false,
        moves_unshare: false,
        changes_limits: false,
        removes_members: false,
        rebalances: false,
        maps_space: false,
        least_free_percent: None,
    };

    /// The same settings with a journal whose halves fill up.
    pub const SMALL_LOGGED: EngineMaker = EngineMaker {
        journal_half_blocks: 64,
        ..EngineMaker::SMALL
    };

    /// The shape a seed stands for.
    #[must_use]
    pub fn of_seed(seed: Seed) -> EngineMaker {
        let mut rng = Rng::for_part(seed.0, "engine");
        EngineMaker {
            devices: [1, 1, 2, 3][rng.index(4)],
            copies: 1,
            parity: None,
            uneven: rng.one_in(3),
            owns_space: rng.one_in(4),
            area_blocks: [256, 256, 512, 4096][rng.index(4)],
            memory_bytes: [2, 4, 8, 16][rng.index(4)] << 20,
            cp_interval: [20_000_000, 200_000_000, 200_000_000, 10_000_000_000][rng.index(4)],
            sync: [Sync::Standard, Sync::Standard, Sync::Standard, Sync::Always][rng.index(4)],
            journal_half_blocks: [0, 64, 96, 300, 512, 2048][rng.index(6)],
            journal_device: rng.one_in(5),
            reclaim_regions: RECLAIM_REGIONS,
            create_scan: false,
            luns_together: [1, 2, 3, LUNS_TOGETHER, LUNS_TOGETHER][rng.index(5)],
            stage_blocks: [1, 3, 40, STAGE_BLOCKS][Rng::for_part(seed.0, "stages").index(4)],
            cleans_on_demand: !Rng::for_part(seed.0, "cleaning on demand").one_in(3),
            writes_after_read: false,
            moves_unshare: false,
            changes_limits: false,
            removes_members: false,
            rebalances: false,
            maps_space: false,
            least_free_percent: None,
        }
        .with_a_journal_to_put_there()
    }

    /// The same, with segment cleaning beside everything else.
    #[must_use]
    pub fn cleaning(self, seed: Seed) -> EngineMaker {
        let mut rng = Rng::for_part(seed.0, "cleaning");
        EngineMaker {
            least_free_percent: Some([1, 10, 30, 60][rng.index(4)]),
            writes_after_read: true,
            changes_limits: Rng::for_part(seed.0, "limits").one_in(3),
            removes_members: Rng::for_part(seed.0, "removals").one_in(2),
            moves_unshare: Rng::for_part(seed.0, "unsharing").one_in(8),
            maps_space: Rng::for_part(seed.0, "space maps").one_in(3),
            rebalances: Rng::for_part(seed.0, "rebalances").one_in(3),
            ..self
        }
    }

    fn with_a_journal_to_put_there(self) -> EngineMaker {
        EngineMaker {
            journal_device: self.journal_device && self.journal_half_blocks > 0,
            ..self
        }
    }

    /// Blocks of the journal on the first device.
    fn journal_blocks(&self) -> u64 {
        2 * self.journal_half_blocks
    }

    /// Drives, those of the journal included.
    fn members(&self) -> u64 {
        let together = self.drives_together() as u64;
        (self.devices + u64::from(self.journal_device)) * together
    }

    /// Drives of each mirror or parity group.
    #[must_use]
    pub fn drives_together(&self) -> usize {
        self.parity.map_or(self.copies, |parity| parity.drives)
    }

    fn options(&self, reactors: usize) -> Options {
        Options {
            reactors,
            memory_bytes: self.memory_bytes,
            cp_interval: self.cp_interval,
            reclaim_regions: self.reclaim_regions,
            create_scan: self.create_scan,
            cleans_on_demand: self.cleans_on_demand,
            moves_unshare: self.moves_unshare,
            writes_after_read: self.writes_after_read,
            luns_together: self.luns_together,
            stage_blocks: self.stage_blocks,
            share_depth: if self.changes_limits { 2 } else { SHARE_DEPTH },
            drive_timeout: DRIVE_TIMEOUT,
        }
    }

    /// Returns the plan of a world's new aggregate.
    #[must_use]
    pub fn plan(&self) -> Plan {
        let mut rng = Rng::for_part(self.devices, "identity");
        let mut uuid = || {
            let mut bytes = [0; 16];
            rng.fill(&mut bytes);
            bytes
        };
        let name = Self::AGGREGATE;
        let aggregate = uuid();
        let devices = (0..self.members()).map(|_| uuid()).collect();
        let mut secret = [0; SECRET_BYTES];
        rng.fill(&mut secret);
        Plan {
            area_blocks: self.area_blocks,
            journal_half_blocks: Some(self.journal_half_blocks),
            journal_device: self.journal_device.then_some(0),
            copies: self.copies,
            parity: self.parity,
            ..Plan::new(name, aggregate, secret, devices)
        }
    }
}

/// True if a label of a device has a whole config record.
fn has_record(world: &SimWorld, device: DeviceId) -> bool {
    let storage = world.storage();
    let labels = label_offsets(world.spec(device).size_bytes).into_iter();
    let mut slots = labels.flat_map(|label| CONFIG_OFFSETS.map(|slot| label + slot));
    slots.any(|slot| {
        let mut bytes = vec![0; CONFIG_BYTES];
        let read = storage.read(device, slot, &mut bytes);
        read.is_ok() && matches!(Config::decode(&bytes), Ok(Some(_)))
    })
}

impl Maker for EngineMaker {
    type System = EngineSystem;

    fn promises(&self) -> Promises {
        Promises {
            damage_is_found: Some(LABEL_BLOCKS + self.journal_blocks()),
            journal_blocks: LABEL_BLOCKS..LABEL_BLOCKS + self.journal_blocks(),
            full_host_is_no_space: true,
            discards_are_never_refused: true,
            discards_may_skip_when_full: false,
            // Too many drives may fail in the middle of a stripe.
            reads_survive_write_errors: self.parity.is_none(),
            changes_are_durable: self.sync == Sync::Always,
        }
    }

    fn devices(&self, bytes: u64) -> Vec<DeviceSpec> {
        let with_log = if self.journal_device {
            0
        } else {
            self.journal_blocks()
        };
        let data = self.parity.map_or(1, |it| (it.drives - it.parity) as u64);
        // A little more than the RAID log takes.
        let raid_log = self.parity.map_or(0, |_| 128);
        let least = |log| size_for(AREAS_MIN, self.area_blocks, log + raid_log);
        let wanted = bytes / self.devices / data / BLOCK_SIZE as u64;
        let device = |blocks: u64| DeviceSpec {
            owns_space: self.owns_space,
            ..DeviceSpec::thin(blocks * BLOCK_SIZE as u64)
        };
        let mut devices: Vec<_> = (0..self.devices)
            .map(|index| device(wanted.max(least(if index == 0 { with_log } else { 0 }))))
            .collect();
        if self.uneven {
            devices[0].size_bytes *= 2;
        }
        if self.journal_device {
            devices.insert(0, device(2 * LABEL_BLOCKS + self.journal_blocks()));
        }
        let together = self.drives_together();
        if together == 1 {
            return devices;
        }
        let drives = |column: DeviceSpec| {
            let mut drives = vec![column; together];
            if self.uneven {
                drives[together - 1].size_bytes += UNEVEN_BLOCKS * BLOCK_SIZE as u64;
            }
            drives
        };
        devices.into_iter().flat_map(drives).collect()
    }

    fn format(&self, world: &SimWorld) -> Result<(), String> {
        let created = everglade_engine::create(&*world.storage(), &world.devices(), &self.plan());
        created.map_err(|error| error.to_string())
    }

    fn mount(&self, world: &SimWorld) -> Result<EngineSystem, NotMounted> {
        self.mount_as(world, &Opening::default())
    }

    fn check(&self, world: &SimWorld) -> Result<(), String> {
        let joining = world.joining();
        let mut devices = world.devices();
        // Whoever has a device checked that was about to join sees a label on it.
        devices.retain(|device| !joining.contains(device) || has_record(world, *device));
        let checked = everglade_check::check(&*world.storage(), &devices, &mut |_progress| {});
        let report = checked.map_err(|unreadable| unreadable.to_string())?;
        // Lost blocks are no problem of an aggregate, but the end of data that was promised.
        let lost = report.warnings.iter().filter(|one| one.kind == Kind::Lost);
        let problems: Vec<String> = report
            .problems
            .iter()
            .chain(lost)
            .map(ToString::to_string)
            .collect();
        if problems.is_empty() {
            return Ok(());
        }
        Err(format!("consistency point {}: {problems:#?}", report.cp))
    }
}

impl EngineMaker {
    /// Starts from the content of the devices that are there.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn mount_as(
        &self,
        world: &SimWorld,
        opening: &Opening,
    ) -> Result<EngineSystem, NotMounted> {
        let engine = Engine::new(self.options(world.reactors()));
        let joining = world.joining();
        let mut devices = world.devices();
        devices.retain(|device| !joining.contains(device));
        let (storage, expected) = (world.storage(), opening.expected.as_ref());
        let how = everglade_engine::Opening {
            name: None,
            is_degraded: opening.is_degraded,
            is_for_reading: opening.is_for_reading,
        };
        let opened = engine.open_with(&*storage, (&devices, &joining), expected, how);
        let aggregate = opened.map_err(|refusal| NotMounted::Refused(refusal.to_string()))?;
        let known = engine.aggregates().swap_remove(0).devices;
        for device in joining.iter().filter(|device| known.contains(device)) {
            world.has_joined(*device);
        }
        let mut system = EngineSystem::new(world, engine.clone(), aggregate, self.sync);
        system.set_cleaning(self);
        system.set_limiting(self.changes_limits);
        system.set_removing(self.removes_members);
        let end = world.run(TURNS_MAX, &mut |reactor| {
            let said = system.step(reactor);
            match system.state() {
                State::Mounting => said,
                _ => Turn::Stop,
            }
        });
        match (system.state(), end) {
            (state @ (State::Online | State::ReadOnly(_)), _) => {
                // The daemon also does this before it admits clients. A read-only aggregate is not
                // written.
                if state == State::Online {
                    engine.mend_labels(&*world.storage(), aggregate);
                }
                system.mounted();
                Ok(system)
            }
            (state, End::Stopped | End::Cut) => {
                Err(NotMounted::Refused(format!("the aggregate is {state:?}")))
            }
            (state, end) => {
                let text = format!("the mount ended ({end:?}) with {state:?}");
                Err(NotMounted::Stuck(text))
            }
        }
    }
}
