//! The system under test: it stores LUNs on the devices of a world.
//!
//! The engine is one, the toy another. The simulation sees nothing else of either.

use everglade_target::{Error, Target};

use crate::SimWorld;
use crate::world::{Breakage, DeviceSpec, Turn};

/// Something an administrator asks for. Durable once it is reported done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admin {
    /// A new, empty volume.
    CreateVolume {
        /// Its name.
        name: String,
    },
    /// A volume goes, with its LUNs.
    DeleteVolume {
        /// Its name.
        name: String,
    },
    /// A new LUN full of zeroes.
    CreateLun {
        /// `volume/lun`.
        name: String,
        /// A whole number of blocks.
        size_bytes: u64,
    },
    /// A LUN goes.
    DeleteLun {
        /// `volume/lun`.
        name: String,
    },
    /// A LUN gets longer; the new part reads as zeroes.
    GrowLun {
        /// `volume/lun`.
        name: String,
        /// More than it has.
        size_bytes: u64,
    },
    /// Shrinks a LUN; the data beyond the new end is lost for good.
    ShrinkLun {
        /// `volume/lun`.
        name: String,
        /// Less than it has.
        size_bytes: u64,
    },
    /// The pool gets more space.
    GrowPool(PoolGrowth),
    /// Every block in use is read from every drive.
    StartScrub,
    /// A drive of a mirror is replaced by a new one.
    ReplaceDrive(Replacement),
    /// Makes all acknowledged operations durable.
    ConsistencyPoint,
}

/// Where a pool gets more space. The devices change when it is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoolGrowth {
    /// Devices of these sizes in bytes appear, and join.
    New(Vec<u64>),
    /// So many devices appear, and become data columns of the narrowest parity group.
    Wider(usize),
    /// A device appears, and becomes more parity, or one more copy, of the group with the fewest of
    /// them. If all have as many as possible, another group appears instead.
    Stronger,
    /// The devices join that appeared for a growth that came to nothing.
    Again,
    /// Devices, by their numbers in the world, become larger by some bytes. None, if the host made
    /// them larger before.
    Larger(Vec<(u32, u64)>),
}

/// A new drive that gets the seat of another one. It appears when this is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    /// The seat: an index into the members of the pool.
    pub seat: usize,
    /// Bytes that the new drive has more than the largest one of its mirror.
    pub more_bytes: u64,
    /// How the new drive breaks, and after how many writes of the world.
    pub breaks: Option<(u64, Breakage)>,
}

/// The end of an administrator's request.
#[derive(Debug)]
pub struct AdminDone {
    /// Given with the request.
    pub token: u64,
    /// Result of the request.
    pub result: Result<(), Error>,
}

/// What a pool consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// One more with every growth.
    pub epoch: u64,
    /// All blocks.
    pub blocks: u64,
}

/// A running server.
pub trait System {
    /// Runs a part of reactor `reactor`'s work.
    fn turn(&mut self, reactor: usize) -> Turn;

    /// Storage as the sessions on reactor `reactor` see it.
    fn target(&mut self, reactor: usize) -> &mut dyn Target;

    /// Starts an administrator's request. Exactly one [`AdminDone`] follows on the same reactor.
    fn administer(&mut self, reactor: usize, request: Admin, token: u64);

    /// Appends requests that are finished.
    fn poll_admin(&mut self, reactor: usize, done: &mut Vec<AdminDone>);

    /// The consistency point that the operation just completed with `token` joined, if known.
    fn cp_of(&mut self, _reactor: usize, _token: u64) -> Option<u64> {
        None
    }

    /// The consistency point found when mounting, if known and if nothing later was replayed.
    fn recovered_cp(&self) -> Option<u64> {
        None
    }

    /// True if the log of operations that was replayed when mounting had some on LUNs that came, or
    /// grew, too late: those are gone, while later ones on others survive.
    fn has_gaps(&self) -> bool {
        false
    }

    /// True if a growth may be refused until something else is over: devices leave, or a drive
    /// catches up.
    fn growth_may_wait(&self) -> bool {
        false
    }

    /// The last committed consistency point, if known.
    fn committed_cp(&self) -> Option<u64> {
        None
    }

    /// Why it has given up, if it has: everything fails until it is started again.
    fn failure(&self) -> Option<String> {
        None
    }

    /// Why it can be read and not changed, if that is so: everything acknowledged is shown, and
    /// nothing is written.
    fn read_only(&self) -> Option<String> {
        None
    }

    /// The number of the pool's geometry, and its blocks, if it can tell.
    fn geometry(&self) -> Option<Geometry> {
        None
    }

    /// Names of all volumes, if it can tell.
    fn volumes(&self) -> Option<Vec<String>> {
        None
    }

    /// Checks invariants that only hold when nothing is under way (space counters, leaks).
    ///
    /// # Errors
    /// The error if an invariant does not hold.
    fn check_at_rest(&mut self) -> Result<(), String> {
        Ok(())
    }

    /// Asks for an orderly end: everything acknowledged becomes durable, then nothing more happens.
    /// False if it has no such thing. All reactors must be woken.
    fn request_stop(&mut self) -> bool {
        false
    }

    /// True once an orderly end is complete, or has failed.
    fn is_stopped(&self) -> bool {
        true
    }
}

/// Why a system did not start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotMounted {
    /// The system refused to start, with a reason.
    #[error("{0}")]
    Refused(String),
    /// The start never ends, which is always a failure.
    #[error("stuck: {0}")]
    Stuck(String),
}

/// Promises of a kind of system beyond the contract of `target`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promises {
    /// Damaged blocks give errors, from this block of each device on, and on all devices but the
    /// first even if all of them are old. Blocks before it may be old without detection.
    pub damage_is_found: Option<u64>,
    /// Blocks of the first device with the log since the last consistency point. Damage there loses
    /// only operations durable by the log alone, the last first.
    pub journal_blocks: std::ops::Range<u64>,
    /// A full host is [`Error::NoSpace`] to clients, never [`Error::Io`].
    pub full_host_is_no_space: bool,
    /// Discards are never refused, however full the pool.
    pub discards_are_never_refused: bool,
    /// A discard may do nothing while the pool is full (docs/design/design.md §8).
    pub discards_may_skip_when_full: bool,
    /// A device that cannot be written makes the server read-only, and all that it has can be read
    /// then.
    pub reads_survive_write_errors: bool,
    /// Every change is durable when it is acknowledged, asked for or not.
    pub changes_are_durable: bool,
}

/// A way to create a kind of system on devices and to start it from them.
pub trait Maker {
    /// The type of the system.
    type System: System;

    /// Returns the system's promises.
    fn promises(&self) -> Promises;

    /// Devices for `bytes` of storage in all, or for the least it can live on if that is more.
    fn devices(&self, bytes: u64) -> Vec<DeviceSpec>;

    /// Prepares the empty devices of a world. No volume exists afterwards. Must be durable at
    /// return.
    ///
    /// # Errors
    /// Why it cannot.
    fn format(&self, world: &SimWorld) -> Result<(), String>;

    /// Starts from the content of the devices.
    ///
    /// # Errors
    /// Why it cannot. After a power cut alone there is no reason.
    fn mount(&self, world: &SimWorld) -> Result<Self::System, NotMounted>;

    /// Checks the media of a world in which nothing runs (`everglade check`).
    ///
    /// # Errors
    /// Returns the problems of the media.
    fn check(&self, _world: &SimWorld) -> Result<(), String> {
        Ok(())
    }
}
