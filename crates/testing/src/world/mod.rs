//! The seeded world: virtual time, simulated devices, any number of reactors on one thread.
//!
//! All inputs of the code under test come from here, and a seed determines all of them: latencies
//! and thereby the order of completions, the order in which reactors get their turns, the moment at
//! which a write is seen by reads, which faults strike.
//!
//! # What a device promises, and nothing more
//!
//! 1. Operations complete in any order. A read returns the contents of one moment between its
//!    submission and its completion (block by block the same moment).
//! 2. A flush makes durable exactly the writes, punches and allocations that completed before it
//!    was submitted. A durable write makes itself durable and nothing else.
//! 3. At a power cut every other change may have happened, or not, or in part ([`cut`]).
//! 4. The host gives space to blocks that are written or allocated, as long as it has some.
//! 5. Faults break 1–4 one by one, when switched on ([`fault`]).
//!
//! A device may become larger, and new ones may appear, while everything runs; that is known at
//! once and outlives every cut. What is new reads as zeroes. A device may break at a given write
//! ([`SimWorld::break_at`]), until the power is off; it may be taken away then, and come back later
//! ([`Images::with_away`]).
//!
//! # Who calls what
//!
//! [`SimWorld::run`] gives turns until no work is left; [`SimOutside`] is the outside of a reactor,
//! [`SimStorage`] the storage at start-up. [`SimWorld::cut_at_write`] stops the world in the
//! middle; [`SimWorld::watch_cuts`] instead remembers every such moment of a continuing run, which
//! makes all cuts of a run as cheap as the run. [`SimWorld::restart`] begins again from the media
//! after a cut.

mod blockset;
mod breakage;
mod change;
pub mod cut;
mod damage;
mod device;
pub mod fault;
mod footprint;
mod image;
mod outside;
mod state;
mod storage;
mod submit;
#[cfg(test)]
mod tests;
mod turns;

use std::collections::VecDeque;
use std::sync::Arc;

use everglade_env::lock::{Mutex, MutexGuard};
use everglade_env::{DeviceId, Nanos, Storage};

pub use breakage::Breakage;
pub use change::Grain;
pub use cut::{Cut, CutPoint, Images, Keep, Losses};
pub use device::{DeviceSpec, Latency};
pub use fault::{Fault, FaultCounts, Faults, PerFault};
pub use footprint::Footprint;
pub use image::Image;
pub use outside::SimOutside;
pub use storage::SimStorage;
pub use turns::{End, Turn};

use blockset::BlockSet;
use breakage::Breaks;
use cut::Medium;
use device::Device;
use state::{ReactorState, State, Watch};

use crate::{Digest, Rng, Seed};

/// Linux's error numbers of an input/output error, and of an invalid argument.
const EIO: i32 = 5;
const EINVAL: i32 = 22;

/// Time that passes while the power is off, in nanoseconds.
const POWER_OFF: Nanos = 1_000_000_000;

/// First word of a reply's record in the digest.
const RECORD_REPLY: u64 = 7;

/// A handle on a world. Clones name the same world.
#[derive(Clone)]
pub struct SimWorld {
    state: Arc<Mutex<State>>,
    seed: Seed,
    reactors: usize,
}

impl SimWorld {
    /// A world with empty devices.
    #[must_use]
    pub fn new(seed: Seed, reactors: usize, devices: &[DeviceSpec]) -> SimWorld {
        let images = Images {
            now: 0,
            tick: 0,
            writes: 0,
            digest: Digest::default(),
            host_capacity: None,
            devices: devices.iter().copied().map(Medium::empty).collect(),
            losses: Losses::default(),
        };
        SimWorld::restart(images, seed, reactors)
    }

    /// Returns a world that continues from the media. Clock, digest and write count continue too.
    #[must_use]
    pub fn restart(images: Images, seed: Seed, reactors: usize) -> SimWorld {
        assert!(reactors > 0, "a world without reactors does nothing");
        let device = |(index, medium): (usize, Medium)| {
            let rng = Rng::for_part(seed.0, &format!("device {index}"));
            let mut device = Device::new(medium.spec, medium.image, medium.allocated, rng);
            device.bad = medium.bad;
            device.damage = medium.damage;
            device.is_joining = medium.is_joining;
            device.is_away = medium.is_away;
            device.gone = medium.is_away;
            device
        };
        let reactor = |_| ReactorState {
            runnable: true,
            ..ReactorState::default()
        };
        let state = State {
            now: images.now + POWER_OFF,
            tick: images.tick,
            events: std::collections::BTreeMap::new(),
            flights: std::collections::BTreeMap::new(),
            devices: images.devices.into_iter().enumerate().map(device).collect(),
            reactors: (0..reactors).map(reactor).collect(),
            rng: Rng::for_part(seed.0, "world"),
            writes: images.writes,
            cut_at: None,
            is_cut: false,
            breaks: Breaks::default(),
            watch: None,
            tracker: None,
            host_capacity: images.host_capacity,
            reordered: 0,
            overlapping: 0,
            digest: images.digest,
            trace: VecDeque::new(),
            trace_max: 0,
        };
        SimWorld {
            state: Arc::new(Mutex::new(state)),
            seed,
            reactors,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic under the lock is a failed assertion of the code under test; the trace is still
        // good.
        self.state.lock()
    }

    /// Returns the outside of reactor `reactor`. Call it once per reactor and life of the server.
    #[must_use]
    pub fn reactor(&self, reactor: usize) -> SimOutside {
        assert!(
            reactor < self.reactors,
            "the world has {} reactors",
            self.reactors
        );
        let rng = Rng::for_part(self.seed.0, &format!("reactor {reactor}"));
        SimOutside::new(self.clone(), reactor, rng)
    }

    /// Number of reactors.
    #[must_use]
    pub fn reactors(&self) -> usize {
        self.reactors
    }

    /// Blocking access to the devices.
    #[must_use]
    pub fn storage(&self) -> Arc<dyn Storage> {
        Arc::new(SimStorage::new(self.clone()))
    }

    /// Returns all devices but those that were taken away ([`Images::with_away`]), in order.
    #[must_use]
    pub fn devices(&self) -> Vec<DeviceId> {
        let state = self.state();
        let devices = (0..).map(DeviceId).zip(&state.devices);
        let there = devices.filter(|(_, device)| !device.is_away);
        there.map(|(id, _)| id).collect()
    }

    /// A new, empty device appears while everything runs. It stays, also over a power cut. It is
    /// marked as joining ([`SimWorld::joining`]).
    pub fn add_device(&self, spec: DeviceSpec) -> DeviceId {
        let mut state = self.state();
        let index = state.devices.len();
        let rng = Rng::for_part(self.seed.0, &format!("device {index}"));
        let mut device = Device::new(spec, Image::default(), BlockSet::default(), rng);
        device.is_joining = true;
        state.devices.push(device);
        let id = DeviceId(u32::try_from(index).expect("few devices"));
        state.record_size(index);
        id
    }

    /// A device becomes larger while everything runs, and stays so, also over a power cut. The new
    /// part reads as zeroes.
    ///
    /// # Panics
    /// If it would become smaller.
    pub fn grow(&self, device: DeviceId, size_bytes: u64) {
        self.with_device(device, |device| device.set_size(size_bytes));
        self.state()
            .record_size(usize::try_from(device.0).expect("few devices"));
    }

    /// Returns the properties of a device.
    #[must_use]
    pub fn spec(&self, device: DeviceId) -> DeviceSpec {
        self.with_device(device, |device| device.spec)
    }

    /// Devices that may turn out not to belong to the rest: what the data directory of the daemon
    /// remembers of a device from before it is added until that is known to be done.
    #[must_use]
    pub fn joining(&self) -> Vec<DeviceId> {
        let all = self.devices().into_iter();
        all.filter(|device| self.with_device(*device, |device| device.is_joining))
            .collect()
    }

    /// A device is known to belong to the rest.
    pub fn has_joined(&self, device: DeviceId) {
        self.with_device(device, |device| device.is_joining = false);
    }

    /// Virtual time.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.state().now
    }

    /// Device writes and punches so far, blocking ones included.
    #[must_use]
    pub fn writes(&self) -> u64 {
        self.state().writes
    }

    /// Stops the world at write number `write` (the first is 1): it is submitted and nothing more
    /// ever happens.
    pub fn cut_at_write(&self, write: u64) {
        self.state().cut_at = Some(write);
    }

    /// Stops the world now.
    pub fn cut_now(&self) {
        self.state().is_cut = true;
    }

    /// True once the power has failed.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.state().is_cut
    }

    /// Returns the cut point of a power cut now.
    #[must_use]
    pub fn cut_point(&self) -> CutPoint {
        self.state().cut_point()
    }

    /// The media after a power cut now, or after the one that stopped the world.
    #[must_use]
    pub fn after_cut(&self, cut: Cut) -> Images {
        self.cut_point().images(cut)
    }

    /// Remembers a cut point at every `stride`-th write from here on, at most `points_max`.
    pub fn watch_cuts(&self, stride: u64, points_max: usize) {
        assert!(stride > 0, "every zeroth write is no write");
        self.state().watch = Some(Watch {
            points: Vec::new(),
            points_max,
            stride,
        });
    }

    /// Returns the cut points remembered since [`SimWorld::watch_cuts`], and stops watching.
    #[must_use]
    pub fn take_cuts(&self) -> Vec<CutPoint> {
        self.state()
            .watch
            .take()
            .map_or(Vec::new(), |watch| watch.points)
    }

    /// Begins to record which blocks of the initial media are read. Call it before anything runs.
    pub fn track(&self) {
        let mut state = self.state();
        let devices = state.devices.iter();
        let shape = devices.map(|it| (it.spec, it.is_joining, it.is_away));
        let tracker = footprint::Tracker::new(shape.collect());
        state.tracker = Some(tracker);
    }

    /// Returns the blocks of the world's initial media that were read, and stops recording.
    #[must_use]
    pub fn take_footprint(&self) -> Footprint {
        let tracker = self.state().tracker.take();
        tracker.expect("it is recorded").take()
    }

    /// Absorbs a reply given to a client into the digest.
    pub fn record_reply(&self, token: u64, reply: &[u8]) {
        let mut state = self.state();
        let now = state.now;
        state.digest.numbers(&[RECORD_REPLY, token, now]);
        state.digest.bytes(reply);
    }

    /// Returns the digest of all events so far.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.state().digest
    }

    /// Keeps the last `lines_max` events as text. Zero, the default, keeps none.
    pub fn trace(&self, lines_max: usize) {
        self.state().trace_max = lines_max;
    }

    /// The events kept.
    #[must_use]
    pub fn take_trace(&self) -> Vec<String> {
        self.state().trace.drain(..).collect()
    }

    /// Adds a line to the trace, so that it shows what the devices' events are about.
    pub fn trace_line(&self, line: impl FnOnce() -> String) {
        self.state().trace_line(line);
    }

    // Faults.

    /// Switches the faults of a device; takes effect with the next operation.
    pub fn set_faults(&self, device: DeviceId, faults: Faults) {
        self.with_device(device, |device| device.faults = faults);
    }

    /// Returns the counts of faults since the start or restart.
    #[must_use]
    pub fn fault_counts(&self, device: DeviceId) -> FaultCounts {
        self.with_device(device, |device| device.counts)
    }

    /// Completions that overtook an earlier operation on their device.
    #[must_use]
    pub fn reordered(&self) -> u64 {
        self.state().reordered
    }

    /// The number of writes that were submitted while an earlier write to one of their blocks was
    /// under way. The order of two such writes is undefined.
    #[must_use]
    pub fn overlapping_writes(&self) -> u64 {
        self.state().overlapping
    }

    /// The device vanishes: everything under way and everything later fails.
    pub fn vanish(&self, device: DeviceId) {
        self.with_device(device, |device| device.gone = true);
    }

    /// From now on no damage of a device counts as met by a read.
    pub fn forget_met(&self, device: DeviceId) {
        self.with_device(device, |device| device.damage.forget_met());
    }

    /// Returns the blocks of a device that a read found damaged since [`SimWorld::forget_met`], and
    /// that are still wrong on the medium.
    #[must_use]
    pub fn unmended(&self, device: DeviceId) -> Vec<u64> {
        self.with_device(device, |device| {
            let met = device.damage.met();
            let wrong = met.filter(|(block, wanted)| device.live.read(*block)[..] != wanted[..]);
            wrong.map(|(block, _)| block).collect()
        })
    }

    /// Makes `block` unreadable until it is written.
    pub fn fail_block(&self, device: DeviceId, block: u64) {
        self.with_device(device, |device| device.bad.insert(block));
    }

    /// Makes a block readable again, with its former content.
    pub fn mend_block(&self, device: DeviceId, block: u64) {
        self.with_device(device, |device| device.bad.remove(&block));
    }

    /// Flips bit `bit` of `block` on the medium.
    pub fn flip_bit(&self, device: DeviceId, block: u64, bit: usize) {
        self.with_device(device, |device| device.flip_bit(block, bit));
    }

    /// Returns the medium's present answer to a read of `block`.
    #[must_use]
    pub fn peek(&self, device: DeviceId, block: u64) -> everglade_env::PageRef {
        self.with_device(device, |device| device.live.read(block))
    }

    /// Bounds what the host can give to all thin devices together; `None` is no bound.
    pub fn set_host_capacity(&self, bytes: Option<u64>) {
        self.state().host_capacity = bytes;
    }

    /// Bytes the host has given to thin devices.
    #[must_use]
    pub fn host_used(&self) -> u64 {
        self.state().host_used()
    }

    fn with_device<R>(&self, device: DeviceId, act: impl FnOnce(&mut Device) -> R) -> R {
        let mut state = self.state();
        let index = usize::try_from(device.0).expect("few devices");
        act(&mut state.devices[index])
    }
}
