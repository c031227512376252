//! `GET /v1/version`: versions of the running program and of its formats.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Version {
    /// Version of the program.
    pub program: String,
    /// Format version of the data directory; 0 while the format is not frozen.
    pub data_directory_format: u64,
    /// Format version of the bytes on devices; frozen from 1 on.
    pub media_format: u64,
}
