//! Why a run ended early: the server broke a promise, or the rig could not do its part.

use std::path::Path;

/// An end before its time.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The server lost or invented data, refused to start, or left an aggregate that is not sound.
    #[error("{0}")]
    Broken(String),
    /// A program is missing, a mount is not allowed, a socket does not answer: says nothing about
    /// the server.
    #[error("the rig failed: {0}")]
    Rig(String),
}

impl Failure {
    /// Of a step that the rig itself had to do.
    pub fn rig(what: &str, error: &dyn std::fmt::Display) -> Failure {
        Failure::Rig(format!("{what}: {error}"))
    }

    pub(crate) fn at(what: &str, path: &Path, error: &dyn std::fmt::Display) -> Failure {
        Failure::Rig(format!("{what} {}: {error}", path.display()))
    }
}
