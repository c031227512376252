//! Mending: a damaged block of metadata is derived again from the blocks that agree with it. The
//! step of a consistency point, or the mount, that needs the block waits meanwhile.
//!
//! ```text
//! a step, or a mount, stops: Damaged ──▶ derived, in many steps
//!   ├──▶ written in its place ──▶ the step runs again
//!   └──▶ it cannot be derived ──▶ the step fails with its error
//! ```
//!
//! | block | derived from | file |
//! | --- | --- | --- |
//! | active map: aggregate, volume, snapshot | the trees of that image | [`leaves`] |
//! | refcount file | the trees of LUNs | [`leaves`] |
//! | indirect block of an active map or refcount file of a volume | what its leaves have to say | [`below`] |
//! | indirect block of the aggregate (of containers, maps, side files, the inode file) | the context map | [`indirect`] |
//! | context map | the trees of the aggregate | [`leaves`] |
//! | summary map | the maps of the snapshots | [`summary`] |
//! | indirect block of an overflow file | what is in use and belongs to nobody | [`orphans`] |
//!
//! **How it is known to be right.** For the blocks in the first four rows only one content agrees
//! with the rest of the image. The derived content is compared with the tag in the pointer to the
//! damaged block, and dropped if its tag differs. A content that passes is written in the place of
//! the damaged block, and nothing else changes: no pointer, no count, no state of the running
//! consistency point. A power cut during this write leaves the block damaged or mended. The content
//! of the last three rows cannot be derived to the bit, only its meaning. So the running
//! consistency point takes the derived content for that of the block, and writes it elsewhere, like
//! any block that it changes ([`crate::tree::File::install`]).
//!
//! 1. Everything is read from the last committed consistency point ([`survey`], [`view`]), never
//!    from the memory of the running one.
//! 2. A block is derived from whole blocks only. If one of these is damaged as well, it is mended
//!    first, if that is possible.
//! 3. Memory is bounded: a survey keeps the indirect blocks that it has not read yet, a search for
//!    orphans a window of 16 MiB, and an indirect block of a map its 255 leaves.
//! 4. A step whose block cannot be derived fails with its own error, and with the reason why the
//!    block could not be derived.

mod below;
mod indirect;
mod leaves;
mod orphans;
pub(crate) mod repair;
mod summary;
mod survey;
mod view;

use everglade_env::{Page, PageRef};
use everglade_format::indirect::BlockKind;
use everglade_format::metafile::{
    ACTIVE_MAP, CONTEXT_MAP, DIRECTORY, FIRST_FILE, OVERFLOW, REFCOUNTS,
};
use everglade_format::{
    CpNumber, FileId, Header, IndirectMut, Inode, Kind, Layer, Pointer, Pvbn, SPAN, Tag, Vvbn,
};

use crate::pool::aggregate::Aggregate;
use crate::read::load::{BlockName, Damaged, LoadCx, Stop};
use crate::tree::names::Names;
use below::Below;
use everglade_format::TagKey;
use indirect::Children;
use leaves::{LeafKind, Leaves};
use orphans::Orphans;
use std::sync::Arc;
use summary::Summary;
use view::View;

/// Most blocks that are mended at a time, each because the one before needs it.
const DEPTH_MAX: usize = 16;

/// The block that is being mended, and the stop that led to it.
pub(crate) struct Mender {
    aggregate: Arc<Aggregate>,
    /// Inode of the inode file of the aggregate, as it was committed, and with which consistency
    /// point.
    committed: (Inode, CpNumber),
    /// Each is needed for the one before.
    stack: Vec<Mending>,
    /// Blocks that the running consistency point writes elsewhere: where they are they stay
    /// damaged.
    installed: Vec<Pointer>,
}

struct Mending {
    damaged: Damaged,
    name: BlockName,
    work: Work,
}

enum Work {
    /// The way to mend the block is not chosen yet.
    Plan,
    Leaves(Box<Leaves>),
    Summary(Summary),
    Orphans(Box<Orphans>),
    Children(Box<Children>),
    Below(Box<Below>),
    /// This page has the right content, and will be written in place of the damaged block.
    Put(PageRef),
    /// The derived block is being written.
    Writing(PageRef, Pvbn),
}

/// The result of a step of mending.
pub(crate) enum MendStep {
    /// There is more to do.
    Again,
    /// This is to be written; then [`Mender::written`] is called.
    Write(Pvbn, PageRef),
    /// The consistency point is to take this block for the damaged one.
    Install(BlockName, PageRef),
}

impl Mender {
    /// For what this consistency point committed.
    pub(crate) fn new(aggregate: &Arc<Aggregate>, inode_file: Inode, cp: CpNumber) -> Mender {
        Mender {
            aggregate: aggregate.clone(),
            committed: (inode_file, cp),
            stack: Vec::new(),
            installed: Vec::new(),
        }
    }

    /// The inode of the aggregate's inode file, as it was committed.
    pub(crate) fn committed(&self) -> &Inode {
        &self.committed.0
    }

    /// Something is being mended.
    pub(crate) fn is_busy(&self) -> bool {
        !self.stack.is_empty()
    }

    /// Begins to mend the block that a step stopped for; the step is one of a consistency point or
    /// one that mends another block.
    ///
    /// # Errors
    /// The stop, if there is nothing to be done about it; then nothing is being mended any more.
    pub(crate) fn catch(&mut self, stop: Stop) -> Result<(), Stop> {
        let damaged = match stop {
            Stop::Damaged(damaged) => damaged,
            stop => {
                if matches!(stop, Stop::Failed(_)) {
                    self.stack.clear();
                }
                return Err(stop);
            }
        };
        let is_known = |mending: &Mending| mending.damaged.pointer == damaged.pointer;
        let can_begin = match damaged.name {
            Some(name) => is_mendable(name) && damaged.pointer.has_block(),
            None => false,
        };
        let is_new = !self.stack.iter().any(is_known)
            && !self.installed.contains(&damaged.pointer)
            && self.stack.len() < DEPTH_MAX;
        match damaged.name {
            Some(name) if can_begin && is_new => {
                self.stack.push(Mending {
                    damaged: *damaged,
                    name,
                    work: Work::Plan,
                });
                Ok(())
            }
            _ if self.is_busy() => Err(self.give_up(&damaged.reason)),
            _ => Err(Stop::Damaged(damaged)),
        }
    }

    /// Begins to mend a block that is damaged on the device and known in memory.
    pub(crate) fn put_back(&mut self, damaged: Damaged, name: BlockName, page: PageRef) {
        let work = Work::Put(page);
        self.stack.push(Mending {
            damaged,
            name,
            work,
        });
    }

    /// Gives up on the damaged block and returns the stop for its reader.
    fn give_up(&mut self, reason: &str) -> Stop {
        let mut all = std::mem::take(&mut self.stack);
        let mut first = all.swap_remove(0).damaged;
        first.reason = format!("{}; it could not be derived: {reason}", first.reason);
        Stop::Damaged(Box::new(first))
    }

    /// Does a little.
    pub(crate) fn step(&mut self, cx: &mut LoadCx<'_>) -> Result<MendStep, Stop> {
        let (inode_file, cp) = &self.committed;
        let aggregate = self.aggregate.clone();
        let view = View {
            aggregate: &aggregate,
            inode_file,
        };
        let mending = self.stack.last_mut().expect("something is being mended");
        let (name, pointer) = (mending.name, mending.damaged.pointer);
        match &mut mending.work {
            Work::Plan => mending.work = plan(&view, cx, name, pointer)?,
            Work::Leaves(leaves) => {
                if leaves.step(cx)? {
                    let page = leaves.take().pop().expect("one was asked for");
                    if name.file == CONTEXT_MAP && name.volume.is_none() {
                        return Ok(self.install(name, page));
                    }
                    mending.work = compare(&aggregate.key, page, pointer.tag)?;
                }
            }
            Work::Summary(summary) => {
                if let Some(page) = summary.step(&view, cx)? {
                    return Ok(self.install(name, page));
                }
            }
            Work::Orphans(orphans) => {
                if orphans.step(&view, cx)? {
                    let found = std::mem::take(&mut orphans.found);
                    let page = overflow(name, &found);
                    return Ok(self.install(name, page));
                }
            }
            Work::Children(children) => {
                if let Some(page) = children.step(&view, cx, *cp)? {
                    mending.work = compare(&aggregate.key, page, pointer.tag)?;
                }
            }
            Work::Below(below) => {
                if let Some(page) = below.step(&view, cx, *cp)? {
                    mending.work = compare(&aggregate.key, page, pointer.tag)?;
                }
            }
            Work::Put(page) => {
                let pvbn = where_it_is(&view, cx, name.volume, pointer)?;
                let page = page.clone();
                mending.work = Work::Writing(page.clone(), pvbn);
                return Ok(MendStep::Write(pvbn, page));
            }
            Work::Writing(..) => unreachable!("nobody goes on before it is written"),
        }
        Ok(MendStep::Again)
    }

    /// The consistency point takes a block that it will write elsewhere.
    fn install(&mut self, name: BlockName, page: Page) -> MendStep {
        let done = self.stack.pop().expect("it was being mended");
        self.aggregate.mended.record(name, &done.damaged);
        self.installed.push(done.damaged.pointer);
        MendStep::Install(name, page.freeze())
    }

    /// The derived block is on the device. From now on the steps that wait for the block find it.
    pub(crate) fn written(&mut self, cx: &LoadCx<'_>) {
        let done = self.stack.pop().expect("it was being mended");
        let Work::Writing(page, pvbn) = done.work else {
            unreachable!("it was being written")
        };
        let pointer = done.damaged.pointer;
        cx.keep(pointer, page.clone());
        cx.keep(Pointer { pvbn, ..pointer }, page);
        self.aggregate.mended.record(done.name, &done.damaged);
    }

    /// The pointer to the block that is being mended.
    pub(crate) fn pointer(&self) -> Pointer {
        let last = self.stack.last().expect("something is being mended");
        last.damaged.pointer
    }

    /// True if the block that was mended last is being written.
    pub(crate) fn is_writing(&self) -> bool {
        let last = self.stack.last();
        last.is_some_and(|mending| matches!(mending.work, Work::Writing(..)))
    }
}

/// True for blocks that may be derived. Obstacles are found later.
fn is_mendable(name: BlockName) -> bool {
    let BlockName { file, level, .. } = name;
    match (name.volume, level) {
        (None, 0) => [ACTIVE_MAP, CONTEXT_MAP].contains(&file) || file >= FIRST_FILE,
        (None, _) => indirect::is_possible(file) || level == 1,
        (Some(_), 0) => [ACTIVE_MAP, REFCOUNTS].contains(&file),
        (Some(_), 1) => [ACTIVE_MAP, OVERFLOW, REFCOUNTS].contains(&file),
        (Some(_), _) => false,
    }
}

/// Chooses how the damaged block at a place is derived: from which blocks, and by which work.
fn plan(
    view: &View<'_>,
    cx: &mut LoadCx<'_>,
    name: BlockName,
    pointer: Pointer,
) -> Result<Work, Stop> {
    let BlockName {
        file, level, index, ..
    } = name;
    let one = (index, 1);
    let work = match (name.volume, level) {
        (None, 0) if file == ACTIVE_MAP => {
            let what = LeafKind::Bits(Layer::Aggregate);
            Work::Leaves(Box::new(Leaves::new(
                what,
                one,
                view.inode_file,
                None,
                None,
            )))
        }
        (None, 0) if file == CONTEXT_MAP => {
            must_be_committed(view, cx, name, pointer)?;
            Work::Leaves(Box::new(Leaves::new(
                LeafKind::Contexts,
                one,
                view.inode_file,
                None,
                None,
            )))
        }
        (None, 0) => {
            must_be_committed(view, cx, name, pointer)?;
            Work::Summary(Summary::new(volume_of_summary(view, cx, file)?, index))
        }
        (None, _) if file == OVERFLOW => {
            must_be_committed(view, cx, name, pointer)?;
            let skip = Some((file, (level, index)));
            Work::Orphans(Box::new(Orphans::new(view.inode_file, None, skip)))
        }
        (None, _) => Work::Children(Box::new(Children::new(view, name, pointer.tag))),
        (Some(volume), _) if file != OVERFLOW => {
            let Some(image) = view.image_with(cx, name, pointer)? else {
                return Err(Stop::damaged("no image has this block".to_owned()));
            };
            let what = match file {
                ACTIVE_MAP => LeafKind::Bits(Layer::Volume),
                _ => LeafKind::Counts,
            };
            match level {
                0 => Work::Leaves(Box::new(Leaves::new(what, one, &image, Some(volume), None))),
                _ => Work::Below(Box::new(Below::new(&image, volume, name, pointer.tag))),
            }
        }
        (Some(volume), _) => {
            must_be_committed(view, cx, name, pointer)?;
            let image = view.superblock(cx, volume)?.inode_file;
            let skip = Some((file, (level, index)));
            Work::Orphans(Box::new(Orphans::new(&image, Some(volume), skip)))
        }
    };
    Ok(work)
}

/// A derived block has its content of the last committed consistency point, so the damaged block
/// must be of that consistency point.
fn must_be_committed(
    view: &View<'_>,
    cx: &mut LoadCx<'_>,
    name: BlockName,
    pointer: Pointer,
) -> Result<(), Stop> {
    let file = match name.volume {
        None => view.file(cx, name.file)?,
        Some(volume) => {
            let image = view.superblock(cx, volume)?.inode_file;
            view.file_of(cx, volume, &image, name.file)?
        }
    };
    let found = file.pointer(cx, name.level, name.index)?;
    match found == pointer {
        true => Ok(()),
        false => Err(Stop::damaged(
            "the last consistency point does not have this block".to_owned(),
        )),
    }
}

/// The volume whose summary map a file is.
fn volume_of_summary(view: &View<'_>, cx: &mut LoadCx<'_>, id: FileId) -> Result<FileId, Stop> {
    let file = view.file(cx, id)?;
    if file.inode.kind == Kind::Summary {
        let names = Names::load(&view.file(cx, DIRECTORY)?, cx)?;
        for entry in names.iter() {
            let files = view.superblock(cx, entry.file)?.snapshots.files;
            if files.is_some_and(|(summary, _)| summary == id) {
                return Ok(entry.file);
            }
        }
    }
    Err(Stop::damaged(
        "no other block has this information".to_owned(),
    ))
}

/// The place of the damaged block; the one in a volume's pointer may be outdated.
fn where_it_is(
    view: &View<'_>,
    cx: &mut LoadCx<'_>,
    volume: Option<FileId>,
    pointer: Pointer,
) -> Result<Pvbn, Stop> {
    let Some(volume) = volume else {
        return Ok(pointer.pvbn);
    };
    match view.slot(cx, volume, pointer.vvbn)? {
        Some((pvbn, tag)) if tag == pointer.tag => Ok(pvbn),
        _ => Err(Stop::damaged(
            "the container does not say where it is".to_owned(),
        )),
    }
}

/// Accepts a derived block only if it has the expected tag.
fn compare(key: &TagKey, page: Page, tag: Tag) -> Result<Work, Stop> {
    match key.tag(&page) == tag {
        true => Ok(Work::Put(page.freeze())),
        false => Err(Stop::damaged(
            "what was derived from the trees has another tag".to_owned(),
        )),
    }
}

/// An indirect block of an overflow file that has these blocks.
fn overflow(name: BlockName, numbers: &[u64]) -> Page {
    let layer = name.layer();
    let mut page = Page::zeroed();
    let header = Header {
        kind: BlockKind::indirect(layer),
        level: name.level,
        cp: CpNumber(0),
        file: name.file,
        index: u32::try_from(name.index).unwrap_or(u32::MAX),
    };
    header.encode(&mut page);
    // More than one block can name were leaked before, and stay so.
    for (slot, number) in (0..SPAN).zip(numbers) {
        let pointer = match layer {
            Layer::Aggregate => Pointer {
                pvbn: Pvbn(*number),
                ..Pointer::HOLE
            },
            Layer::Volume => Pointer {
                vvbn: Vvbn(*number),
                pvbn: Pvbn(1),
                ..Pointer::HOLE
            },
        };
        IndirectMut(&mut page).set(slot, layer, pointer);
    }
    page
}
