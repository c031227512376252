//! Requests that were refused because of their token: counted, logged, and slowed down by address.
//!
//! An address may send `FREE` unknown tokens. From then on each of its requests with a token waits
//! before the token is checked, longer after each failure, up to `DELAY_MAX`. Right tokens wait
//! like wrong ones; otherwise the time of the answer would show whether a token is right. An
//! address without a failure for `FORGOTTEN_AFTER` is forgotten.
//!
//! The table is bounded: when it is full, the address whose last failure is oldest is dropped.
//! Hosts have a whole network of IPv6 addresses, so such a network counts as one.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::seldom::Seldom;
use everglade_env::lock::{Mutex, MutexGuard};

/// Failures without consequences: somebody mistypes, or two programs start with an old token.
const FREE: u32 = 3;
/// Delay after the first counted failure; each further failure doubles it.
const DELAY_MIN: Duration = Duration::from_millis(100);
/// Longest delay. A place at the door is taken meanwhile, and silent ones lose theirs first.
const DELAY_MAX: Duration = Duration::from_secs(1);
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);
/// Addresses that are remembered.
const ADDRESSES_MAX: usize = 1024;
/// Between two lines in the log.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// The reason why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The request has no token, or not as a bearer token.
    NoToken,
    /// No caller has this token.
    UnknownToken,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Reason; 2] = [Reason::NoToken, Reason::UnknownToken];

    /// Returns the name of the reason in metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Reason::NoToken => "no_token",
            Reason::UnknownToken => "unknown_token",
        }
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Attempts {
    counts: [AtomicU64; 2],
    addresses: Mutex<HashMap<IpAddr, Failed>>,
    told: Seldom,
}

#[derive(Clone, Copy, Debug)]
struct Failed {
    times: u32,
    last: Instant,
}

impl Default for Attempts {
    fn default() -> Attempts {
        Attempts {
            counts: Default::default(),
            addresses: Mutex::default(),
            told: Seldom::new(LINE_EVERY),
        }
    }
}

impl Attempts {
    /// Requests that were refused so far.
    #[must_use]
    pub fn count(&self, reason: Reason) -> u64 {
        self.counts[reason as usize].load(Ordering::Relaxed)
    }

    /// Returns how long a token from `address` waits before it is checked.
    pub(super) fn delay(&self, address: IpAddr) -> Duration {
        self.delay_at(Instant::now(), address)
    }

    /// Counts and logs a refused request from `address`.
    pub(super) fn failed(&self, address: IpAddr, reason: Reason) {
        self.counts[reason as usize].fetch_add(1, Ordering::Relaxed);
        let times = match reason {
            // A request without a token is no attempt to guess one.
            Reason::NoToken => 0,
            Reason::UnknownToken => self.failed_at(Instant::now(), address),
        };
        let Some(others) = self.told.due() else {
            return;
        };
        let found = match reason {
            Reason::NoToken => "no token".to_owned(),
            Reason::UnknownToken => format!("an unknown token (failure {times} from there)"),
        };
        let others = match others {
            0 => String::new(),
            others => format!("; {others} other requests were refused since the last such line"),
        };
        tracing::warn!("REST: a request from {address} was refused: it carries {found}{others}");
    }

    fn delay_at(&self, now: Instant, address: IpAddr) -> Duration {
        let addresses = self.addresses();
        let failed = addresses.get(&network(address));
        let failed = failed.filter(|failed| !failed.is_forgotten(now));
        let counted = failed.map_or(0, |failed| failed.times.saturating_sub(FREE));
        match counted {
            0 => Duration::ZERO,
            // Beyond 16 doublings it is the longest anyway.
            more => (DELAY_MIN * (1 << (more - 1).min(16))).min(DELAY_MAX),
        }
    }

    /// Counts a failure of the address, and returns the number of its failures.
    fn failed_at(&self, now: Instant, address: IpAddr) -> u32 {
        let address = network(address);
        let mut addresses = self.addresses();
        if addresses.len() >= ADDRESSES_MAX && !addresses.contains_key(&address) {
            addresses.retain(|_, failed| !failed.is_forgotten(now));
            let oldest = addresses.iter().min_by_key(|(_, failed)| failed.last);
            let oldest = oldest.map(|(address, _)| *address);
            if let (Some(oldest), true) = (oldest, addresses.len() >= ADDRESSES_MAX) {
                addresses.remove(&oldest);
            }
        }
        let failed = addresses.entry(address).or_insert(Failed {
            times: 0,
            last: now,
        });
        if failed.is_forgotten(now) {
            failed.times = 0;
        }
        failed.times = failed.times.saturating_add(1);
        failed.last = now;
        failed.times
    }

    fn addresses(&self) -> MutexGuard<'_, HashMap<IpAddr, Failed>> {
        self.addresses.lock()
    }
}

impl Failed {
    fn is_forgotten(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.last) >= FORGOTTEN_AFTER
    }
}

/// Returns the unit of counting: an IPv4 address, or the network of an IPv6 address.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = address.to_bits() >> 64 << 64;
            IpAddr::V6(Ipv6Addr::from_bits(network))
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn delays_grow_to_their_most_and_are_forgotten() {
        let (attempts, begun) = (Attempts::default(), Instant::now());
        let (bad, good) = (address("10.0.0.1"), address("10.0.0.2"));
        let delays: Vec<_> = (0..10)
            .map(|_| {
                attempts.failed_at(begun, bad);
                attempts.delay_at(begun, bad).as_millis()
            })
            .collect();
        assert_eq!(delays, [0, 0, 0, 100, 200, 400, 800, 1000, 1000, 1000]);
        assert_eq!(attempts.delay_at(begun, good), Duration::ZERO);
        let later = begun + FORGOTTEN_AFTER;
        assert_eq!(attempts.delay_at(later, bad), Duration::ZERO);
        assert_eq!(attempts.failed_at(later, bad), 1, "it begins anew");
    }

    #[test]
    fn a_network_of_addresses_counts_as_one() {
        let (attempts, now) = (Attempts::default(), Instant::now());
        for host in 1..=5 {
            attempts.failed_at(now, address(&format!("2001:db8:0:7::{host}")));
        }
        attempts.failed_at(now, address("::ffff:10.0.0.1"));
        assert!(
            !attempts
                .delay_at(now, address("2001:db8:0:7::99"))
                .is_zero()
        );
        assert!(attempts.delay_at(now, address("2001:db8:0:8::1")).is_zero());
        assert_eq!(attempts.failed_at(now, address("10.0.0.1")), 2);
    }

    #[test]
    fn the_table_is_bounded_and_keeps_those_that_failed_last() {
        let (attempts, begun) = (Attempts::default(), Instant::now());
        for number in 0..5000u32 {
            let at = begun + Duration::from_millis(u64::from(number));
            attempts.failed_at(at, IpAddr::V4(number.into()));
            assert!(attempts.addresses().len() <= ADDRESSES_MAX);
        }
        let known = |number: u32| {
            attempts
                .addresses()
                .contains_key(&IpAddr::V4(number.into()))
        };
        assert!(known(4999) && known(4000) && !known(3000));
    }
}
