//! Who keeps the images: what the jobs ask of ours and of the peer alike, so that both do the same.

use std::time::Duration;

use super::super::server::Server;
use crate::Failure;

/// A pool of volumes, each with images that are exported over NBD.
pub(super) trait Store {
    /// For tables.
    fn name(&self) -> &'static str;

    /// Makes an image that nothing was written to, and its volume if there is none.
    fn add(&mut self, volume: &str, image: &str, bytes: u64) -> Result<(), Failure>;

    /// Where an image is served.
    fn server(&self, volume: &str, image: &str) -> Result<&Server, Failure>;

    /// Takes a snapshot of a volume.
    fn snapshot(&mut self, volume: &str, name: &str) -> Result<Taken, Failure>;

    /// Deletes snapshots, as fast as it takes the requests. Space comes back later.
    fn delete(&self, volume: &str, names: &[String]) -> Result<(), Failure>;

    /// Deletes an image. Space comes back later.
    fn remove_image(&mut self, volume: &str, image: &str) -> Result<(), Failure>;

    /// Deletes a volume with its images; it has no snapshots. Space comes back later.
    fn remove(&mut self, volume: &str) -> Result<(), Failure>;

    /// Makes a snapshot's image the active one, and forgets what was active. How long until it was.
    fn restore(&mut self, volume: &str, name: &str) -> Result<Duration, Failure>;

    /// Everything that was written so far is where it stays: the same as a snapshot does, without
    /// one.
    fn settle(&mut self) -> Result<(), Failure>;

    /// Waits until nothing is left to be given back.
    fn drain(&mut self) -> Result<(), Failure>;

    /// True if something is left to be given back.
    fn is_draining(&self) -> Result<bool, Failure>;

    /// Part of the pool that is in use.
    fn used(&self) -> Result<f64, Failure>;

    /// Consistency points so far, and the seconds they took.
    fn points(&self) -> Result<Option<Points>, Failure>;
}

/// When a snapshot was what it is, and when nothing could take it away any more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    pub(super) taken: Duration,
    pub(super) durable: Duration,
    /// As the client sees it: from its request to the answer.
    pub(super) answered: Duration,
}

/// Of consistency points.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Points {
    pub(super) count: f64,
    pub(super) seconds: f64,
}

impl Points {
    /// Milliseconds of one, on average since then.
    pub(super) fn each_ms_since(self, before: Points) -> Option<f64> {
        let count = self.count - before.count;
        (count > 0.0).then(|| (self.seconds - before.seconds) * 1e3 / count)
    }
}
