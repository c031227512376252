//! What is fuzzed: each target has inputs to begin with, made by the encoders, and a function that
//! must return for every input.

mod api;
#[cfg(feature = "config")]
mod config;
mod disk;
mod iscsi;
mod journal;
mod nbd;
mod nvme_tcp;
mod streams;
mod world;

/// A decoder with its harness.
pub(crate) struct Target {
    pub(crate) name: &'static str,
    /// Longest input.
    pub(crate) bytes_max: usize,
    pub(crate) seeds: fn() -> Vec<Vec<u8>>,
    /// Panics if something is wrong.
    pub(crate) run: fn(&[u8]),
}

pub(crate) const TARGETS: &[Target] = &[
    disk::CONFIG,
    disk::SUPERBLOCK,
    disk::VOLUME,
    disk::INODE,
    disk::INDIRECT,
    disk::DIRECTORY,
    disk::CONTEXT,
    disk::TOP_AREAS,
    journal::HEADER,
    journal::SCAN,
    nbd::SESSION,
    nbd::CODEC,
    iscsi::SESSION,
    iscsi::CODEC,
    nvme_tcp::SESSION,
    nvme_tcp::CODEC,
    api::BODY,
    api::WORDS,
    #[cfg(feature = "config")]
    config::FILE,
];
