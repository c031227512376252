//! Scrub: everything that may be derived is read, so that what is damaged is mended although nobody needed it yet.
//!
//! It is the first phase of a consistency point that an administrator asked for ([`crate::change::Change::Repair`]), and
//! goes through what was committed before: the aggregate's files, then of each volume the metafiles of the active image,
//! and the maps of its snapshots. Trees of LUNs and their data are left out: they cannot be derived, and everybody who
//! reads them finds out. What is damaged stops the step that reads it, like any other; what cannot be derived is
//! listed, and passed over.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use everglade_format::inode::INODES_PER_BLOCK;
use everglade_format::metafile::{ACTIVE_MAP, DIRECTORY, INODE_FILE, OVERFLOW, REFCOUNTS};
use everglade_format::snapshot::State;
use everglade_format::{FileId, Indirect, Inode, Kind, Layer, Pointer, SPAN};

use super::view::View;
use crate::pool::aggregate::Aggregate;
use crate::read::load::{Damaged, Gather, LoadCx, Place, Stop};
use crate::tree::names::Names;

/// Blocks read in one step.
const STEP_BLOCKS: usize = 64;

/// Files of one image.
struct Image {
    volume: Option<FileId>,
    inode_file: Inode,
    /// Only its maps: the image of a snapshot.
    is_snapshot: bool,
}

/// See the module's documentation.
pub(crate) struct Scrub {
    aggregate: Arc<Aggregate>,
    committed: Inode,
    images: VecDeque<Image>,
    now: Option<Image>,
    /// Blocks that are yet to be read, and what their files are.
    left: Vec<(Kind, Place, Pointer)>,
    /// Volumes were listed.
    has_volumes: bool,
    /// Blocks that were damaged: they are mended by now, or never will be.
    tried: BTreeSet<(u64, u64)>,
    /// Blocks that were read.
    pub(crate) done: u64,
    /// What cannot be derived.
    pub(crate) given_up: Vec<String>,
}

impl Scrub {
    /// Of what was committed, by the inode of the aggregate's inode file.
    pub(crate) fn new(aggregate: &Arc<Aggregate>, committed: Inode) -> Scrub {
        let whole = Image {
            volume: None,
            inode_file: committed.clone(),
            is_snapshot: false,
        };
        Scrub {
            aggregate: aggregate.clone(),
            committed,
            images: [whole].into(),
            now: None,
            left: Vec::new(),
            has_volumes: false,
            tried: BTreeSet::new(),
            done: 0,
            given_up: Vec::new(),
        }
    }

    /// A damaged block was met, and will be mended or not.
    pub(crate) fn note(&mut self, pointer: Pointer) {
        self.tried.insert((pointer.pvbn.0, pointer.tag.0));
    }

    /// It is not mended.
    pub(crate) fn give_up(&mut self, damaged: &Damaged) {
        self.note(damaged.pointer);
        let reason = &damaged.reason;
        self.given_up.push(match damaged.place {
            Some(place) => format!("{place}: {reason}"),
            None => reason.clone(),
        });
    }

    /// Reads some. True when all was read.
    pub(crate) fn step(&mut self, cx: &mut LoadCx<'_>) -> Result<bool, Stop> {
        if self.left.is_empty() {
            return self.next_image(cx);
        }
        let from = self.left.len().saturating_sub(STEP_BLOCKS);
        let mut gather = Gather::default();
        let mut pages = Vec::new();
        for (kind, place, pointer) in &self.left[from..] {
            match gather.add(cx.page_or_damage(*pointer)) {
                Some(Ok(page)) => pages.push((*kind, *place, page)),
                Some(Err(reason)) if !self.tried.contains(&(pointer.pvbn.0, pointer.tag.0)) => {
                    gather.add::<()>(Err(Stop::damaged(reason).at(*place, *pointer)));
                }
                _ => {}
            }
        }
        gather.finish()?;
        self.done += (self.left.len() - from) as u64;
        self.left.truncate(from);
        for (kind, place, page) in pages {
            if place.level > 0 {
                let layer = layer_of(place.volume);
                for slot in 0..SPAN {
                    let child = Indirect(&page).pointer(slot, layer)?;
                    let below = Place {
                        level: place.level - 1,
                        index: place.index * SPAN + slot,
                        ..place
                    };
                    self.add(kind, below, child);
                }
            } else if place.file == INODE_FILE {
                for slot in 0..INODES_PER_BLOCK {
                    let id = place.index * INODES_PER_BLOCK + slot;
                    let id = FileId(u32::try_from(id).unwrap_or(u32::MAX));
                    let slot = usize::try_from(slot).expect("below 14");
                    let inode = Inode::decode_from(&page, slot, id, layer_of(place.volume))?;
                    if let Some(inode) = inode {
                        self.add_file(place.volume, &inode);
                    }
                }
            }
        }
        Ok(false)
    }

    /// A file of the present image.
    fn add_file(&mut self, volume: Option<FileId>, inode: &Inode) {
        let is_snapshot = self.now.as_ref().is_some_and(|image| image.is_snapshot);
        let is_wanted = match (volume, is_snapshot) {
            (None, _) => true,
            (Some(_), false) => inode.kind == Kind::Metafile,
            (Some(_), true) => [ACTIVE_MAP, REFCOUNTS].contains(&inode.id),
        };
        if is_wanted {
            let root = Place {
                volume,
                file: inode.id,
                level: inode.levels,
                index: 0,
            };
            self.add(inode.kind, root, inode.root);
        }
    }

    /// A block, unless it is one of data, or of what is merely owned.
    fn add(&mut self, kind: Kind, place: Place, pointer: Pointer) {
        let is_data = kind == Kind::Container || place.file == OVERFLOW;
        if pointer.has_block() && (place.level > 0 || !is_data) {
            self.left.push((kind, place, pointer));
        }
    }

    fn next_image(&mut self, cx: &mut LoadCx<'_>) -> Result<bool, Stop> {
        if self.images.is_empty() && !self.has_volumes {
            let found = self.volumes(cx);
            let is_tried = |pointer: Pointer| {
                pointer.is_hole() || self.tried.contains(&(pointer.pvbn.0, pointer.tag.0))
            };
            self.has_volumes = match &found {
                // What cannot be listed is left out.
                Err(Stop::Damaged(damaged)) => is_tried(damaged.pointer),
                Err(_) => false,
                Ok(_) => true,
            };
            self.images = found?;
        }
        let Some(image) = self.images.pop_front() else {
            return Ok(true);
        };
        let root = Place {
            volume: image.volume,
            file: INODE_FILE,
            level: image.inode_file.levels,
            index: 0,
        };
        let pointer = image.inode_file.root;
        self.now = Some(image);
        self.add(Kind::Metafile, root, pointer);
        Ok(false)
    }

    /// The images of all volumes that have names.
    fn volumes(&self, cx: &mut LoadCx<'_>) -> Result<VecDeque<Image>, Stop> {
        let view = View {
            aggregate: &self.aggregate,
            inode_file: &self.committed,
        };
        let mut images = VecDeque::new();
        if self.committed.block_count() == 0 {
            return Ok(images);
        }
        let names = Names::load(&view.file(cx, DIRECTORY)?, cx)?;
        let mut gather = Gather::default();
        for entry in names.iter() {
            let volume = Some(entry.file);
            let Some(superblock) = gather.add(view.superblock(cx, entry.file)) else {
                continue;
            };
            images.push_back(Image {
                volume,
                inode_file: superblock.inode_file.clone(),
                is_snapshot: false,
            });
            let Some(snapshots) = gather.add(view.snapshots(cx, &superblock)) else {
                continue;
            };
            for record in snapshots.all().filter(|it| it.state != State::Gone) {
                images.push_back(Image {
                    volume,
                    inode_file: record.inode_file.clone(),
                    is_snapshot: true,
                });
            }
        }
        gather.finish()?;
        Ok(images)
    }
}

fn layer_of(volume: Option<FileId>) -> Layer {
    match volume {
        None => Layer::Aggregate,
        Some(_) => Layer::Volume,
    }
}
