//! A running engine: one core per reactor of the world.

use std::collections::BTreeMap;

use everglade_engine::admin::{self, Change};
use everglade_engine::{
    AggregateInfo, CopiesInfo, Core, Engine, MemberInfo, ScrubInfo, State, StripesInfo, Usage,
};
use everglade_format::volume::Sync;
use everglade_target::{Error, Target};

use super::cleaning::Cleaning;
use super::growing::{Growing, GrowthRecord};
use super::leaving::Removing;
use super::replacing::{ReplacementRecord, Replacing};
use crate::SimWorld;
use crate::system::{Admin, AdminDone, Geometry, System};
use crate::world::{SimOutside, Turn};

/// An engine with one aggregate.
pub struct EngineSystem {
    pub(super) world: SimWorld,
    pub(super) engine: Engine,
    pub(super) cores: Vec<Core<SimOutside>>,
    pub(super) aggregate: u32,
    sync: Sync,
    recovered: Option<u64>,
    /// Consistency points joined by operations whose completion was not asked about yet.
    joined: Vec<BTreeMap<u64, u64>>,
    /// Segment cleaning beside everything else.
    pub(super) cleaning: Option<Cleaning>,
    /// Limits of LUNs that change: the turns so far.
    pub(super) limiting: Option<u32>,
    /// Members that leave now and then.
    pub(super) removing: Option<Removing>,
    /// Growths under way, by token.
    pub(super) growing: BTreeMap<u64, Growing>,
    pub(super) growths: Vec<GrowthRecord>,
    /// The replacement under way, by token.
    pub(super) replacing: BTreeMap<u64, Replacing>,
    pub(super) replacements: Vec<ReplacementRecord>,
    /// Answers of each reactor that the engine was not asked for.
    pub(super) refused: Vec<Vec<AdminDone>>,
    /// Answers of the engine that nobody has taken yet, by reactor.
    pub(super) answers: Vec<Vec<everglade_engine::AdminDone>>,
}

impl EngineSystem {
    pub(super) fn new(world: &SimWorld, engine: Engine, aggregate: u32, sync: Sync) -> Self {
        let core = |reactor| {
            let mut core = Core::new(&engine, reactor, world.reactor(reactor));
            core.trace_joined();
            core
        };
        let cores: Vec<_> = (0..world.reactors()).map(core).collect();
        EngineSystem {
            world: world.clone(),
            cleaning: None,
            limiting: None,
            removing: None,
            growing: BTreeMap::new(),
            growths: Vec::new(),
            replacing: BTreeMap::new(),
            replacements: Vec::new(),
            refused: cores.iter().map(|_| Vec::new()).collect(),
            answers: cores.iter().map(|_| Vec::new()).collect(),
            joined: cores.iter().map(|_| BTreeMap::new()).collect(),
            cores,
            engine,
            aggregate,
            sync,
            recovered: None,
        }
    }

    /// Records the committed state after the start.
    pub(super) fn mounted(&mut self) {
        let info = self.info();
        // With a journal the order of operations continues beyond the opened consistency point.
        self.recovered = match info.recovery {
            // Replay skipped operations on a LUN that was created or grown too late. No client was
            // promised them.
            Some(recovery) if recovery.skipped > 0 => None,
            Some(recovery) => Some(recovery.next_sequence - 1),
            None => Some(info.opened_cp),
        };
    }

    /// A turn of one reactor.
    pub(super) fn step(&mut self, reactor: usize) -> Turn {
        let is_busy = self.cores[reactor].turn();
        if self.cleaning.is_some() || self.removing.is_some() {
            // Answers to what it has asked itself: elsewhere they are not for it to take.
            self.take_answers(reactor);
        }
        if is_busy {
            Turn::Busy
        } else {
            let until = self.cores[reactor].deadline();
            Turn::Idle { until }
        }
    }

    /// Returns the engine.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns one reactor's part of the engine.
    pub fn core(&mut self, reactor: usize) -> &mut Core<SimOutside> {
        &mut self.cores[reactor]
    }

    pub(super) fn info(&self) -> AggregateInfo {
        let mut known = self.engine.aggregates();
        known.swap_remove(self.aggregate as usize)
    }

    fn volume(&self, name: &str) -> Option<everglade_engine::VolumeInfo> {
        let mut volumes = self.engine.volumes().into_iter();
        volumes.find(|known| known.name == name)
    }

    /// Snapshots of a volume.
    #[must_use]
    pub fn snapshots(&self, volume: &str) -> Vec<everglade_engine::SnapshotInfo> {
        self.engine.snapshots(volume)
    }

    /// Returns the aggregate's name.
    #[must_use]
    pub fn name(&self) -> String {
        self.info().name
    }

    /// Returns the text of the aggregate's notes.
    #[must_use]
    pub fn notes(&self) -> Vec<u8> {
        self.read_notes().expect("they can be read")
    }

    /// Returns the notes of an aggregate whose notes may be damaged.
    ///
    /// # Errors
    /// Why they cannot be read.
    pub fn read_notes(&self) -> Result<Vec<u8>, everglade_engine::Unreadable> {
        let notes = self.engine.notes(self.info().id)?;
        Ok(notes.to_vec())
    }

    /// Returns the background work for the snapshots of a volume.
    #[must_use]
    pub fn scan(&self, volume: &str) -> everglade_engine::ScanInfo {
        let found = self.volume(volume);
        found.map(|found| found.scan).unwrap_or_default()
    }

    /// Returns the blocks that deletions in a volume have yet to free.
    #[must_use]
    pub fn pending_blocks(&self, volume: &str) -> u64 {
        let found = self.volume(volume);
        found.map_or(0, |found| found.pending_blocks)
    }

    /// The LUN of a volume that is being cloned, or how that ended.
    #[must_use]
    pub fn lun_clone(&self, volume: &str) -> Option<everglade_engine::LunCloneInfo> {
        self.volume(volume)?.lun_clone
    }

    /// Returns the base of a clone.
    #[must_use]
    pub fn base(&self, volume: &str) -> Option<String> {
        self.volume(volume)?.base
    }

    /// Returns the state of a volume's split.
    #[must_use]
    pub fn split(&self, volume: &str) -> everglade_engine::SplitInfo {
        let found = self.volume(volume);
        found.map(|found| found.split).unwrap_or_default()
    }

    /// Returns the mended blocks and the state of a repair.
    #[must_use]
    pub fn mended(&self) -> everglade_engine::MendedInfo {
        self.info().mended
    }

    /// Returns the drives, in the order of the label's table.
    #[must_use]
    pub fn members(&self) -> Vec<MemberInfo> {
        self.info().members
    }

    /// Returns the membership epoch.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.info().epoch
    }

    /// Returns the stripes that were written.
    #[must_use]
    pub fn stripes(&self) -> StripesInfo {
        self.info().stripes
    }

    /// Returns what reads of other copies have found.
    #[must_use]
    pub fn copies(&self) -> CopiesInfo {
        self.info().copies
    }

    /// Returns the scrub that is under way, or the last one.
    #[must_use]
    pub fn scrub(&self) -> ScrubInfo {
        self.info().scrub
    }

    /// Blocks that were not where a pointer says.
    #[must_use]
    pub fn stale_reads(&self) -> u64 {
        self.info().stale_reads
    }

    /// Returns the state of the aggregate.
    #[must_use]
    pub fn state(&self) -> State {
        self.info().state
    }

    /// The last committed consistency point.
    #[must_use]
    pub fn committed_cp(&self) -> u64 {
        self.info().committed_cp
    }

    /// Space in use, and so on.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.info().usage
    }

    /// Returns what the start found in the journal.
    #[must_use]
    pub fn recovery(&self) -> Option<everglade_engine::RecoveryInfo> {
        self.info().recovery
    }

    /// Look-ups in the page cache that found a page, and those that did not.
    #[must_use]
    pub fn cache_counts(&self) -> (u64, u64) {
        self.engine.cache_counts()
    }
}

impl Drop for EngineSystem {
    fn drop(&mut self) {
        self.engine.dissolve();
    }
}

fn change_of(request: Admin, sync: Sync) -> Option<Change> {
    let split = |name: String| {
        let (volume, lun) = name.split_once('/').expect("LUNs are named volume/lun");
        (volume.to_owned(), lun.to_owned())
    };
    Some(match request {
        Admin::CreateVolume { name } => Change::CreateVolume { name, sync },
        Admin::DeleteVolume { name } => Change::DeleteVolume { name },
        Admin::CreateLun { name, size_bytes } => {
            let (volume, name) = split(name);
            Change::CreateLun {
                volume,
                name,
                size_bytes,
            }
        }
        Admin::DeleteLun { name } => {
            let (volume, name) = split(name);
            Change::DeleteLun { volume, name }
        }
        Admin::GrowLun { name, size_bytes } => {
            let (volume, name) = split(name);
            Change::GrowLun {
                volume,
                name,
                size_bytes,
            }
        }
        Admin::ShrinkLun { name, size_bytes } => {
            let (volume, name) = split(name);
            Change::ShrinkLun {
                volume,
                name,
                size_bytes,
            }
        }
        Admin::ConsistencyPoint => return None,
        Admin::StartScrub => Change::StartScrub { earlier: None },
        Admin::GrowPool(_) | Admin::ReplaceDrive(_) => unreachable!("it takes more than one call"),
    })
}

pub(super) fn error_of(error: admin::Error) -> Error {
    match error {
        admin::Error::NotFound(what) => Error::NotFound(what),
        admin::Error::Exists(_) => Error::Invalid("it exists already"),
        admin::Error::Invalid { .. } => Error::Invalid("a value that cannot be"),
        admin::Error::NoSpace => Error::NoSpace,
        admin::Error::Busy(_) | admin::Error::Limit(_) => Error::Invalid("not now"),
        admin::Error::Unavailable(text)
        | admin::Error::ReadOnly(text)
        | admin::Error::Unknown(text) => Error::Io(text),
    }
}

impl System for EngineSystem {
    fn turn(&mut self, reactor: usize) -> Turn {
        self.clean(reactor);
        self.limit(reactor);
        self.remove_members(reactor);
        self.step(reactor)
    }

    fn growth_may_wait(&self) -> bool {
        let is_behind = |member: &MemberInfo| !member.seat.is_current();
        self.removes_members() || self.info().members.iter().any(is_behind)
    }

    fn target(&mut self, reactor: usize) -> &mut dyn Target {
        &mut self.cores[reactor]
    }

    fn administer(&mut self, reactor: usize, request: Admin, token: u64) {
        if let Admin::GrowPool(growth) = request {
            return self.begin_growth(reactor, &growth, token);
        }
        if let Admin::ReplaceDrive(replacement) = request {
            return self.begin_replacement(reactor, &replacement, token);
        }
        let core = &mut self.cores[reactor];
        match change_of(request, self.sync) {
            Some(change) => core.change(self.aggregate, change, token),
            None => core.consistency_point(self.aggregate, token),
        }
    }

    fn poll_admin(&mut self, reactor: usize, done: &mut Vec<AdminDone>) {
        let mut finished = Vec::new();
        self.poll_changes(reactor, &mut finished);
        for one in finished {
            let (token, result) = (one.token, one.result);
            if let Some(replacing) = self.replacing.remove(&token) {
                let result = self.go_on_replacing(reactor, (token, replacing), result);
                done.extend(result.map(|result| AdminDone { token, result }));
                continue;
            }
            let result = match self.growing.remove(&token) {
                Some(growing) => self.end_growth(&growing, result),
                None => result.map_err(error_of),
            };
            done.push(AdminDone { token, result });
        }
        done.append(&mut self.refused[reactor]);
    }

    fn cp_of(&mut self, reactor: usize, token: u64) -> Option<u64> {
        let known = &mut self.joined[reactor];
        let joined = self.cores[reactor].take_joined();
        known.extend(
            joined
                .iter()
                .map(|one| (one.token, one.sequence.unwrap_or(one.cp))),
        );
        known.remove(&token)
    }

    fn recovered_cp(&self) -> Option<u64> {
        self.recovered
    }

    fn has_gaps(&self) -> bool {
        self.info()
            .recovery
            .is_some_and(|recovery| recovery.skipped > 0)
    }

    fn committed_cp(&self) -> Option<u64> {
        Some(self.info().committed_cp)
    }

    fn failure(&self) -> Option<String> {
        match self.state() {
            State::Failed(reason) => Some(reason),
            _ => None,
        }
    }

    fn read_only(&self) -> Option<String> {
        match self.state() {
            State::ReadOnly(reason) => Some(reason),
            _ => None,
        }
    }

    fn geometry(&self) -> Option<Geometry> {
        (!self.removes_members()).then(|| self.geometry_now())
    }

    fn volumes(&self) -> Option<Vec<String>> {
        Some(self.engine.volumes().into_iter().map(|v| v.name).collect())
    }

    fn check_at_rest(&mut self) -> Result<(), String> {
        for (reactor, core) in self.cores.iter().enumerate() {
            let (operations, _) = core.under_way();
            let is_asked = self.cleaning.as_ref().is_some_and(|it| it.is_asked);
            if operations > usize::from(is_asked) + usize::from(self.is_removal_asked()) {
                return Err(format!(
                    "reactor {reactor} has {operations} operations under way that nobody waits for"
                ));
            }
        }
        Ok(())
    }

    fn request_stop(&mut self) -> bool {
        self.engine.lift_limits();
        self.engine.request_stop();
        true
    }

    fn is_stopped(&self) -> bool {
        self.engine.is_stopped()
    }
}
