//! Site: one volume of the consistency point under way, as a step borrows it.
//!
//! A volume's blocks are leaves of its container, which is a file of the aggregate. So what a step
//! does to a volume takes both file systems, the host's space and the writer. A [`Site`] has all of
//! them, taken once in a step. Beside it stays what clients will be shown ([`Publication`]).
//!
//! 1. A block of a volume has a vvbn, a pvbn, a slot in the container and a context. They are
//!    entered together ([`Site::enter`]).
//! 2. As everywhere in a consistency point, steps that may stop (`ensure`, `prepare_…`) come before
//!    steps that cannot.

use std::sync::Arc;

use everglade_env::PageRef;
use everglade_format::{Context, CpNumber, FileId, Owner, Pointer, Pvbn, Tag, Vvbn};

use crate::alloc::blocks::{Purpose, free_virtual, prepare_free_virtual};
use crate::alloc::filesystem::FileSystem;
use crate::alloc::references::{prepare_release, release};
use crate::home::aggregate::Home;
use crate::home::publication::Publication;
use crate::home::stage::Stage;
use crate::home::volume::VolumeHome;
use crate::media::host::Host;
use crate::media::writer::Writer;
use crate::pool::aggregate::Aggregate;
use crate::pool::trigger::CpBlock;
use crate::read::load::{LoadCx, Stop};
use crate::tree::{File, Lost};

/// See the module's documentation.
pub(crate) struct Site<'a> {
    pub(crate) aggregate: &'a Arc<Aggregate>,
    /// The aggregate's file system, which has the container.
    pub(crate) below: &'a mut FileSystem,
    /// The volume, and so its container.
    pub(crate) id: FileId,
    pub(crate) volume: &'a mut VolumeHome,
    pub(crate) host: &'a mut Host,
    pub(crate) writer: &'a mut Writer,
    /// What cleaning has let go of the volume.
    pub(crate) stage: &'a mut Stage,
    /// The consistency point under way.
    pub(crate) cp: CpNumber,
}

impl Home {
    /// A volume that the consistency point under way works on.
    pub(crate) fn site(&mut self, id: FileId) -> (Site<'_>, &mut Publication) {
        let run = self.run.as_mut().expect("a consistency point is under way");
        let volume = self.volumes.get_mut(&id);
        let site = Site {
            aggregate: &self.aggregate,
            below: &mut self.fs,
            id,
            volume: volume.expect("planned and active volumes exist"),
            host: &mut self.host,
            writer: &mut run.writer,
            stage: run.stages.entry(id).or_default(),
            cp: run.number,
        };
        (site, &mut run.publication)
    }
}

impl Site<'_> {
    /// Waits while the devices have too much to write.
    pub(crate) fn throttle(&self) -> Result<(), Stop> {
        self.writer.throttle(&self.aggregate.media)
    }

    /// A file of the volume.
    pub(crate) fn file(&mut self, id: FileId) -> &mut File {
        self.volume.fs.file(id)
    }

    /// Takes note of blocks of a LUN that became lost.
    pub(crate) fn note_lost(&mut self, lun: FileId, lost: Vec<Lost>) {
        self.volume.note_lost(self.aggregate, lun, lost);
    }

    /// Makes at least `count` vvbns and pvbns ready to take.
    pub(crate) fn ensure(
        &mut self,
        cx: &mut LoadCx<'_>,
        purpose: Purpose,
        count: usize,
    ) -> Result<(), Stop> {
        let fs = &mut self.volume.fs;
        fs.ensure(Some(self.below), cx, self.host, purpose, count)?;
        self.below.ensure(None, cx, self.host, purpose, count)
    }

    /// A new vvbn on a new pvbn, tag still missing. Both were ensured.
    pub(crate) fn take(&mut self, purpose: Purpose) -> Pointer {
        Pointer {
            vvbn: Vvbn(self.volume.fs.take(purpose)),
            pvbn: Pvbn(self.below.take(purpose)),
            tag: Tag(0),
        }
    }

    /// A place that a cleaner's supply had ([`crate::alloc::supply`]) is in use.
    pub(crate) fn mark_used(&mut self, place: Pointer) {
        self.volume.fs.mark_used(place.vvbn.0);
        self.below.mark_used(place.pvbn.0);
    }

    /// Load phase of [`Site::free`].
    pub(crate) fn prepare_free(&mut self, cx: &mut LoadCx<'_>, vvbn: Vvbn) -> Result<(), Stop> {
        prepare_free_virtual(self.below, &mut self.volume.fs, self.id, cx, vvbn)
    }

    /// Frees a block of the volume's active image.
    pub(crate) fn free(&mut self, vvbn: Vvbn) {
        free_virtual(self.below, &mut self.volume.fs, self.id, vvbn);
    }

    /// Load phase of [`Site::release`].
    pub(crate) fn prepare_release(&mut self, cx: &mut LoadCx<'_>, vvbn: Vvbn) -> Result<(), Stop> {
        prepare_release(self.below, &mut self.volume.fs, self.id, cx, vvbn)
    }

    /// A leaf does not refer to a block any more.
    pub(crate) fn release(&mut self, vvbn: Vvbn) {
        release(self.below, &mut self.volume.fs, self.id, vvbn);
    }

    /// Enters a sealed node of the volume, and writes it.
    pub(crate) fn record(&mut self, cx: &mut LoadCx<'_>, pointer: Pointer, page: PageRef) {
        cx.keep(pointer, page.clone());
        self.aggregate
            .counts
            .count_blocks(CpBlock::VolumeMetadata, 1);
        self.enter(pointer, page);
    }

    /// Enters a block with a new pvbn into the container and the context map, and writes it.
    pub(crate) fn enter(&mut self, pointer: Pointer, page: PageRef) {
        let slot = Pointer {
            vvbn: Vvbn(0),
            ..pointer
        };
        let container = self.below.file(self.id);
        let old = container
            .set_leaf(pointer.vvbn.0, slot)
            .expect("the slot was a hole");
        assert!(
            old.is_hole(),
            "vvbn {} is written twice (it is write-once)",
            pointer.vvbn
        );
        let owner = Owner::Container {
            vvbn: pointer.vvbn.0,
        };
        self.below.set_context(
            pointer.pvbn,
            Context {
                file: self.id,
                owner,
                tag: pointer.tag,
            },
        );
        self.writer.push(&self.aggregate.media, pointer.pvbn, page);
    }
}
