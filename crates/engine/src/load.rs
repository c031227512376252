//! The load phase of a handler: pages it needs, and how it stops when one is missing.
//!
//! A handler asks [`LoadCx::page`] for each page; if one is not in memory the request is noted and the
//! handler returns [`Stop`]. It lets go of everything and runs again from the top when all requested
//! pages are there. The pages it waited for stay pinned until it is done, so that it makes progress
//! however small the cache is.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use everglade_env::PageRef;
use everglade_format::{Damage, Layer, Pointer};
use everglade_pagecache::{Key, PageCache};
use everglade_target::Error;

use crate::aggregate::Aggregate;

/// Why a handler cannot go on now.
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
    /// It will never go on.
    Failed(Error),
}

impl From<Damage> for Stop {
    fn from(damage: Damage) -> Self {
        Stop::Failed(Error::Io(format!("damaged metadata: {damage}")))
    }
}

/// Why a page did not come.
#[derive(Clone, Debug)]
pub(crate) enum Missing {
    /// The device answers, but this block is not what was written there, or cannot be read.
    Damaged(String),
    /// The device does not answer now; it may again.
    Device(String),
}

impl From<Missing> for Stop {
    fn from(missing: Missing) -> Self {
        let (Missing::Damaged(reason) | Missing::Device(reason)) = missing;
        Stop::Failed(Error::Io(reason))
    }
}

/// What became of a page that was waited for.
pub(crate) type Arrival = Result<PageRef, Missing>;

/// Hashes places and contents of blocks. The contents' tags are keyed codes, so nobody can choose them to
/// collide, and a multiplication spreads what they leave.
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
pub(crate) struct Pinned(HashMap<(u64, u64), Arrival, BySpread>);

impl Pinned {
    pub(crate) fn insert(&mut self, pointer: Pointer, arrival: Arrival) {
        self.0.insert((pointer.pvbn.0, pointer.tag.0), arrival);
    }

    pub(crate) fn clear(&mut self) {
        if self.0.len() > 64 {
            self.0 = HashMap::default();
        } else {
            self.0.clear();
        }
    }

    fn get(&self, pointer: Pointer) -> Option<&Arrival> {
        self.0.get(&(pointer.pvbn.0, pointer.tag.0))
    }
}

/// What a handler may do in its load phase.
pub(crate) struct LoadCx<'a> {
    pub(crate) aggregate: &'a Aggregate,
    pub(crate) cache: &'a PageCache,
    pub(crate) pinned: &'a Pinned,
    pub(crate) wants: &'a mut Vec<Pointer>,
}

impl LoadCx<'_> {
    /// The node a pointer names: a block that says where others are, or how they are.
    pub(crate) fn page(&mut self, pointer: Pointer) -> Result<PageRef, Stop> {
        self.page_or_damage(pointer)?
            .map_err(|reason| Missing::Damaged(reason).into())
    }

    /// The data a pointer names.
    pub(crate) fn data(&mut self, pointer: Pointer) -> Result<PageRef, Stop> {
        self.find(pointer, PageCache::get)?
            .map_err(|reason| Missing::Damaged(reason).into())
    }

    /// The data that many pointers name; `found` gets it by their places in `pointers`. Neighbours are looked up
    /// together. All that is missing is asked for before this stops.
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
        gather.add(if absent { Err(Stop::Load) } else { Ok(()) });
        gather.finish()
    }

    /// The node a pointer names, or how it is damaged for good.
    pub(crate) fn page_or_damage(
        &mut self,
        pointer: Pointer,
    ) -> Result<Result<PageRef, String>, Stop> {
        let found = self.find(pointer, PageCache::get_node)?;
        if found.is_ok() && self.pinned.get(pointer).is_some() {
            // It came from the device, where nobody knew what it is.
            self.cache.hold_node(&self.key(pointer));
        }
        Ok(found)
    }

    fn find(
        &mut self,
        pointer: Pointer,
        get: fn(&PageCache, &Key) -> Option<PageRef>,
    ) -> Result<Result<PageRef, String>, Stop> {
        assert!(!pointer.is_hole(), "a hole has no page");
        if pointer.is_lost() {
            return Ok(Err(
                "it was lost with a block that could not be read".to_owned()
            ));
        }
        match self.pinned.get(pointer) {
            Some(Ok(page)) => return Ok(Ok(page.clone())),
            Some(Err(Missing::Damaged(reason))) => return Ok(Err(reason.clone())),
            Some(Err(device)) => return Err(device.clone().into()),
            None => {}
        }
        if let Some(page) = get(self.cache, &self.key(pointer)) {
            return Ok(Ok(page));
        }
        self.wants.push(pointer);
        Err(Stop::Load)
    }

    /// Those whose pages are not in memory. Nothing is noted of them.
    pub(crate) fn missing(&self, pointers: &[Pointer]) -> Vec<Pointer> {
        let keys: Vec<Key> = pointers.iter().map(|pointer| self.key(*pointer)).collect();
        let missing = self.cache.missing(&keys).into_iter();
        missing.map(|place| pointers[place]).collect()
    }

    /// Remembers a node just written under its new place (C-10).
    pub(crate) fn keep(&self, pointer: Pointer, page: PageRef) {
        self.cache.insert_node(self.key(pointer), page);
    }

    /// The same for data, which comes in the order of its places.
    pub(crate) fn keep_data(&self, stored: Vec<(Pointer, PageRef)>) {
        let stored = stored.into_iter();
        let pages = stored.map(|(pointer, page)| (self.key(pointer), page));
        self.cache.insert_all(pages.collect());
    }

    fn key(&self, pointer: Pointer) -> Key {
        Key {
            aggregate: self.aggregate.id,
            pvbn: pointer.pvbn,
            tag: pointer.tag,
        }
    }
}

/// Collects the requests of several independent loads before stopping, so that they wait together.
#[derive(Default)]
pub(crate) struct Gather(Option<Stop>);

impl Gather {
    /// Notes the outcome of one load; the value if it is there.
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
