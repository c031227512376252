//! Silent connections: those that have not sent their request, or whose token was not accepted.
//! When a listening socket has no connection left, a silent connection loses its place to the next
//! caller, so that silent connections keep no caller out.
//!
//! ```text
//! entered --spoke()--> keeps its place to its end
//! entered --cut_one()--> cut: the connection is closed
//! ```
//!
//! The connection that has been silent for longest, of the address with the most silent
//! connections, loses its place. So callers at other addresses keep their places beside an address
//! that opens hundreds.

use everglade_env::lock::{Mutex, MutexGuard};
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use tokio::sync::Notify;

/// The silent connections of one door.
#[derive(Debug, Default)]
pub(super) struct Silent(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    next: u64,
    /// Silent connections, by order of arrival.
    waiting: BTreeMap<u64, (Option<IpAddr>, Arc<Notify>)>,
}

/// One connection, silent until it sends a valid request or ends.
#[derive(Debug)]
pub(crate) struct Voice {
    silent: Arc<Silent>,
    number: u64,
    cut: Arc<Notify>,
}

impl Silent {
    /// Adds a new connection.
    pub(super) fn enter(self: &Arc<Self>, address: Option<IpAddr>) -> Voice {
        let cut = Arc::new(Notify::new());
        let mut inner = self.inner();
        let number = inner.next;
        inner.next += 1;
        inner.waiting.insert(number, (address, Arc::clone(&cut)));
        Voice {
            silent: Arc::clone(self),
            number,
            cut,
        }
    }

    /// Closes the connection that has been silent longest. Returns false if there is none.
    pub(super) fn cut_one(&self) -> bool {
        let mut inner = self.inner();
        let mut counts: HashMap<Option<IpAddr>, (usize, u64)> = HashMap::new();
        for (number, (address, _)) in &inner.waiting {
            counts.entry(*address).or_insert((0, *number)).0 += 1;
        }
        let most = counts
            .values()
            .max_by_key(|(count, oldest)| (*count, u64::MAX - oldest));
        let Some((_, oldest)) = most else {
            return false;
        };
        let cut = inner.waiting.remove(oldest);
        drop(inner);
        cut.is_some_and(|(_, cut)| {
            cut.notify_one();
            true
        })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock()
    }
}

impl Voice {
    /// Protects the connection: its request is known and permitted.
    pub(super) fn spoke(&self) {
        self.silent.inner().waiting.remove(&self.number);
    }

    /// Waits until it has lost its place.
    pub(super) async fn is_cut(&self) {
        self.cut.notified().await;
    }
}

impl Drop for Voice {
    fn drop(&mut self) {
        self.spoke();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_of_the_address_with_the_most_loses() {
        let silent = Arc::new(Silent::default());
        let at = |text: &str| Some(text.parse().expect("an address"));
        let enter = |address| silent.enter(address);
        let lonely = enter(at("10.0.0.9"));
        let crowd = [
            enter(at("10.0.0.1")),
            enter(at("10.0.0.1")),
            enter(at("10.0.0.1")),
        ];
        let known = |voice: &Voice| silent.inner().waiting.contains_key(&voice.number);
        crowd[1].spoke();
        assert!(silent.cut_one());
        assert!(!known(&crowd[0]) && known(&crowd[2]) && known(&lonely));
        // Equal: the oldest of all.
        assert!(silent.cut_one());
        assert!(!known(&lonely) && known(&crowd[2]));
        drop(crowd);
        assert!(
            !silent.cut_one(),
            "those that have ended or spoken lose nothing"
        );
    }
}
