//! The comment on one volume, as it is in an aggregate's part of the book.

use serde::{Deserialize, Serialize};

/// See the module's documentation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Commented {
    pub(super) text: String,
    /// The number of the aggregate that has the volume.
    #[serde(skip)]
    pub(super) home: Option<u32>,
}
