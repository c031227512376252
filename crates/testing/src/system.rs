//! What is judged: something that stores LUNs on the devices of a world.
//!
//! The engine is one, the toy another. The simulation sees nothing else of either.

use everglade_target::{Error, Target};

use crate::SimWorld;
use crate::world::{DeviceSpec, Turn};

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
    /// A LUN gets shorter; what was beyond is gone for good.
    ShrinkLun {
        /// `volume/lun`.
        name: String,
        /// Less than it has.
        size_bytes: u64,
    },
    /// Everything acknowledged so far becomes durable.
    ConsistencyPoint,
}

/// The end of an administrator's request.
#[derive(Debug)]
pub struct AdminDone {
    /// Given with the request.
    pub token: u64,
    /// What happened.
    pub result: Result<(), Error>,
}

/// A running server.
pub trait System {
    /// Lets reactor `reactor` do some of its work.
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

    /// Names of all volumes, if it can tell.
    fn volumes(&self) -> Option<Vec<String>> {
        None
    }

    /// Checks invariants that only hold when nothing is under way (space counters, leaks).
    ///
    /// # Errors
    /// What does not hold.
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
    /// It said so, and why.
    #[error("{0}")]
    Refused(String),
    /// It never comes to an end, which is never right.
    #[error("stuck: {0}")]
    Stuck(String),
}

/// What a kind of system promises beyond the contract of `target`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promises {
    /// Blocks that are not what was written are answered with errors, from this block of each
    /// device on, and on all devices but the first even if all of them are old. What lies before it
    /// is written where nothing else can tell that it is old.
    pub damage_is_found: Option<u64>,
    /// Blocks of the first device with what was logged since the last consistency point. Damage
    /// there takes what was durable by the log alone, the last first, and nothing else.
    pub journal_blocks: std::ops::Range<u64>,
    /// A full host is [`Error::NoSpace`] to clients, never [`Error::Io`].
    pub full_host_is_no_space: bool,
    /// Discards are never refused, however full the pool.
    pub discards_are_never_refused: bool,
    /// A discard may do nothing while the pool is full (docs/design/design.md §8).
    pub discards_may_skip_when_full: bool,
    /// Every change is durable when it is acknowledged, asked for or not.
    pub changes_are_durable: bool,
}

/// How a kind of system is put on devices and started from them.
pub trait Maker {
    /// What it makes.
    type System: System;

    /// What it promises.
    fn promises(&self) -> Promises;

    /// Devices for `bytes` of storage in all, or for the least it can live on if that is more.
    fn devices(&self, bytes: u64) -> Vec<DeviceSpec>;

    /// Prepares the empty devices of a world. No volume exists afterwards. Must be durable at
    /// return.
    ///
    /// # Errors
    /// Why it cannot.
    fn format(&self, world: &SimWorld) -> Result<(), String>;

    /// Starts from what is on the devices.
    ///
    /// # Errors
    /// Why it cannot. After a power cut alone there is no reason.
    fn mount(&self, world: &SimWorld) -> Result<Self::System, NotMounted>;

    /// Checks the media of a world in which nothing runs (`everglade check`).
    ///
    /// # Errors
    /// What is wrong with them.
    fn check(&self, _world: &SimWorld) -> Result<(), String> {
        Ok(())
    }
}
