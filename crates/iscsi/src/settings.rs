//! The bounds of a session, and what it shares with others.

use std::fmt;
use std::sync::Arc;

use everglade_env::Nanos;
use everglade_target::sessions::Staging;
use everglade_target::sessions::memory::LARGEST_BYTES;

use crate::login::chap::{Accounts, CHALLENGE_BYTES};
use crate::node::Node;

/// Fresh random bytes, from a source that serves secrets.
pub type Random = Arc<dyn Fn() -> [u8; CHALLENGE_BYTES + 1] + Send + Sync>;

/// Takes one line for the log.
pub type Notes = Arc<dyn Fn(&str) + Send + Sync>;

/// Bounds of one session. [`Settings::default`] has the values of the product.
#[derive(Clone)]
pub struct Settings {
    /// Commands at a time.
    pub commands_max: u32,
    /// Limit of bytes held for commands.
    pub payload_in_flight_max: u64,
    /// Size of the buffer for everything that is not received in place.
    pub staging_bytes: usize,
    /// A session from which nothing came for this long is asked whether it is there.
    pub ping_after: Nanos,
    /// A session that does not answer for this long is ended.
    pub silence_max: Nanos,
    /// A session for discovery is ended after this time.
    pub discovery_max: Nanos,
    /// A session for which nothing is under way is ended after this time.
    pub idle_max: Option<Nanos>,
    /// Before an export is opened the owner is asked where.
    pub asks_for_home: bool,
    /// Who may log in; `None` if everybody may.
    pub accounts: Option<Arc<Accounts>>,
    /// What all sessions share.
    pub node: Arc<Node>,
    /// Source of challenges. Without one there is no CHAP.
    pub random: Option<Random>,
    /// Where lines for the log go.
    pub notes: Option<Notes>,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Settings")
    }
}

impl Settings {
    /// The smallest staging: a header with all additional headers, a text of a login.
    const STAGING_BYTES_MIN: usize = 16 << 10;
    /// The smallest staging after the login: some headers with a block.
    const STAGING_BYTES_LEAST: usize = 8 << 10;

    /// Returns the settings, with invalid values replaced by the nearest valid ones.
    #[must_use]
    pub fn checked(mut self) -> Self {
        self.commands_max = self.commands_max.clamp(1, 1 << 14);
        self.payload_in_flight_max = self.payload_in_flight_max.max(2 * LARGEST_BYTES);
        self.staging_bytes = self.staging_bytes.max(Self::STAGING_BYTES_MIN);
        self
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
        const SECOND: Nanos = 1_000_000_000;
        Settings {
            commands_max: 128,
            payload_in_flight_max: 64 << 20,
            staging_bytes: 64 << 10,
            ping_after: 30 * SECOND,
            silence_max: 90 * SECOND,
            discovery_max: 60 * SECOND,
            idle_max: None,
            asks_for_home: false,
            accounts: None,
            node: Arc::default(),
            random: None,
            notes: None,
        }
    }
}
