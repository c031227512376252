//! One consistency point under way: its phase, its plan, and the state it will publish.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::sync::Arc;

use everglade_env::{DeviceId, PageRef};
use everglade_format::{CpNumber, FileId, Seat, Superblock};
use everglade_journal::Position;

use crate::change::{Change, Error, Request};
use crate::home::publication::Publication;
use crate::home::stage::Stage;
use crate::home::stripes::Stripes;
use crate::media::Layout;
use crate::media::next::Turn;
use crate::media::writer::Writer;
use crate::pool::overlay::{Overlay, RegionId};
use crate::pool::space::{Space, WHOLE};
use crate::pool::volume::Volume;
use crate::read::load::BySpread;

/// One consistency point under way.
pub(crate) struct Run {
    pub(crate) number: CpNumber,
    /// Position in the superblock at which replay begins: after the operations of this consistency
    /// point.
    pub(crate) position: Position,
    /// The journal's operations before `position` are committed with it; not while they are
    /// replayed.
    pub(crate) frees_log: bool,
    pub(crate) phase: Phase,
    pub(crate) frozen: Vec<(Arc<Volume>, usize, Arc<Overlay>)>,
    pub(crate) plan: VecDeque<Job>,
    /// Number of pages of the frozen overlays cleaned so far.
    pub(crate) cleaned: u64,
    /// Volumes that have anything to write.
    pub(crate) active: BTreeSet<FileId>,
    /// LUNs that a step of cleaning takes at most.
    pub(crate) luns_together: usize,
    /// Blocks that cleaning has let go and that are still in use in the maps, by volume.
    pub(crate) stages: BTreeMap<FileId, Stage>,
    /// A stage with so many blocks is emptied before more is cleaned.
    pub(crate) stage_blocks: usize,
    /// New snapshots are scanned.
    pub(crate) create_scan: bool,
    pub(crate) publication: Publication,
    pub(crate) answers: Vec<(Request, Result<(), Error>)>,
    pub(crate) writer: Writer,
    /// Writes of parity groups.
    pub(crate) stripes: Stripes,
    /// The layout whose config records are being written, because a drive was lost.
    pub(crate) recorded: Option<Layout>,
    /// The superblock that was written; it is written again if a drive is lost meanwhile.
    pub(crate) superblock: Option<Superblock>,
    /// Copies of a superblock or a config record that wait until the others are written.
    pub(crate) second: Vec<(DeviceId, u64, Vec<PageRef>)>,
    /// The seats of the last record that was written; none if none was.
    pub(crate) announced: Vec<Seat>,
    /// New places of blocks that were moved: their content is not there before it is written.
    pub(crate) moved: HashSet<u64, BySpread>,
    /// Blocks that one drive had wrong and that are written again in this consistency point.
    pub(crate) rewritten: usize,
    /// Devices of members that its freeze has removed.
    pub(crate) removed: Vec<DeviceId>,
    /// Nobody else writes labels meanwhile.
    pub(crate) turn: Option<Turn>,
    /// Blocks that deletions have yet to free after this consistency point.
    pub(crate) pending: u64,
    /// The aggregate stops after this one.
    pub(crate) last: bool,
}

impl Run {
    /// Returns a run with an empty plan.
    pub(crate) fn new(number: CpNumber, position: Position) -> Run {
        Run {
            number,
            position,
            frees_log: false,
            phase: Phase::Plan,
            frozen: Vec::new(),
            plan: VecDeque::new(),
            cleaned: 0,
            active: BTreeSet::new(),
            luns_together: 1,
            stages: BTreeMap::new(),
            stage_blocks: 1,
            create_scan: false,
            publication: Publication::default(),
            answers: Vec::new(),
            writer: Writer::default(),
            stripes: Stripes::default(),
            recorded: None,
            superblock: None,
            second: Vec::new(),
            announced: Vec::new(),
            moved: HashSet::default(),
            rewritten: 0,
            removed: Vec::new(),
            turn: None,
            pending: 0,
            last: false,
        }
    }

    /// Administrators' changes that were executed turned out to be impossible.
    pub(crate) fn refuse(&mut self, is_meant: impl Fn(&Change) -> bool, reason: &Error) {
        for (request, answer) in &mut self.answers {
            if is_meant(&request.change) && answer.is_ok() {
                *answer = Err(reason.clone());
            }
        }
    }

    /// The volume whose trees the present phase follows, if it is just one.
    pub(crate) fn volume(&self) -> Option<FileId> {
        match self.phase {
            Phase::Clean => self.plan.front().map(|job| job.volume),
            Phase::Stage => self.stages.keys().next().copied(),
            Phase::FinishVolume(volume, _) => Some(volume),
            _ => None,
        }
    }

    /// Returns the progress, of [`WHOLE`]: cleaning is most of the work, then the containers'
    /// blocks.
    pub(crate) fn progress(&self, space: &Space) -> u32 {
        const CLEANED: u32 = WHOLE - 6;
        match self.phase {
            Phase::Plan | Phase::Repair | Phase::Drain | Phase::Reclaim => 0,
            Phase::Clean => {
                let pages = space.dirty_in(self.number).max(1);
                let parts = self.cleaned * u64::from(CLEANED) / pages;
                u32::try_from(parts).map_or(CLEANED, |parts| parts.min(CLEANED))
            }
            Phase::Stage | Phase::FinishVolume(..) => CLEANED,
            Phase::FinishAggregate(Part::Prepare | Part::Place) => CLEANED + 1,
            Phase::FinishAggregate(Part::Maps) => CLEANED + 2,
            Phase::FinishAggregate(_) => CLEANED + 3,
            Phase::Write | Phase::Flush | Phase::Record | Phase::Superblock => CLEANED + 4,
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

/// The phase of a consistency point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Plan,
    /// A requested repair reads some of the derivable blocks ([`crate::mend::repair`]).
    Repair,
    Drain,
    Reclaim,
    Clean,
    /// What cleaning has let go becomes free in the maps.
    Stage,
    FinishVolume(FileId, Part),
    FinishAggregate(Part),
    Write,
    Flush,
    /// Config records that say which drives are behind, after a drive was lost.
    Record,
    Superblock,
    /// All writes are durable: publish inside the Aggregate affinity.
    Publish,
}

impl Phase {
    /// Name in metrics and messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Phase::Plan => "plan",
            Phase::Repair => "repair",
            Phase::Drain => "drain",
            Phase::Reclaim => "reclaim",
            Phase::Clean => "clean",
            Phase::Stage => "stage",
            Phase::FinishVolume(..) => "finish_volume",
            Phase::FinishAggregate(..) => "finish_aggregate",
            Phase::Write => "write",
            Phase::Flush => "flush",
            Phase::Record => "record",
            Phase::Superblock => "superblock",
            Phase::Publish => "publish",
        }
    }
}

/// Steps of finishing one file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Names go into directories, the inode file's blocks become changed, empty indirect blocks go.
    Prepare,
    /// Every changed block but those of the maps gets a place.
    Place,
    /// The maps get theirs.
    Maps,
    /// Tags and writes.
    Seal,
    /// A LUN is restored: its tree is compared with the snapshot's. Volumes only.
    Walk,
    /// The volume gets the other tree, and all phases run once more. Volumes only.
    Swap,
}

impl Part {
    pub(crate) fn first() -> Part {
        Part::Prepare
    }
}
