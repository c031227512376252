//! The load phase of a handler: pages it needs, and how it stops when one is missing.
//!
//! A handler asks [`LoadCx::page`] for each page; if one is not in memory the request is noted and
//! the handler returns [`Stop`]. It releases everything, and runs again from the top when all
//! requested pages have arrived. Those pages stay pinned until it is done, so that it makes
//! progress however small the cache is.
//!
//! The block that a pointer of a volume names may have moved since the pointer was written
//! ([`crate::read::redirects`]). Then the block is found here through the containers, and handlers
//! do not notice.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use everglade_env::PageRef;
use everglade_format::{Damage, FileId, Layer, Pointer, Pvbn};
use everglade_pagecache::{Key, PageCache};
use everglade_target::Error;

use crate::read::redirects::{Followed, Redirects};

/// The reasons why a handler cannot continue now.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Pages were requested; run again when they are here.
    Load,
    /// Run again after the next commit of the aggregate, or when a consistency point has got on.
    Commit,
    /// Run again when the journal has got on.
    Log,
    /// Run again when there may be more space: after the next commit, or when the host gave some.
    Space,
    /// Run again when device operations of the consistency point have completed.
    Io,
    /// The handler needs a block that is damaged for good. A handler that can do without the block
    /// continues. If the block can be derived from other blocks, it is derived ([`crate::mend`]).
    Damaged(Box<Damaged>),
    /// The handler will never continue.
    Failed(Error),
}

/// The reason for all blocks below a pointer that is lost. It names no block.
pub(crate) const WAS_LOST: &str = "it was lost with a block that could not be read";

/// A block that cannot be read, or says what cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Damaged {
    /// The block, if the code that followed the pointer knows it.
    pub(crate) name: Option<BlockName>,
    /// The pointer to it; a hole where something else than the block contradicts it.
    pub(crate) pointer: Pointer,
    /// For people.
    pub(crate) reason: String,
}

/// A block of a file of the aggregate or of a volume's active image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BlockName {
    /// The volume; none in the aggregate.
    pub(crate) volume: Option<FileId>,
    pub(crate) file: FileId,
    pub(crate) level: u8,
    pub(crate) index: u64,
}

impl BlockName {
    /// Whose pointers lead to it.
    pub(crate) fn layer(&self) -> Layer {
        match self.volume {
            None => Layer::Aggregate,
            Some(_) => Layer::Volume,
        }
    }
}

impl Stop {
    /// Damage that no pointer leads to.
    pub(crate) fn damaged(reason: String) -> Stop {
        Stop::Damaged(Box::new(Damaged {
            name: None,
            pointer: Pointer::HOLE,
            reason,
        }))
    }

    /// Adds the name of the damaged block, unless code that followed a pointer below has added it
    /// already.
    #[must_use]
    pub(crate) fn at(mut self, name: BlockName, pointer: Pointer) -> Stop {
        if let Stop::Damaged(damaged) = &mut self
            && damaged.name.is_none()
        {
            damaged.name = Some(name);
            if damaged.pointer.is_hole() {
                damaged.pointer = pointer;
            }
        }
        self
    }

    /// For callers that do not need the block's name: damage becomes an ordinary error.
    #[must_use]
    pub(crate) fn settled(self) -> Stop {
        match self {
            Stop::Damaged(damaged) => Stop::Failed(Error::Io(damaged.reason)),
            stop => stop,
        }
    }
}

/// The block that `pointer` names is damaged; the code that followed the pointer knows which block
/// it is.
fn damaged(pointer: Pointer, reason: String) -> Stop {
    Stop::Damaged(Box::new(Damaged {
        name: None,
        pointer,
        reason,
    }))
}

impl From<Damage> for Stop {
    fn from(damage: Damage) -> Self {
        Stop::damaged(format!("damaged metadata: {damage}"))
    }
}

/// The reasons why a page was not loaded.
#[derive(Clone, Debug)]
pub(crate) enum Missing {
    /// The device answers, but the block has other contents than were written, or cannot be read.
    Damaged {
        /// For people.
        reason: String,
        /// The contents that were found, if they can be read.
        content: Option<PageRef>,
    },
    /// The device does not answer now; it may again.
    Device(String),
}

impl From<Missing> for Stop {
    fn from(missing: Missing) -> Self {
        match missing {
            Missing::Damaged { reason, .. } => Stop::damaged(reason),
            Missing::Device(reason) => Stop::Failed(Error::Io(reason)),
        }
    }
}

/// Returns the value that was read, if no block is damaged.
pub(crate) fn unless_damaged<T>(read: T, lost: Vec<Damaged>) -> Result<T, Stop> {
    match lost.into_iter().next() {
        None => Ok(read),
        Some(damaged) => Err(Stop::Damaged(Box::new(damaged))),
    }
}

/// The outcome for a page that a handler waited for.
pub(crate) type Arrival = Result<PageRef, Missing>;

/// Hashes places and contents of blocks. Tags are keyed codes, so a client cannot choose contents
/// that collide, and a multiplication spreads the other bits.
#[derive(Default)]
pub(crate) struct Spread(u64);

/// For hash tables with blocks as keys.
pub(crate) type BySpread = BuildHasherDefault<Spread>;

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes
            .iter()
            .for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// Pages a handler waited for, by place and content.
#[derive(Default)]
pub(crate) struct Pinned {
    /// The first ones: most handlers wait for one or two.
    few: Vec<((u64, u64), Arrival)>,
    others: HashMap<(u64, u64), Arrival, BySpread>,
}

impl Pinned {
    /// With at most this many entries, a search is faster than a hash table.
    const FEW: usize = 4;

    pub(crate) fn insert(&mut self, pointer: Pointer, arrival: Arrival) {
        let key = (pointer.pvbn.0, pointer.tag.0);
        if let Some((_, known)) = self.few.iter_mut().find(|(known, _)| *known == key) {
            *known = arrival;
        } else if self.few.len() < Self::FEW {
            self.few.push((key, arrival));
        } else {
            self.others.insert(key, arrival);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.few.clear();
        if self.others.len() > 64 {
            self.others = HashMap::default();
        } else {
            self.others.clear();
        }
    }

    /// A page that came as it should be.
    pub(crate) fn arrived(&self, pointer: Pointer) -> Option<PageRef> {
        self.get(pointer)?.as_ref().ok().cloned()
    }

    fn get(&self, pointer: Pointer) -> Option<&Arrival> {
        let key = (pointer.pvbn.0, pointer.tag.0);
        let few = self.few.iter().find(|(known, _)| *known == key);
        match few {
            Some((_, arrival)) => Some(arrival),
            None if self.others.is_empty() => None,
            None => self.others.get(&key),
        }
    }
}

/// A look-up of a page in the cache.
type Get = fn(&PageCache, &Key) -> Option<PageRef>;

/// The interface of a handler in its load phase.
pub(crate) struct LoadCx<'a> {
    /// The aggregate, by its number in this process.
    pub(crate) aggregate: u32,
    /// The places of moved blocks.
    pub(crate) redirects: &'a Redirects,
    /// The volume whose pointers are followed, if it is always the same.
    pub(crate) volume: Option<Followed<'a>>,
    pub(crate) cache: &'a PageCache,
    pub(crate) pinned: &'a Pinned,
    pub(crate) wants: &'a mut Vec<Pointer>,
}

impl LoadCx<'_> {
    /// The node a pointer names: a block that says where others are, or how they are.
    pub(crate) fn page(&mut self, pointer: Pointer) -> Result<PageRef, Stop> {
        self.page_or_damage(pointer)?
            .map_err(|reason| damaged(pointer, reason))
    }

    /// The data a pointer names.
    pub(crate) fn data(&mut self, pointer: Pointer) -> Result<PageRef, Stop> {
        self.find(pointer, PageCache::get)?
            .map_err(|reason| damaged(pointer, reason))
    }

    /// Finds the data of many pointers; `found` gets each page with its index in `pointers`.
    /// Neighbours are looked up together. All missing pages are requested before this stops.
    pub(crate) fn data_all(
        &mut self,
        pointers: &[Pointer],
        mut found: impl FnMut(usize, PageRef),
    ) -> Result<(), Stop> {
        let mut gather = Gather::default();
        let mut places = Vec::with_capacity(pointers.len());
        let mut keys = Vec::with_capacity(pointers.len());
        for (place, pointer) in pointers.iter().enumerate() {
            if pointer.is_lost() || self.pinned.get(*pointer).is_some() {
                if let Some(page) = gather.add(self.data(*pointer)) {
                    found(place, page);
                }
            } else {
                places.push(place);
                keys.push(self.key(*pointer));
            }
        }
        let before = self.wants.len();
        self.cache.get_all(&keys, |index, page| match page {
            Some(page) => found(places[index], page),
            None => self.wants.push(pointers[places[index]]),
        });
        let absent = self.wants.len() > before;
        if absent && self.may_be_elsewhere() {
            // The missing pointers in the order of their places.
            let mut absent = self.wants.split_off(before).into_iter().peekable();
            for place in places {
                if absent.next_if_eq(&pointers[place]).is_some()
                    && let Some(page) = gather.add(self.data(pointers[place]))
                {
                    found(place, page);
                }
            }
        } else {
            gather.add(if absent { Err(Stop::Load) } else { Ok(()) });
        }
        gather.finish()
    }

    /// The node that a pointer names, or its damage, if the node is lost.
    pub(crate) fn page_or_damage(
        &mut self,
        pointer: Pointer,
    ) -> Result<Result<PageRef, String>, Stop> {
        let found = self.find(pointer, PageCache::get_node)?;
        if found.is_ok() && self.pinned.get(pointer).is_some() {
            // The page came from the device without its kind.
            self.cache.hold_node(&self.key(pointer));
        }
        Ok(found)
    }

    /// The block that a pointer names as it is on the device, even if it is in memory; or its
    /// damage, if the block is lost.
    pub(crate) fn on_device(&mut self, pointer: Pointer) -> Result<Result<PageRef, String>, Stop> {
        match self.pinned.get(pointer) {
            Some(_) => self.find(pointer, PageCache::get_node),
            None => {
                self.wants.push(pointer);
                Err(Stop::Load)
            }
        }
    }

    /// The page that a pointer names, if it is in memory.
    pub(crate) fn in_memory(&self, pointer: Pointer) -> Option<PageRef> {
        self.cache.get_node(&self.key(pointer))
    }

    /// The data that a pointer names, or its damage, if the data is lost.
    pub(crate) fn data_or_damage(
        &mut self,
        pointer: Pointer,
    ) -> Result<Result<PageRef, String>, Stop> {
        self.find(pointer, PageCache::get)
    }

    fn find(&mut self, pointer: Pointer, get: Get) -> Result<Result<PageRef, String>, Stop> {
        assert!(!pointer.is_hole(), "a hole has no page");
        if pointer.is_lost() {
            return Ok(Err(WAS_LOST.to_owned()));
        }
        match self.lookup(pointer, get) {
            Some(Ok(page)) => Ok(Ok(page)),
            Some(Err(missing)) => match self.elsewhere(pointer, get, false)? {
                Some(page) => Ok(Ok(page)),
                None => match missing {
                    Missing::Damaged { reason, .. } => Ok(Err(reason)),
                    Missing::Device(_) => Err(missing.into()),
                },
            },
            None => {
                if self.may_be_elsewhere()
                    && let Some(page) = self.elsewhere(pointer, get, true)?
                {
                    return Ok(Ok(page));
                }
                self.wants.push(pointer);
                Err(Stop::Load)
            }
        }
    }

    /// Returns a page that is in memory, or the error that kept it from being loaded; `None` if
    /// neither is known.
    fn lookup(&self, pointer: Pointer, get: Get) -> Option<Arrival> {
        let known = self.pinned.get(pointer).cloned();
        known.or_else(|| get(self.cache, &self.key(pointer)).map(Ok))
    }

    /// True if blocks may not be where a handler's pointers say, so that containers are asked
    /// before a read.
    fn may_be_elsewhere(&self) -> bool {
        self.volume.is_some_and(Followed::is_moved) || self.redirects.has_moved()
    }

    /// Searches the containers for the block that a volume's pointer names. Returns `None` if they
    /// do not have the block, or if it is damaged there. With `believes`, only containers of split
    /// volumes are checked, and those in which blocks near it were moved, and the search ends
    /// without a result if one of them confirms the pointer.
    fn elsewhere(
        &mut self,
        pointer: Pointer,
        get: Get,
        believes: bool,
    ) -> Result<Option<PageRef>, Stop> {
        // Blocks of the aggregate itself have no vvbn, and are where they are.
        if pointer.vvbn.0 == 0 {
            return Ok(None);
        }
        let redirects = self.redirects;
        let known = redirects.containers();
        let is_asked = |id: &FileId| !believes || redirects.may_have_moved(*id, pointer.vvbn.0);
        let others = known.others.iter().filter(|(id, _)| is_asked(id));
        for (id, root) in known.split.iter().chain(others) {
            // Later volumes cannot be parents.
            if self.volume.is_some_and(|volume| *id > volume.id) {
                continue;
            }
            let slot = match root.pointer(self, Layer::Aggregate, 0, pointer.vvbn.0) {
                Ok(slot) => slot,
                // An operation that needs the container itself gets the error.
                Err(Stop::Damaged(_) | Stop::Failed(_)) => continue,
                Err(stop) => return Err(stop),
            };
            if slot.tag != pointer.tag || !slot.has_block() {
                continue;
            }
            if slot.pvbn == pointer.pvbn {
                if believes {
                    return Ok(None);
                }
                continue;
            }
            let moved = Pointer {
                pvbn: slot.pvbn,
                ..pointer
            };
            match self.lookup(moved, get) {
                Some(Ok(page)) => {
                    redirects.count_one();
                    return Ok(Some(page));
                }
                Some(Err(_)) => {}
                None => {
                    self.wants.push(moved);
                    return Err(Stop::Load);
                }
            }
        }
        Ok(None)
    }

    /// The pointers whose pages are not in memory, in the form to read them. They are not noted as
    /// wanted.
    pub(crate) fn missing(&mut self, pointers: &[Pointer]) -> Result<Vec<Pointer>, Stop> {
        let keys: Vec<Key> = pointers.iter().map(|pointer| self.key(*pointer)).collect();
        let missing = self.cache.missing(&keys).into_iter();
        let mut missing: Vec<Pointer> = missing.map(|place| pointers[place]).collect();
        if !missing.is_empty() && self.may_be_elsewhere() {
            for pointer in std::mem::take(&mut missing) {
                match self.find(pointer, PageCache::get) {
                    Ok(_) | Err(Stop::Load) => {}
                    Err(stop) => return Err(stop),
                }
            }
            let wanted = std::mem::take(self.wants);
            // The place of a block must be known before it is read ahead.
            let (nodes, blocks) = wanted.into_iter().partition(|it| it.vvbn.0 == 0);
            *self.wants = nodes;
            missing = blocks;
        }
        match self.wants.is_empty() {
            true => Ok(missing),
            false => Err(Stop::Load),
        }
    }

    /// The content of a block of the aggregate, whatever its kind; `None` if it cannot be read. For
    /// code that recognises a block by its content.
    pub(crate) fn content(&mut self, pvbn: Pvbn) -> Result<Option<PageRef>, Stop> {
        // Hardly any block has this tag, so it is found to be another one.
        let pointer = Pointer {
            pvbn,
            ..Pointer::HOLE
        };
        match self.pinned.get(pointer) {
            Some(Ok(page)) => Ok(Some(page.clone())),
            Some(Err(Missing::Damaged { content, .. })) => Ok(content.clone()),
            Some(Err(missing @ Missing::Device(_))) => Err(missing.clone().into()),
            None => {
                self.wants.push(pointer);
                Err(Stop::Load)
            }
        }
    }

    /// Remembers a node just written under its new place (C-10).
    pub(crate) fn keep(&self, pointer: Pointer, page: PageRef) {
        self.cache.insert_node(self.key(pointer), page);
    }

    /// A node has another place from the next image on. Operations that read the old node meanwhile
    /// still find it.
    pub(crate) fn replaced(&self, old: Pointer) {
        if old.has_block() {
            self.cache.release_node(&self.key(old));
        }
    }

    /// Keeps data pages, which arrive in the order of their places.
    pub(crate) fn keep_data(&self, stored: Vec<(Pointer, PageRef)>) {
        let stored = stored.into_iter();
        let pages = stored.map(|(pointer, page)| (self.key(pointer), page));
        self.cache.insert_all(pages.collect());
    }

    fn key(&self, pointer: Pointer) -> Key {
        key(self.aggregate, pointer)
    }
}

/// The key of a pointer's block in the cache.
pub(crate) fn key(aggregate: u32, pointer: Pointer) -> Key {
    Key {
        aggregate,
        pvbn: pointer.pvbn,
        tag: pointer.tag,
    }
}

/// Collects the requests of several independent loads before stopping, so that they wait together.
#[derive(Default)]
pub(crate) struct Gather(Option<Stop>);

impl Gather {
    /// Records the result of one load; returns the value if the load succeeded.
    pub(crate) fn add<T>(&mut self, outcome: Result<T, Stop>) -> Option<T> {
        match outcome {
            Ok(value) => Some(value),
            Err(stop) => {
                // Anything graver than waiting for pages wins.
                if self.0.is_none() || !matches!(stop, Stop::Load) {
                    self.0 = Some(stop);
                }
                None
            }
        }
    }

    /// Stops if anything was missing.
    pub(crate) fn finish(self) -> Result<(), Stop> {
        self.0.map_or(Ok(()), Err)
    }
}

/// The layer's name in messages.
pub(crate) fn layer_name(layer: Layer) -> &'static str {
    match layer {
        Layer::Aggregate => "aggregate",
        Layer::Volume => "volume",
    }
}
