//! The bounds of a session, and what it shares with others.

use std::fmt;
use std::sync::Arc;

use everglade_env::Nanos;
use everglade_target::Limits;
use everglade_target::reservations::Registry;
use everglade_target::sessions::Staging;
use everglade_target::sessions::memory::LARGEST_BYTES;

/// Takes one line for the log.
pub type Notes = Arc<dyn Fn(&str) + Send + Sync>;

/// Bounds of one session. [`Settings::default`] has the values of the product.
#[derive(Clone)]
pub struct Settings {
    /// Sizes told to clients and enforced.
    pub limits: Limits,
    /// Limit of bytes held for requests: writes being received or executed, reads being executed or
    /// sent. Never below the size of one operation, which would otherwise never fit.
    pub payload_in_flight_max: u64,
    /// Requests at once, each counted until its reply was sent. Below 65,536, because the number of
    /// a request is 16 bits of its operations' tokens.
    pub requests_in_flight_max: usize,
    /// Size of the buffer for everything that is not received in place.
    pub staging_bytes: usize,
    /// Options a client may send before it must have chosen; a handshake needs about five.
    pub options_max: u32,
    /// A session from which nothing came for this long, and for which nothing is under way, is
    /// ended. A disk may be idle for days, so this limit is off by default.
    pub idle_max: Option<Nanos>,
    /// Before an export is opened the owner is asked where
    /// ([`Session::home_question`](crate::Session::home_question)). For owners with several tables
    /// of sessions.
    pub asks_for_home: bool,
    /// The reservations of hosts of other protocols, which keep NBD clients out; `None` if there
    /// are no other protocols.
    pub reservations: Option<Arc<Registry>>,
    /// Where lines for the log go.
    pub notes: Option<Notes>,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Settings")
    }
}

impl Settings {
    /// The longest data of one option that is read; the longest proper one has a name of 4,096
    /// bytes and some words of 2 bytes.
    pub(crate) const OPTION_BYTES_MAX: u32 = 8 << 10;
    /// Longest option data that is skipped, to answer with an error; beyond, the peer is not sane.
    pub(crate) const OPTION_SKIP_BYTES_MAX: u32 = 1 << 20;
    /// The longest request that is carried out, and the longest payload of a refused write that is
    /// skipped, as a multiple of the advertised maximum. Requests are carried out in slices, so
    /// nothing speaks against clients that ignore our limit a little (proto "Size constraints").
    const ACCEPTED_FACTOR: u32 = 2;
    /// The smallest staging that is useful in a handshake: one option with its header.
    const STAGING_BYTES_MIN: usize = 16 << 10;
    /// The smallest staging that is useful after the handshake: some requests, the rest of a block
    /// and one more block.
    const STAGING_BYTES_LEAST: usize = 8 << 10;

    /// Returns the settings, with invalid values replaced by the nearest valid ones.
    #[must_use]
    pub fn checked(mut self) -> Self {
        self.payload_in_flight_max = self.payload_in_flight_max.max(LARGEST_BYTES);
        self.requests_in_flight_max = self.requests_in_flight_max.clamp(1, 0xffff);
        self.staging_bytes = self.staging_bytes.max(Self::STAGING_BYTES_MIN);
        self.options_max = self.options_max.max(1);
        self
    }

    /// Returns the length of the longest request that is executed.
    pub(crate) fn accepted_bytes_max(&self) -> u32 {
        self.limits
            .payload_max
            .saturating_mul(Self::ACCEPTED_FACTOR)
    }

    /// Returns the size of the staging buffer of a session that may have `allowed` bytes.
    pub(crate) fn staging_bytes(&self, allowed: usize, is_in_handshake: bool) -> usize {
        let least = match is_in_handshake {
            true => Self::STAGING_BYTES_MIN,
            false => Self::STAGING_BYTES_LEAST,
        };
        Staging::size_within(self.staging_bytes, allowed, least)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            limits: Limits::default(),
            payload_in_flight_max: 64 << 20,
            requests_in_flight_max: 256,
            staging_bytes: 64 << 10,
            options_max: 64,
            idle_max: None,
            asks_for_home: false,
            reservations: None,
            notes: None,
        }
    }
}
