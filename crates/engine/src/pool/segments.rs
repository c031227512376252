//! Lost segment files of an open aggregate, in words.
//!
//! What was there may come back, when an operator has found the file. Until then nothing is changed
//! that would be wrong with it.

use everglade_env::SegmentFault;

/// Says what is wrong with a file.
pub(crate) fn words(fault: &SegmentFault) -> String {
    let path = fault.path.display();
    match fault.found_bytes {
        None => format!("{path} is missing"),
        Some(0) => format!("{path} is empty"),
        Some(found) => format!("{path} has {found} of {} bytes", fault.expected_bytes),
    }
}
