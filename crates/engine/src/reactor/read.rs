//! Reads of open LUNs: tried at once, before there is an operation (T-01, T-06, T-07).
//!
//! Nearly every read of a warm cache finds all it needs. An operation costs more: it has a place in
//! a table and room for everything that an operation may have to remember, because it can wait and
//! run again. So a read first tries its stripe, as an operation would, and most reads are answered
//! then. A read that must stop becomes an operation at that point (T-09): its missing pages are
//! being loaded already, and it runs again as any operation would.
//!
//! 1. A read that is answered here has the same answer as an operation at this moment: the same
//!    checks inside the same affinity, the same look-up ([`read::run`]).
//! 2. Nothing waits here. Some reads are operations from the beginning: a read of two stripes; a
//!    read of a stripe that is occupied or waited for, which queues; the first read after coarse
//!    work closed the stripe, because entering as an operation opens it again; and a read that is
//!    refused, because the operation finds the reason.

use std::sync::Arc;

use everglade_env::Outside;
use everglade_target::{Completion, Error, Op};

use crate::ops::{self, Client, OpCx, Origin, RunEnd, read};
use crate::pool::volume::Lun;
use crate::reactor::{Core, Work};
use crate::read::load::{LoadCx, Pinned};

/// True if a read of `lun` is to be refused, or to wait for a restore.
fn is_held_up(lun: &Lun, (offset, length): (u64, u32)) -> bool {
    let is_serving = lun.volume.aggregate.standing.is_readable();
    !is_serving || lun.is_paused() || ops::validate_read(lun, offset, length).is_err()
}

impl<O: Outside> Core<O> {
    /// Reads (offset, length) of an open LUN, in bytes. One completion with `token` follows.
    pub(super) fn read_lun(&mut self, handle: u64, range: (u64, u32), token: u64) {
        let (offset, length) = range;
        let Some(open) = self.luns.get_mut(&handle) else {
            let result = Err(Error::Gone);
            return self.done.push(Completion { token, result });
        };
        let lun = if open.stream.advance(offset, length) {
            self.look_ahead(handle);
            &self.luns[&handle].lun
        } else {
            &open.lun
        };
        let seen = lun.volume.aggregate.committed();
        let operation = |lun: &Arc<Lun>, rest| {
            let client = Client::new(
                lun.clone(),
                Op::Read { offset, length },
                Origin::Session(token),
            );
            Client {
                rest,
                seen,
                ..client
            }
        };
        let permit = lun
            .only_stripe(offset, length)
            .and_then(|stripe| self.shared.affinities.try_enter(self.index, stripe));
        let Some(permit) = permit else {
            let client = operation(lun, None);
            return self.begin_client(client);
        };
        let (mut wants, mut rest) = (Vec::new(), None);
        let outcome = (!is_held_up(lun, range)).then(|| {
            let mut load = LoadCx {
                aggregate: lun.volume.aggregate.id,
                redirects: &lun.volume.aggregate.redirects,
                volume: Some(lun.volume.followed()),
                cache: &self.shared.cache,
                pinned: &Pinned::default(),
                wants: &mut wants,
            };
            let mut cx = OpCx {
                load: &mut load,
                permit: &permit,
                shortcuts: &mut self.shortcuts,
            };
            read::run(&mut cx, lun, range, &mut rest)
        });
        let mut granted = Vec::new();
        self.shared.affinities.leave(permit, &mut granted);
        let stopped = match outcome {
            Some(Ok(RunEnd::Done(reply))) => {
                lun.volume.traffic.note_read(length);
                let result = Ok(reply);
                self.done.push(Completion { token, result });
                None
            }
            outcome => Some((operation(lun, rest), outcome)),
        };
        self.hand_over(granted);
        match stopped {
            None => {}
            Some((client, None)) => self.begin_client(client),
            Some((client, Some(outcome))) => {
                let id = self.add(Work::Client(Box::new(client)));
                self.settle_client(id, outcome, wants);
            }
        }
    }
}
