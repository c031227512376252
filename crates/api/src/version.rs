//! `GET /v1/version`: what runs, and which bytes it reads and writes.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Version {
    /// Of the program.
    pub program: String,
    /// Of the data directory; 0 while it is not frozen.
    pub data_directory_format: u64,
    /// Of the bytes on devices; frozen from 1 on.
    pub media_format: u64,
}
