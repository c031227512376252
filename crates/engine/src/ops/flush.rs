//! Flush: everything acknowledged so far, on any session, becomes durable.
//!
//! Until the journal exists this means waiting for the consistency point that has it all.

use everglade_target::Reply;

use crate::ops::Outcome;
use crate::volume::Lun;

pub(crate) fn run(lun: &Lun) -> Outcome {
    let aggregate = &lun.volume.aggregate;
    let cp = aggregate.covering();
    if aggregate.committed() >= cp {
        Outcome::Done(Reply::Done)
    } else {
        Outcome::Durable(cp)
    }
}
