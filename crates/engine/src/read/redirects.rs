//! Redirects: finding blocks of volumes whose pointers may be out of date (B-10).
//!
//! A pointer in a volume's tree names a block twice: by its vvbn, which the container resolves and
//! which is always right, and by its pvbn, which saves a look-up in the container. When a clone is
//! split every block that it shared gets a new pvbn, and nothing in its trees changes. The old
//! pvbns still name the parent's blocks, which may be freed and reused. So the pvbn in a pointer is
//! a hint, and a reader that finds other content there asks the containers:
//!
//! ```text
//! page in memory ──no──▶ the volume was split: ask its container ──▶ read there
//!                        any other volume: read where the pointer says
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
//!    until a pointer is stale. Today only a split makes pointers stale. But the container is right
//!    in any volume (B-10), so this build also handles blocks that later builds move for other
//!    reasons: then it asks all containers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use everglade_env::lock::RwLock;
use everglade_format::FileId;

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

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Redirects {
    containers: RwLock<Arc<Containers>>,
    is_any: AtomicBool,
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
        *self.containers.write() = Arc::new(all);
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
