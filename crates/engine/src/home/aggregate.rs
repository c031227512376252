//! The state of one aggregate that its consistency points own, between and during them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use everglade_env::{DeviceId, Nanos, PageRef};
use everglade_format::{Extent, FileId, Kind, Pvbn, SPAN, SnapshotRecord};
use everglade_journal::Position;

use crate::alloc::filesystem::FileSystem;
use crate::change;
use crate::change::EarlierScrub;
use crate::home::catching_up::CatchUp;
use crate::home::gardener::Gardener;
use crate::home::leaving::Leaving;
use crate::home::ledger::{Ledger, Target};
use crate::home::removing::Removing;
use crate::home::run::Run;
use crate::home::scrubbing::Scrub;
use crate::home::space_map::SpaceCount;
use crate::home::stripes::Stripes;
use crate::home::volume::VolumeHome;
use crate::media::heal::Healing;
use crate::media::host::Host;
use crate::media::next::Turn;
use crate::media::pace::Job;
use crate::mend::Mender;
use crate::mend::repair::Repair;
use crate::pool::aggregate::Aggregate;
use crate::pool::garden::GardeningState;
use crate::pool::space_map::ExtentMap;
use crate::read::load::BlockName;
use crate::tree::File;

/// State of an aggregate that only its consistency point touches.
pub(crate) struct Home {
    pub(crate) aggregate: Arc<Aggregate>,
    pub(crate) fs: FileSystem,
    pub(crate) volumes: BTreeMap<FileId, VolumeHome>,
    pub(crate) host: Host,
    /// For the next freeze.
    pub(crate) requests: VecDeque<change::Request>,
    /// Requests that have yet to be admitted.
    pub(crate) arrived: VecDeque<change::Request>,
    pub(crate) run: Option<Run>,
    /// Work of background passes, in the running consistency point and before.
    pub(crate) ledger: Ledger,
    /// While the journal is being replayed: where the replay would have to begin again. Superblocks
    /// go on saying so until all of it is committed.
    pub(crate) replaying: Option<Position>,
    /// When the last consistency point was published, there was pressure for the next.
    pub(crate) is_pressed: bool,
    pub(crate) last_begin: Nanos,
    /// Time when the last consistency point began that freed blocks of deletions.
    pub(crate) last_reclaim: Nanos,
    /// Published state that still holds memory.
    pub(crate) leaving: Leaving,
    /// The driver waits for the Aggregate affinity.
    pub(crate) is_entering: bool,
    /// An area whose space is being asked for ahead of need, and when to ask again after a refusal.
    pub(crate) preparing: Option<(usize, u64)>,
    pub(crate) prepare_after: Nanos,
    /// True if the next consistency point searches for free areas that were not seen since start.
    pub(crate) search_wanted: bool,
    /// The present time.
    pub(crate) now: Nanos,
    /// Time of day, for stamps that people read.
    pub(crate) wall_seconds: u64,
    /// An area whose space is being returned to the host.
    pub(crate) punching: Option<(usize, u64)>,
    /// Brings a drive up to date that was away.
    pub(crate) catching_up: CatchUp,
    /// Compares all drives.
    pub(crate) scrub: Scrub,
    /// Empties areas, and puts LUNs in order.
    pub(crate) gardener: Gardener,
    /// Evacuates members that leave.
    pub(crate) removing: Option<Removing>,
    /// Devices of members that this freeze has removed.
    pub(crate) removed: Vec<DeviceId>,
    /// Nobody else may write labels: the next consistency point writes a record.
    pub(crate) turn: Option<Turn>,
    /// It empties areas of parity groups as whole ones are needed.
    pub(crate) cleans_on_demand: bool,
    /// LUNs that are put in order get blocks of their own.
    pub(crate) moves_unshare: bool,
    /// Work that an interrupted commit left.
    pub(crate) healing: Healing,
    /// Derives damaged blocks.
    pub(crate) mender: Mender,
    /// Blocks that were derived and that the running consistency point is yet to change, so that it
    /// writes them.
    pub(crate) installed: Vec<BlockName>,
    /// Each consistency point reads a slice of it.
    pub(crate) repair: Option<Repair>,
    /// Blocks that were derived when the aggregate was opened, and go where they were before
    /// anything else is written.
    pub(crate) derived: Vec<(Pvbn, PageRef)>,
}

impl AsRef<Ledger> for Home {
    fn as_ref(&self) -> &Ledger {
        &self.ledger
    }
}

impl AsMut<Ledger> for Home {
    fn as_mut(&mut self) -> &mut Ledger {
        &mut self.ledger
    }
}

impl Home {
    /// Returns a home with no work under way and no known volume.
    pub(crate) fn new(aggregate: Arc<Aggregate>, fs: FileSystem, mender: Mender) -> Home {
        Home {
            aggregate,
            fs,
            volumes: BTreeMap::new(),
            host: Host::default(),
            requests: VecDeque::new(),
            arrived: VecDeque::new(),
            run: None,
            ledger: Ledger::default(),
            replaying: None,
            is_pressed: false,
            last_begin: 0,
            last_reclaim: 0,
            leaving: Leaving::default(),
            is_entering: false,
            preparing: None,
            prepare_after: 0,
            search_wanted: false,
            now: 0,
            wall_seconds: 0,
            punching: None,
            catching_up: CatchUp::default(),
            scrub: Scrub::default(),
            gardener: Gardener::default(),
            removing: None,
            removed: Vec::new(),
            turn: None,
            cleans_on_demand: false,
            moves_unshare: false,
            healing: Healing::default(),
            mender,
            installed: Vec::new(),
            repair: None,
            derived: Vec::new(),
        }
    }

    /// The consistency point under way.
    pub(crate) fn under_way(&mut self) -> &mut Run {
        self.run.as_mut().expect("under way")
    }

    /// The volumes that the consistency point under way works on, as targets of background passes.
    pub(crate) fn planned(&self) -> impl Iterator<Item = Target> {
        let run = self.run.as_ref().expect("under way");
        run.active.iter().map(|id| Target::Volume(*id))
    }

    /// Begins a repair; a repair under way continues.
    pub(crate) fn start_repair(&mut self) {
        if self.repair.is_none() {
            let total = self.derivable_blocks();
            self.repair = Some(Repair::new(&self.aggregate, total, self.wall_seconds));
        }
    }

    /// Begins a scrub, or lets one go on: one that is paused, or `earlier`.
    pub(crate) fn start_scrub(&mut self, earlier: Option<EarlierScrub>) {
        let extents = self.aggregate.media.layout().config.extents.clone();
        self.scrub.start(extents, self.wall_seconds, earlier);
        self.aggregate.set_scrub(self.scrub.info());
    }

    /// Lets a scrub wait.
    pub(crate) fn pause_scrub(&mut self) {
        self.scrub.pause();
        self.aggregate.set_scrub(self.scrub.info());
    }

    /// Begins to empty the areas of which at least so many percent are free.
    pub(crate) fn start_cleaning(&mut self, least_free_percent: u8) {
        let Home { gardener, fs, .. } = self;
        gardener.start(fs, least_free_percent, self.wall_seconds);
        self.tell_garden();
    }

    /// Begins to count the blocks in use of all areas. If that is under way, it begins anew.
    pub(crate) fn start_space_map(&mut self) {
        let config = &self.aggregate.media.layout().config;
        let fs = &self.fs;
        let extent = |(index, extent): (usize, &Extent)| ExtentMap {
            member: extent.member,
            first_dbn: extent.first_dbn.0,
            used: vec![None; usize::try_from(fs.areas[index].count()).expect("in memory")],
        };
        let extents = config.extents.iter().enumerate().map(extent).collect();
        let (ends, groups) = (fs.areas_to_pass(), fs.rows.clone());
        let count = SpaceCount::new(fs.area_blocks, extents, ends, groups);
        self.gardener.start_space_map(count, self.wall_seconds);
        self.tell_garden();
    }

    /// Ends all of the gardener's work. What was moved stays where it is now.
    pub(crate) fn stop_gardening(&mut self) {
        let seconds = self.wall_seconds;
        self.gardener.stop(seconds);
        self.gardener.end_layout(GardeningState::Stopped, seconds);
        self.gardener.stop_space_map();
        self.stop_rebalance();
    }

    /// Ends a rebalance, if there is one.
    pub(crate) fn stop_rebalance(&mut self) {
        let seconds = self.wall_seconds;
        self.gardener
            .end_rebalance(GardeningState::Stopped, seconds);
        self.fs.crowded.clear();
        self.tell_garden();
    }

    /// The gardener moves blocks in the consistency point under way.
    pub(crate) fn begin_bite(&mut self) {
        if self.gardener.begin_bite(self.now) {
            self.aggregate.media.pace.set_busy(Job::Garden, true);
        }
    }

    /// The consistency point is over: if it moved blocks for the gardener, that rests.
    pub(crate) fn end_bite(&mut self) {
        if let Some(took) = self.gardener.end_bite(self.now) {
            let pace = &self.aggregate.media.pace;
            let rest = pace.rest(Job::Garden, took, self.now);
            pace.set_busy(Job::Garden, false);
            self.gardener.rest_until(self.now + rest);
        }
    }

    /// Tells people what the gardener does.
    pub(crate) fn tell_garden(&self) {
        self.aggregate.set_garden(self.gardener.info().clone());
    }

    /// Tells people of a removal.
    pub(crate) fn tell_removal(&self) {
        let info = self.removing.as_ref().map(|removing| removing.info.clone());
        self.aggregate.set_removal(info);
    }

    /// Ends it early.
    pub(crate) fn stop_repair(&mut self) {
        if let Some(repair) = self.repair.take() {
            repair.tell_stopped(self.wall_seconds, None);
        }
    }

    /// About how many blocks a repair reads. Indirect blocks of containers are taken for full; of
    /// snapshots only the maps are counted whose sizes are known.
    fn derivable_blocks(&self) -> u64 {
        let of_file = |file: &File| match file.inode.kind == Kind::Container {
            true => file.inode.blocks.div_ceil(SPAN + 1),
            false => file.inode.blocks,
        };
        let whole = self.fs.files.values().map(of_file).sum::<u64>();
        let of_volume = |volume: &VolumeHome| {
            let files = volume.fs.files.values();
            let metafiles = files.filter(|file| file.inode.kind == Kind::Metafile);
            let snapshots = volume.fs.snapshots.all();
            let of_record = |it: &SnapshotRecord| it.inode_file.blocks + it.active_map.blocks;
            metafiles.map(of_file).sum::<u64>()
                + volume.fs.inode_file.inode.blocks
                + snapshots.map(of_record).sum::<u64>()
        };
        whole + self.fs.inode_file.inode.blocks + self.volumes.values().map(of_volume).sum::<u64>()
    }

    /// Stops a consistency point under way after the aggregate has halted: its frozen overlays stay
    /// readable, and its unwritten blocks are not needed.
    pub(crate) fn abandon_run(&mut self) {
        if let Some(run) = &mut self.run {
            run.writer.abandon();
            run.stripes = Stripes::default();
            self.aggregate.media.set_writing_stripes(false);
        }
    }
}
