//! The desk between the one thread that must not block and changes that do.
//!
//! A change keeps its place at the desk until it has really ended, also when its client was told that it takes
//! too long: what is under way stays bounded. Nothing is given up half-way.

use std::sync::Arc;
use std::time::Duration;

use everglade_api::{Code, Lun, Problem};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::datadir::Endpoints;
use crate::reactor::Administrator;
use crate::ready;

/// Changes at a time; each may hold a thread.
pub(super) const CHANGES_MAX: usize = 16;
/// How long a client is kept waiting for a change. Only a full pool makes one take this long.
const CHANGED_WITHIN: Duration = Duration::from_secs(60);

/// What every handler has.
pub(super) struct Desk {
    administrator: Arc<Administrator>,
    endpoints: Endpoints,
    places: Arc<Semaphore>,
}

impl Desk {
    pub(super) fn new(administrator: Arc<Administrator>, endpoints: Endpoints) -> Desk {
        Desk {
            administrator,
            endpoints,
            places: Arc::new(Semaphore::new(CHANGES_MAX)),
        }
    }

    /// For looking, which never waits.
    pub(super) fn administrator(&self) -> &Administrator {
        &self.administrator
    }

    /// Does a change on a thread that may block.
    pub(super) async fn change<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Administrator) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            let text = format!("{CHANGES_MAX} changes are under way already; try again");
            return Err(Problem::new(Code::Busy, text));
        };
        let administrator = Arc::clone(&self.administrator);
        let done = spawn_blocking(move || {
            let _place = place;
            change(&administrator)
        });
        match timeout(CHANGED_WITHIN, done).await {
            Ok(Ok(result)) => result,
            // The panic hook has ended the process; this is for the end of the runtime.
            Ok(Err(_)) => Err(Problem::new(Code::Unavailable, "the daemon is stopping")),
            Err(_) => {
                let text = "it takes longer than a minute, and may still happen; look before \
                            repeating it";
                Err(Problem::new(Code::StillUnderWay, text))
            }
        }
    }

    /// Waits until no change is under way, and takes no more.
    pub(super) async fn settle(&self) {
        let all = u32::try_from(CHANGES_MAX).expect("a small constant");
        if let Ok(places) = self.places.acquire_many(all).await {
            places.forget();
        }
    }

    /// A LUN with its address.
    pub(super) fn reachable(&self, lun: Lun) -> Lun {
        let nbd_uri = ready::uri(&self.endpoints, &lun.nbd_export);
        Lun { nbd_uri, ..lun }
    }
}
