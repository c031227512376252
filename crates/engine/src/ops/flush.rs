//! Flush: everything acknowledged so far, on any session, becomes durable.
//!
//! A flush waits for a group of the journal if the aggregate has a journal
//! (docs/design/design.md §5), otherwise for the consistency point that contains all of it. A
//! commit that comes first ends the wait, too.

use everglade_target::Reply;

use crate::ops::{Durability, RunEnd};
use crate::pool::volume::Lun;

pub(crate) fn run(lun: &Lun) -> RunEnd {
    let aggregate = &lun.volume.aggregate;
    if lun.snapshot.is_some() {
        return RunEnd::Done(Reply::Done);
    }
    // Every acknowledged operation has its sequence number, and the consistency point that it
    // joined is covered.
    let durability = Durability {
        cp: aggregate.covering(),
        sequence: aggregate.log.as_ref().map_or(u64::MAX, |log| log.last()),
        topology: aggregate.topology(),
    };
    if durability.is_met(aggregate) {
        RunEnd::Done(Reply::Done)
    } else {
        RunEnd::Durable(durability)
    }
}
