//! Redirects: finding blocks of volumes whose pointers may be out of date (B-10).
//!
//! A pointer in a volume's tree names a block twice: by its vvbn, which the container resolves and
//! which is always right, and by its pvbn, which saves a look-up in the container. When a clone is
//! split every block that it shared gets a new pvbn, and nothing in its trees changes. The old
//! pvbns still name the parent's blocks, which may be freed and reused. When an area is emptied,
//! its blocks get new pvbns, too. So the pvbn in a pointer is a hint, and a reader that finds other
//! content there asks the containers:
//!
//! ```text
//! page in memory ──no──▶ the volume was split, or blocks near it moved: ask its container
//!                        otherwise: read where the pointer says
//!                          └──other content──▶ ask the containers ──▶ read there
//! ```
//!
//! 1. A page that is found through any container has the tag of the pointer, so it has the right
//!    content, whichever container it was. The choice and the order of the containers only matter
//!    for speed.
//! 2. Only committed containers are asked. A block that moves in a consistency point stays readable
//!    in its old place until that consistency point is committed and the next one begins. So no
//!    reader needs uncommitted slots.
//! 3. For volumes that were never split, and are no clones of split volumes, redirects cost nothing
//!    until a pointer is stale. Segment cleaning ([`crate::background::evacuation`]) moves blocks
//!    of any volume, so the regions of containers in which it did are remembered in memory. There
//!    the container is asked first. After a restart, readers look where a pointer says and ask all
//!    containers when they find other content.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use everglade_env::lock::RwLock;
use everglade_format::{FileId, SPAN};

use crate::read::root::Root;

/// Committed containers, the latest made first: a clone comes before its parent.
#[derive(Default)]
pub(crate) struct Containers {
    /// Containers of volumes that were split.
    pub(crate) split: Vec<(FileId, Root)>,
    /// Containers of other volumes.
    pub(crate) others: Vec<(FileId, Root)>,
}

/// A volume whose pointers are followed.
#[derive(Clone, Copy)]
pub(crate) struct Followed<'a> {
    pub(crate) id: FileId,
    /// Most of its blocks are not where its pointers say.
    pub(crate) is_moved: &'a AtomicBool,
}

impl Followed<'_> {
    pub(crate) fn is_moved(self) -> bool {
        self.is_moved.load(Ordering::Relaxed)
    }
}

/// Where blocks have moved since the aggregate was opened: a bit for each level-1 block of a
/// container. It only saves reads, so it may be incomplete, as it is after a restart; and blocks
/// may have moved that share a level-1 block with it.
#[derive(Default)]
struct Moved {
    /// By container, and by the level-1 block divided by 64.
    words: RwLock<HashMap<(FileId, u64), u64>>,
    is_any: AtomicBool,
}

impl Moved {
    fn place(container: FileId, vvbn: u64) -> ((FileId, u64), u64) {
        let region = vvbn / SPAN;
        ((container, region / 64), 1 << (region % 64))
    }

    fn note(&self, container: FileId, vvbn: u64) {
        let (key, bit) = Moved::place(container, vvbn);
        *self.words.write().entry(key).or_default() |= bit;
        self.is_any.store(true, Ordering::Relaxed);
    }

    fn may_have(&self, container: FileId, vvbn: u64) -> bool {
        let (key, bit) = Moved::place(container, vvbn);
        self.words
            .read()
            .get(&key)
            .is_some_and(|word| word & bit != 0)
    }

    /// Forgets containers that are gone.
    fn keep_only(&self, known: impl Iterator<Item = FileId>) {
        if !self.is_any.load(Ordering::Relaxed) {
            return;
        }
        let known: BTreeSet<FileId> = known.collect();
        let has_others =
            |words: &HashMap<(FileId, u64), u64>| words.keys().any(|(id, _)| !known.contains(id));
        if has_others(&self.words.read()) {
            self.words.write().retain(|(id, _), _| known.contains(id));
        }
    }
}

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Redirects {
    containers: RwLock<Arc<Containers>>,
    is_any: AtomicBool,
    moved: Moved,
    /// Pages that were found elsewhere.
    count: AtomicU64,
}

impl Redirects {
    /// Sets the containers, at a mount and when a consistency point is published. The flag is true
    /// for a container whose volume was split.
    pub(crate) fn set(&self, containers: impl Iterator<Item = (bool, FileId, Root)>) {
        let mut all = Containers::default();
        for (is_split, id, root) in containers {
            let list = if is_split {
                &mut all.split
            } else {
                &mut all.others
            };
            list.push((id, root));
        }
        for list in [&mut all.split, &mut all.others] {
            list.sort_unstable_by_key(|(id, _)| std::cmp::Reverse(*id));
        }
        self.is_any.store(!all.split.is_empty(), Ordering::Relaxed);
        let lists = [&all.split, &all.others];
        let known = lists.into_iter().flatten().map(|(id, _)| *id);
        self.moved.keep_only(known);
        *self.containers.write() = Arc::new(all);
    }

    /// A block has moved in a container, or will have when the consistency point is committed.
    pub(crate) fn note_moved(&self, container: FileId, vvbn: u64) {
        self.moved.note(container, vvbn);
    }

    /// True if blocks were moved since the aggregate was opened.
    pub(crate) fn has_moved(&self) -> bool {
        self.moved.is_any.load(Ordering::Relaxed)
    }

    /// True if the block of a vvbn may have been moved in a container.
    pub(crate) fn may_have_moved(&self, container: FileId, vvbn: u64) -> bool {
        self.has_moved() && self.moved.may_have(container, vvbn)
    }

    /// True if any volume was split.
    pub(crate) fn is_any(&self) -> bool {
        self.is_any.load(Ordering::Relaxed)
    }

    /// The containers to ask.
    pub(crate) fn containers(&self) -> Arc<Containers> {
        self.containers.read().clone()
    }

    /// A page was found elsewhere.
    pub(crate) fn count_one(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Number of pages, since the aggregate was opened, that were found elsewhere than their
    /// pointer said.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}
