//! Operations that are held, because their LUN has a limit ([`crate::pool::limit`]).
//!
//! An operation is held before anything of it happens: it has entered no affinity, and the client
//! has no answer. When its time has come, it begins as if it had just arrived.
//!
//! 1. Operations of a LUN begin in the order in which they came, because their times ascend.
//! 2. When the limit of a LUN is changed, its operations that are held reserve their times anew, in
//!    the same order.
//! 3. An operation whose client has closed the LUN meanwhile begins all the same.
//! 4. When limits are lifted for a stop, all that are held begin.

use std::collections::BTreeMap;
use std::sync::Arc;

use everglade_env::{Nanos, Outside};
use everglade_target::{LunHandle, Op, Token};

use crate::ops::{Client, Origin};
use crate::pool::limit::{Limit, Limits};
use crate::pool::volume::Lun;
use crate::reactor::{Core, OpenLun};

/// An operation that is held.
struct Waiting {
    handle: LunHandle,
    /// What is open by that handle; the client may close it meanwhile.
    lun: Arc<Lun>,
    /// The same of the image that changes are counted from.
    since: Option<Arc<Lun>>,
    op: Op,
    token: Token,
    /// The limit that it has reserved its time of.
    limit: Arc<Limit>,
}

/// See the module's documentation.
#[derive(Default)]
pub(super) struct Held {
    /// By the time when they may begin, and in the order in which they came.
    operations: BTreeMap<(Nanos, u64), Waiting>,
    count: u64,
    /// The change of limits up to which all of them have reserved their times.
    limits_seen: u64,
}

impl Held {
    /// When the first one may begin.
    pub(super) fn next(&self) -> Option<Nanos> {
        self.operations.keys().next().map(|(due, _)| *due)
    }

    fn add(&mut self, due: Nanos, waiting: Waiting) {
        self.count += 1;
        self.operations.insert((due, self.count), waiting);
    }
}

impl OpenLun {
    /// Returns the limit; it is looked up anew if any limit has changed.
    fn limit(&mut self, limits: &Limits) -> Option<&Arc<Limit>> {
        let generation = limits.generation();
        if self.limits_seen != generation {
            self.limit = limits.of(&self.lun.lun_uuid());
            self.limits_seen = generation;
        }
        self.limit.as_ref()
    }
}

impl<O: Outside> Core<O> {
    /// Begins an operation, now or later. Out of the way of those that no limit concerns.
    #[cold]
    pub(super) fn begin_or_hold(&mut self, lun: LunHandle, op: Op, token: Token) {
        if let Some(op) = self.hold(lun, op, token) {
            self.begin(lun, op, token);
        }
    }

    /// Returns the operation unless it is to begin later.
    fn hold(&mut self, lun: LunHandle, op: Op, token: Token) -> Option<Op> {
        let Some(open) = self.luns.get_mut(&lun.0) else {
            return Some(op);
        };
        let Some(limit) = open.limit(&self.shared.limits).cloned() else {
            return Some(op);
        };
        let Some(due) = limit.reserve(&op, self.outside.now()) else {
            return Some(op);
        };
        let known = open.lun.clone();
        let waiting = Waiting {
            handle: lun,
            lun: known,
            since: self.since_of(&op),
            op,
            token,
            limit,
        };
        self.held.add(due, waiting);
        None
    }

    /// Begins operations whose time has come.
    pub(super) fn release_held(&mut self) {
        let Some(first) = self.held.next() else {
            return;
        };
        let limits = &self.shared.limits;
        if limits.is_lifted() {
            let all = std::mem::take(&mut self.held.operations);
            return all.into_values().for_each(|it| self.begin_held(it));
        }
        if limits.generation() != self.held.limits_seen {
            self.hold_anew();
        }
        let now = self.outside.now();
        if first <= now {
            let later = self.held.operations.split_off(&(now, u64::MAX));
            let due = std::mem::replace(&mut self.held.operations, later);
            due.into_values().for_each(|it| self.begin_held(it));
        }
    }

    fn begin_held(&mut self, waiting: Waiting) {
        let Waiting { op, token, .. } = waiting;
        if self.luns.contains_key(&waiting.handle.0) {
            return self.begin(waiting.handle, op, token);
        }
        let client = Client::new(waiting.lun, op, Origin::Session(token));
        self.begin_client(Client {
            since: waiting.since,
            ..client
        });
    }

    /// Has those whose limit was changed reserve their times anew.
    fn hold_anew(&mut self) {
        self.held.limits_seen = self.shared.limits.generation();
        let all = std::mem::take(&mut self.held.operations);
        for (place, waiting) in all {
            let limit = self.shared.limits.of(&waiting.lun.lun_uuid());
            if limit.is_some_and(|limit| Arc::ptr_eq(&limit, &waiting.limit)) {
                self.held.operations.insert(place, waiting);
                continue;
            }
            let Waiting { handle, token, .. } = waiting;
            match self.luns.contains_key(&handle.0) {
                true => self.begin_or_hold(handle, waiting.op, token),
                false => self.begin_held(waiting),
            }
        }
    }
}
