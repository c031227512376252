//! Operations that are held, because their LUN or its volume has a limit ([`crate::pool::limit`]).
//!
//! An operation is held before anything of it happens: it has entered no affinity, and the client
//! has no answer. When its time has come, it begins as if it had just arrived, or asks for its
//! share of a busy aggregate first ([`super::sharing`]).
//!
//! 1. Operations of a LUN begin in the order in which they came, because their times ascend.
//! 2. When a limit is changed, operations that it holds reserve their times of it anew, in the same
//!    order. What they have reserved of another limit stays.
//! 3. An operation whose client has closed the LUN meanwhile begins all the same.
//! 4. When limits are lifted for a stop, all that are held begin.

use std::collections::BTreeMap;
use std::sync::Arc;

use everglade_env::{Nanos, Outside};
use everglade_target::{LunHandle, Op, Token};

use crate::ops::{Client, Origin};
use crate::pool::limit::{Applied, Dues, Limits};
use crate::pool::volume::Lun;
use crate::reactor::{Core, OpenLun};

/// An operation that begins later.
pub(super) struct Waiting {
    handle: LunHandle,
    /// What is open by that handle; the client may close it meanwhile.
    pub(super) lun: Arc<Lun>,
    /// The same of the image that changes are counted from.
    since: Option<Arc<Lun>>,
    pub(super) op: Op,
    pub(super) token: Token,
    /// What limits it.
    pub(super) limits: Applied,
    /// When it may begin by these.
    dues: Dues,
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
    /// Returns what limits it; that is looked up anew if any limit has changed.
    fn limits(&mut self, limits: &Limits) -> &Applied {
        let generation = limits.generation();
        if self.limits_seen != generation {
            self.limits = limits.of(&self.lun.lun_uuid(), &self.lun.volume_uuid());
            self.limits_seen = generation;
        }
        &self.limits
    }
}

impl<O: Outside> Core<O> {
    /// Begins an operation, now or later. Out of the way of those that no limit concerns.
    #[cold]
    pub(super) fn begin_or_hold(&mut self, handle: LunHandle, op: Op, token: Token) {
        let Some(open) = self.luns.get_mut(&handle.0) else {
            return self.begin(handle, op, token);
        };
        let limits = open.limits(&self.shared.limits);
        if limits.is_none() && !self.shared.limits.has_weights() {
            return self.begin(handle, op, token);
        }
        let limits = limits.clone();
        let lun = open.lun.clone();
        let dues = limits.reserve(&op, self.outside.now(), None);
        let waiting = Waiting {
            handle,
            lun,
            since: self.since_of(&op),
            op,
            token,
            limits,
            dues,
        };
        self.hold_or_share(waiting);
    }

    /// Holds an operation until its time has come; one that need not be held takes its share.
    fn hold_or_share(&mut self, waiting: Waiting) {
        match waiting.dues.into_iter().max().filter(|due| *due > 0) {
            Some(due) => self.held.add(due, waiting),
            None => self.share(waiting),
        }
    }

    /// Begins operations whose time has come.
    pub(super) fn release_held(&mut self) {
        self.release_shared();
        let Some(first) = self.held.next() else {
            return;
        };
        let limits = &self.shared.limits;
        if limits.is_lifted() {
            let all = std::mem::take(&mut self.held.operations);
            return all.into_values().for_each(|it| self.begin_waiting(it));
        }
        if limits.generation() != self.held.limits_seen {
            self.hold_anew();
        }
        let now = self.outside.now();
        if first <= now {
            let later = self.held.operations.split_off(&(now, u64::MAX));
            let due = std::mem::replace(&mut self.held.operations, later);
            due.into_values().for_each(|it| self.share(it));
        }
    }

    /// Begins an operation for good.
    pub(super) fn begin_waiting(&mut self, waiting: Waiting) {
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

    /// Has those whose limits were changed reserve their times anew.
    fn hold_anew(&mut self) {
        self.held.limits_seen = self.shared.limits.generation();
        let all = std::mem::take(&mut self.held.operations);
        let now = self.outside.now();
        for waiting in all.into_values() {
            let (lun, volume) = (waiting.lun.lun_uuid(), waiting.lun.volume_uuid());
            let limits = self.shared.limits.of(&lun, &volume);
            let before = Some((&waiting.limits, waiting.dues));
            let dues = limits.reserve(&waiting.op, now, before);
            self.hold_or_share(Waiting {
                limits,
                dues,
                ..waiting
            });
        }
    }
}
