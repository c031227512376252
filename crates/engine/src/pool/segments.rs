//! Lost segment files of an open aggregate: what was there may come back, when an operator has
//! found the file. Until then nothing may be changed that would be wrong with it.

use everglade_env::SegmentFault;

use crate::pool::aggregate::Aggregate;

/// Says in words what is wrong with a file.
pub(crate) fn words(fault: &SegmentFault) -> String {
    let path = fault.path.display();
    match fault.found_bytes {
        None => format!("{path} is missing"),
        Some(0) => format!("{path} is empty"),
        Some(found) => format!("{path} has {found} of {} bytes", fault.expected_bytes),
    }
}

/// Makes the aggregate read-only if it has a lost file, because a change needs a block that cannot
/// be read. Without the halt, the block would become lost in its tree, also if the file comes back.
/// Returns whether the aggregate has a lost file.
pub(crate) fn halt_before_loss(aggregate: &Aggregate, reason: &str) -> bool {
    let is_lost = !aggregate.lost_segments.is_empty();
    if is_lost {
        aggregate.halt(format!(
            "a change needs a block that cannot be read: {reason}"
        ));
    }
    is_lost
}
