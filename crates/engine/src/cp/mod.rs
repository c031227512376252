//! Consistency points: the atomic transaction of an aggregate and all its volumes (C-03 … C-07, C-12).
//!
//! ```text
//! freeze ─▶ plan ─▶ drain ─▶ reclaim ─▶ clean ─▶ finish volumes ─▶ finish aggregate ─▶ write
//!   (inside Aggregate)                                                                   │
//! publish ◀─ superblock ◀─ device flush ◀──────────────────────────────────────────────┘
//!   (inside Aggregate)
//! ```
//!
//! | phase | file | what |
//! | --- | --- | --- |
//! | freeze | [`freeze`] | active overlays become frozen ones; administrative changes happen |
//! | plan | [`freeze`] | regions sorted by volume, LUN and place |
//! | scrub | [`crate::mend::scrub`] | if that was asked for, everything that can be derived is read, so that it is mended |
//! | drain | [`drain`] | blocks in the overflow files are freed for real (E-08) |
//! | reclaim | [`reclaim`], [`crate::snapshot::scan`] | deleted files and snapshots shrink a little (E-11, F-10); clones that are split copy a little (B-10) |
//! | clean | [`clean`] | overlay entries become blocks and pointers |
//! | finish | [`finish`], [`maps`] | everything changed gets a place, then tags from the leaves up |
//! | write … superblock | [`writer`], [`commit`] | nothing is committed before all of it is on stable media |
//! | publish | [`commit`] | clients see the new roots; frozen overlays are dropped |
//!
//! One consistency point of an aggregate runs at a time, on its home reactor, in slices: a step returns
//! when it must wait or has used its budget. Each step can be run again from its beginning: what may stop
//! comes first, and changes nothing that a second run would not find done.
//!
//! 1. Membership is decided in the freeze: what an operation changed before it belongs to this
//!    consistency point, everything later to the next (C-04).
//! 2. Nothing that the last committed consistency point refers to is overwritten (Lemma 1).
//! 3. Clients never see a tree that is not committed.
//! 4. If power fails before the superblock is on media, the last consistency point is as it was.
//! 5. A block that cannot be read is derived, if it can be ([`crate::mend`]); then the step that needed it runs again.
//! 6. A failed consistency point fails the aggregate: nothing later is acknowledged, and nothing of it is
//!    seen after a restart.

pub(crate) mod clean;
pub(crate) mod commit;
pub(crate) mod drain;
pub(crate) mod finish;
pub(crate) mod freeze;
pub(crate) mod leaving;
pub(crate) mod maps;
pub(crate) mod reclaim;
pub(crate) mod trigger;
pub(crate) mod writer;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use everglade_env::{Nanos, Op, PageRef};
use everglade_format::metafile::OVERFLOW;
use everglade_format::planted::{self, Bug};
use everglade_format::volume::Sync;
use everglade_format::{CpNumber, FileId, Inode, Pvbn};
use everglade_journal::Position;

use crate::admin;
use crate::aggregate::Aggregate;
use crate::aggregate::heal::Healing;
use crate::aggregate::space::{Space, WHOLE};
use crate::alloc::host::Host;
use crate::filesystem::FileSystem;
use crate::load::{LoadCx, Place, Stop};
use crate::mend::scrub::Scrub;
use crate::mend::{self, Mender};
use crate::snapshot::image::Image;
use crate::snapshot::info::SnapshotInfo;
use crate::snapshot::lun_clone::NewLun;
use crate::snapshot::restore::Restored;
use crate::tree::{Content, Lost, Root};
use crate::volume::overlay::{Overlay, RegionId};
use crate::volume::{Lun, Volume};
use writer::Writer;

/// What the home reactor knows of a volume.
pub(crate) struct VolumeHome {
    pub(crate) shared: Arc<Volume>,
    pub(crate) fs: FileSystem,
    pub(crate) sync: Sync,
    /// Its superblock is not in the container yet.
    pub(crate) is_new: bool,
    /// The image that a restore is about to put in the place of `fs`.
    pub(crate) next: Option<Box<FileSystem>>,
}

impl VolumeHome {
    /// Takes note of blocks of a LUN that became lost.
    pub(crate) fn note_lost(&mut self, aggregate: &Aggregate, lun: FileId, lost: Vec<Lost>) {
        let name = self.fs.directory.iter().find(|entry| entry.file == lun);
        let name = name.map_or("a deleted LUN", |entry| &entry.name);
        for Lost {
            level,
            index,
            reason,
        } in lost
        {
            self.fs.lost += 1;
            let reach = Inode::reach(level);
            let bytes = |leaf: u64| leaf.saturating_mul(everglade_env::BLOCK_SIZE as u64);
            aggregate.lost.lost(format!(
                "{}/{name}: bytes {} up to {} are lost, except where they were overwritten: {reason}",
                self.shared.name,
                bytes(index.saturating_mul(reach)),
                bytes((index + 1).saturating_mul(reach)),
            ));
        }
    }
}

/// Everything about an aggregate that only its consistency point touches.
pub(crate) struct Home {
    pub(crate) aggregate: Arc<Aggregate>,
    pub(crate) fs: FileSystem,
    pub(crate) volumes: BTreeMap<FileId, VolumeHome>,
    pub(crate) host: Host,
    /// For the next freeze.
    pub(crate) requests: VecDeque<admin::Request>,
    /// Requests that have yet to be admitted.
    pub(crate) arrived: VecDeque<admin::Request>,
    pub(crate) run: Option<Run>,
    /// While the journal is being replayed: where the replay would have to begin again. Superblocks go on
    /// saying so until all of it is committed.
    pub(crate) replaying: Option<Position>,
    /// When the last consistency point was published, there was pressure for the next.
    pub(crate) is_pressed: bool,
    pub(crate) last_begin: Nanos,
    /// When one began that gave something back of what was deleted.
    pub(crate) last_reclaim: Nanos,
    /// What was published and holds memory yet.
    pub(crate) leaving: leaving::Leaving,
    /// The driver waits for the Aggregate affinity.
    pub(crate) is_entering: bool,
    /// An area whose space is being asked for ahead of need, and when to ask again after a refusal.
    pub(crate) preparing: Option<(usize, u64)>,
    pub(crate) prepare_after: Nanos,
    /// The next consistency point looks for free areas that were not seen since start.
    pub(crate) search_wanted: bool,
    /// Time of day, for stamps that people read.
    pub(crate) wall_seconds: u64,
    /// An area whose space is being given back.
    pub(crate) punching: Option<(usize, u64)>,
    /// What an interrupted commit left to do.
    pub(crate) healing: Healing,
    /// Derives what is damaged.
    pub(crate) mender: Mender,
    /// Blocks that were derived and that the running consistency point is yet to change, so that it writes them.
    pub(crate) installed: Vec<Place>,
    /// The next consistency point begins with it, or the running one began with it.
    pub(crate) scrub: Option<Scrub>,
    /// Blocks that were derived when the aggregate was opened, and go where they were before anything else is written.
    pub(crate) derived: Vec<(Pvbn, PageRef)>,
}

/// One consistency point under way.
pub(crate) struct Run {
    pub(crate) number: CpNumber,
    /// Where the superblock says that replay begins: after what is part of it.
    pub(crate) position: Position,
    /// The journal's operations before `position` are committed with it; not while they are replayed.
    pub(crate) frees_log: bool,
    pub(crate) phase: Phase,
    pub(crate) frozen: Vec<(Arc<Volume>, usize, Arc<Overlay>)>,
    pub(crate) plan: VecDeque<Job>,
    /// How many pages of the frozen overlays were cleaned.
    pub(crate) cleaned: u64,
    /// Volumes that have anything to write.
    pub(crate) active: BTreeSet<FileId>,
    /// Level-1 blocks of deleted files that may still be freed in this consistency point.
    pub(crate) reclaim_budget: u64,
    /// What it began with.
    pub(crate) reclaim_regions: u64,
    /// Level-1 blocks that were given to clones of LUNs.
    pub(crate) cloned_regions: u64,
    /// Clones of LUNs wait for space.
    pub(crate) cloning_waits: bool,
    /// Those that are complete.
    pub(crate) new_luns: Vec<NewLun>,
    /// Blocks that may still be copied for clones that are being split.
    pub(crate) split_budget: u64,
    /// The clone that blocks were copied for.
    pub(crate) splitting: Option<FileId>,
    /// New snapshots are scanned.
    pub(crate) create_scan: bool,
    pub(crate) roots: Vec<(Arc<Lun>, Root)>,
    /// New snapshots, for clients.
    pub(crate) images: Vec<(Arc<Volume>, String, Image)>,
    /// Restored volumes.
    pub(crate) restored: Vec<Restored>,
    /// What people are told of volumes' snapshots.
    pub(crate) views: Vec<(Arc<Volume>, Arc<Vec<SnapshotInfo>>)>,
    pub(crate) answers: Vec<(admin::Request, Result<(), admin::Error>)>,
    pub(crate) writer: Writer,
    /// Blocks that deletions have yet to give back after this one.
    pub(crate) pending: u64,
    /// The aggregate stops after this one.
    pub(crate) last: bool,
}

impl Run {
    /// The volume whose trees the present phase follows, if it is just one.
    pub(crate) fn volume(&self) -> Option<FileId> {
        match self.phase {
            Phase::Clean => self.plan.front().map(|job| job.volume),
            Phase::FinishVolume(volume, _) => Some(volume),
            _ => None,
        }
    }

    /// How much of it is done, of [`WHOLE`]: cleaning is most of the work, then the containers' blocks.
    pub(crate) fn progress(&self, space: &Space) -> u32 {
        const CLEANED: u32 = WHOLE - 6;
        match self.phase {
            Phase::Plan | Phase::Scrub | Phase::Drain | Phase::Reclaim => 0,
            Phase::Clean => {
                let pages = space.dirty_in(self.number).max(1);
                let parts = self.cleaned * u64::from(CLEANED) / pages;
                u32::try_from(parts).map_or(CLEANED, |parts| parts.min(CLEANED))
            }
            Phase::FinishVolume(..) => CLEANED,
            Phase::FinishAggregate(finish::Part::Prepare | finish::Part::Place) => CLEANED + 1,
            Phase::FinishAggregate(finish::Part::Maps) => CLEANED + 2,
            Phase::FinishAggregate(_) => CLEANED + 3,
            Phase::Write | Phase::Flush | Phase::Superblock => CLEANED + 4,
            Phase::Publish => WHOLE,
        }
    }
}

/// Regions of one LUN that changed.
pub(crate) struct Job {
    pub(crate) volume: FileId,
    pub(crate) lun: FileId,
    /// Region and the frozen overlay that has it, ascending.
    pub(crate) regions: VecDeque<(u64, Arc<Overlay>)>,
}

impl Job {
    pub(crate) fn key(&self, region: u64) -> RegionId {
        (self.lun, region)
    }
}

/// Where a consistency point is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Plan,
    /// All that can be derived is read ([`crate::mend::scrub`]), if that was asked for.
    Scrub,
    Drain,
    Reclaim,
    Clean,
    FinishVolume(FileId, finish::Part),
    FinishAggregate(finish::Part),
    Write,
    Flush,
    Superblock,
    /// Everything is durable: publish inside the Aggregate affinity.
    Publish,
}

impl Phase {
    /// Name in metrics and messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Phase::Plan => "plan",
            Phase::Scrub => "scrub",
            Phase::Drain => "drain",
            Phase::Reclaim => "reclaim",
            Phase::Clean => "clean",
            Phase::FinishVolume(..) => "finish_volume",
            Phase::FinishAggregate(..) => "finish_aggregate",
            Phase::Write => "write",
            Phase::Flush => "flush",
            Phase::Superblock => "superblock",
            Phase::Publish => "publish",
        }
    }
}

/// How a step ended, if it did not stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// There is more to do now. Loaded pages may be let go.
    Again,
    /// The next step needs the Aggregate affinity.
    Publish,
}

/// Runs the next step of the consistency point outside any affinity (A-11). What it cannot read is mended, if it can be
/// derived; then it goes on.
pub(crate) fn step(home: &mut Home, cx: &mut LoadCx<'_>) -> Result<Step, Stop> {
    let outcome = match home.mender.is_busy() {
        true => mend(home, cx).map(|()| Step::Again),
        false => change_installed(home, cx).and_then(|()| step_of_phase(home, cx)),
    };
    outcome.or_else(|stop| catch(home, stop))
}

/// What cannot be read is mended, if there is a way.
fn catch(home: &mut Home, stop: Stop) -> Result<Step, Stop> {
    let is_scrubbing = home.run.as_ref().expect("under way").phase == Phase::Scrub;
    let scrub = home.scrub.as_mut().filter(|_| is_scrubbing);
    if let (Some(scrub), Stop::Damaged(damaged)) = (scrub, &stop) {
        scrub.note(damaged.pointer);
    }
    match home.mender.catch(stop) {
        Ok(()) => Ok(Step::Again),
        Err(Stop::Damaged(damaged)) if is_scrubbing => {
            let scrub = home.scrub.as_mut().expect("it is under way");
            scrub.give_up(&damaged);
            Ok(Step::Again)
        }
        Err(stop) => Err(stop),
    }
}

impl Home {
    /// The next consistency point begins with a scrub of what was committed.
    pub(crate) fn begin_scrub(&mut self) {
        self.scrub = Some(Scrub::new(self.mender.committed().clone()));
    }
}

/// Mends a little of what the consistency point stopped for.
fn mend(home: &mut Home, cx: &mut LoadCx<'_>) -> Result<(), Stop> {
    let writer = &mut home.run.as_mut().expect("under way").writer;
    if home.mender.is_writing() {
        writer.finish(&home.aggregate)?;
        home.mender.written(cx);
        return Ok(());
    }
    match home.mender.step(cx)? {
        mend::Step::Again => {}
        mend::Step::Write(pvbn, page) => put(writer, &home.aggregate, pvbn, page),
        mend::Step::Install(place, page) => {
            let position = (place.level, place.index);
            if let Some(id) = place.volume {
                // An overflow file is emptied with the changes of its volume.
                let run = home.run.as_mut().expect("under way");
                run.active.extend((run.phase == Phase::Scrub).then_some(id));
            }
            let known = match place.volume {
                None => Some(&mut home.fs),
                Some(id) => home.volumes.get_mut(&id).map(|volume| &mut volume.fs),
            };
            let file = known.and_then(|fs| fs.files.get_mut(&place.file));
            if let Some(file) = file {
                file.install(position, page);
            }
            // An overflow file is emptied by whoever reads it.
            if place.file != OVERFLOW {
                home.installed.push(place);
            }
        }
    }
    Ok(())
}

/// Writes a block where it was.
pub(crate) fn put(writer: &mut Writer, aggregate: &Aggregate, pvbn: Pvbn, page: PageRef) {
    let (device, offset, _) = aggregate.locate(pvbn).expect("it was read");
    writer.submit(Op::Write {
        device,
        offset,
        pages: vec![page],
        durable: true,
    });
}

/// Makes blocks changed that were derived and cannot be put where they were.
fn change_installed(home: &mut Home, cx: &mut LoadCx<'_>) -> Result<(), Stop> {
    while let Some(place) = home.installed.last() {
        if let Some(file) = home.fs.files.get_mut(&place.file) {
            file.modify(cx, place.level, place.index, Content::Keep)?;
        }
        home.installed.pop();
    }
    Ok(())
}

fn step_of_phase(home: &mut Home, cx: &mut LoadCx<'_>) -> Result<Step, Stop> {
    let run = home.run.as_mut().expect("a consistency point is under way");
    run.writer.check()?;
    let next = match run.phase {
        Phase::Plan => freeze::plan(home).map(|()| match home.scrub {
            Some(_) => Some(Phase::Scrub),
            None => Some(Phase::Drain),
        }),
        Phase::Scrub => {
            let scrub = home.scrub.as_mut().expect("it was asked for");
            scrub.step(cx).map(|done| done.then_some(Phase::Drain))
        }
        Phase::Drain => drain::step(home, cx).map(|()| Some(Phase::Reclaim)),
        Phase::Reclaim => reclaim::step(home, cx).map(|done| done.then_some(Phase::Clean)),
        Phase::Clean => clean::step(home, cx).map(|done| done.then(|| first_finish(home))),
        Phase::FinishVolume(volume, part) => {
            let next = finish::volume(home, cx, volume, part)?;
            Ok(Some(match next {
                Some(part) => Phase::FinishVolume(volume, part),
                None => next_finish(home, volume),
            }))
        }
        Phase::FinishAggregate(part) => {
            let next = finish::aggregate(home, cx, part)?;
            Ok(Some(next.map_or(Phase::Write, Phase::FinishAggregate)))
        }
        Phase::Write => commit::write(home).map(|()| Some(Phase::Flush)),
        Phase::Flush => commit::flush(home).map(|done| done.then_some(Phase::Superblock)),
        Phase::Superblock => commit::superblock(home).map(|done| done.then_some(Phase::Publish)),
        Phase::Publish => return Ok(Step::Publish),
    }?;
    if let Some(phase) = next {
        home.run.as_mut().expect("still under way").phase = phase;
    }
    Ok(Step::Again)
}

fn first_finish(home: &mut Home) -> Phase {
    if planted::is(Bug::SafeCopyDroppedEarly) {
        home.fs.safe.drop_all();
    }
    let log = home
        .aggregate
        .log
        .as_ref()
        .filter(|_| home.replaying.is_none());
    if let (true, Some(log)) = (planted::is(Bug::JournalFrozenLate), log) {
        home.run.as_mut().expect("under way").position = log.freeze();
    }
    let run = home.run.as_mut().expect("under way");
    let changed = home
        .volumes
        .iter()
        .filter(|(_, volume)| volume.fs.is_changed());
    for (id, _) in changed {
        assert!(
            run.active.contains(id),
            "volume {id} changed without being planned, or drained"
        );
    }
    match run.active.first() {
        Some(volume) => Phase::FinishVolume(*volume, finish::Part::first()),
        None => Phase::FinishAggregate(finish::Part::first()),
    }
}

fn next_finish(home: &Home, done: FileId) -> Phase {
    let run = home.run.as_ref().expect("under way");
    match run
        .active
        .range((std::ops::Bound::Excluded(done), std::ops::Bound::Unbounded))
        .next()
    {
        Some(volume) => Phase::FinishVolume(*volume, finish::Part::first()),
        None => Phase::FinishAggregate(finish::Part::first()),
    }
}
