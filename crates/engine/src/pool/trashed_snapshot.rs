//! A snapshot in the trash: nobody finds it, and its image comes back with it.

use crate::pool::image::Image;

/// See the module's documentation.
pub(crate) struct TrashedSnapshot {
    /// The name that it had.
    pub(crate) name: String,
    /// When it was put into the trash, seconds since 1970 UTC.
    pub(crate) deleted_seconds: u64,
    /// Blocks that nothing else holds, as of the last consistency point, for people.
    pub(crate) exclusive_blocks: u64,
    /// Its LUNs. No client has one open.
    pub(crate) image: Image,
}
