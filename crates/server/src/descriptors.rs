//! Descriptors are a budget, as memory is (decision 0029).
//!
//! The limit of open files of the process is divided once, at the start, in this order:
//!
//! | owner | gets | because |
//! | --- | --- | --- |
//! | process | what it keeps open: its standard streams, lock, listeners, reactors, runtimes | nothing runs without them |
//! | devices | their own descriptors and those of at least `SEGMENTS_MIN` segment files | a consistency point must go on |
//! | administration | at least a few connections at each door, and files it opens for a moment | who wants to see what is wrong gets in |
//! | connections | what is left, at most `connections_max` of all protocols | they can wait |
//!
//! 1. Each owner keeps to its share by itself: `env` closes segment files, the doors of the
//!    administration drop silent connections, the reactors stop accepting. So EMFILE occurs only if
//!    the limit of the running process is lowered, or if the host has no descriptors.
//! 2. The daemon survives these two cases, too: openings wait (`env::device::budget`) and accepting
//!    pauses (`plane::gate`).
//! 3. First the soft limit is raised to the hard limit. This is safe because we use no call that
//!    fails with descriptors above 1,024.
//! 4. If the limit is too small for the smallest shares, the daemon refuses to start and names the
//!    number that it needs.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::config::FirstStart;
use crate::datadir::{DeviceKind, State};
use crate::{Config, StartError};

/// The bell, the poller, and the ring with its own bell.
const OF_A_REACTOR: usize = 4;
/// Descriptors of a runtime: a poller, its duplicate, and an eventfd.
const OF_A_RUNTIME: usize = 3;
/// The lock of the data directory, and both ends of the signals' pipe.
const OF_THE_START: usize = 3;
/// A socket that is accepted only to be closed, at each kind of door.
const PASSING: usize = 2;
/// Segment files that can be open at once. Fewer would be opened and closed all the time.
const SEGMENTS_MIN: usize = 4;
/// Devices gain nothing measured from more.
const DEVICES_MAX: usize = 4096;
/// Descriptors of a directory device. Other devices have one.
const OF_A_DIRECTORY: usize = 2;
/// Files that the administration opens for a moment: the history, `state.toml`, certificates,
/// `/proc`.
const FILES: usize = 8;
/// Least number of client connections with which the daemon starts.
const CONNECTIONS_MIN: usize = 2;
/// Least and most connections of a door of the administration.
const UNIX: (usize, usize) = (2, 64);
const TCP: (usize, usize) = (2, 64);
const METRICS: (usize, usize) = (1, 32);

/// Connections that each door of the administration may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// REST over the Unix socket.
    pub unix: usize,
    /// REST over TCP.
    pub tcp: usize,
    /// Metrics and health.
    pub metrics: usize,
}

/// The shares of descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// The limit of the process, for all owners together.
    pub limit: usize,
    /// The descriptors that it always keeps open.
    pub process: usize,
    /// Devices and their segment files.
    pub devices: usize,
    /// Connections of administrators and monitors.
    pub places: Places,
    /// Connections of clients; never more than configured.
    pub connections: u32,
}

/// The shares, and the use of those shares that are not counted elsewhere.
#[derive(Debug)]
pub struct Descriptors {
    /// The shares, as divided at the start.
    pub shares: Shares,
    /// The least limit at which clients have all the connections that are configured.
    enough: usize,
    administrators: AtomicUsize,
}

/// A connection of the administration, as long as it is open.
#[derive(Debug)]
pub struct Counted(Arc<Descriptors>);

/// Descriptors that clients of all protocols may need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clients {
    /// Descriptors of the sockets where they come in.
    pub listeners: usize,
    /// Connections at a time, as configured.
    pub connections_max: u32,
}

/// The needs of a configuration, before anything is opened.
#[derive(Clone, Copy, Debug)]
struct Needs {
    process: usize,
    /// Kept open by devices.
    pinned: usize,
    doors: Doors,
}

#[derive(Clone, Copy, Debug)]
struct Doors {
    unix: bool,
    tcp: bool,
    metrics: bool,
}

/// Raises the soft limit of open files to the hard limit, and returns the limit in force.
#[must_use]
pub fn raise_limit() -> usize {
    let found = getrlimit(Resource::Nofile);
    if found.current != found.maximum {
        let raised = Rlimit {
            current: found.maximum,
            maximum: found.maximum,
        };
        // If the system refuses, the present limit is divided.
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::debug!("the limit of open files cannot be raised: {error}");
        }
    }
    let now = getrlimit(Resource::Nofile).current;
    now.map_or(usize::MAX, |now| usize::try_from(now).unwrap_or(usize::MAX))
}

/// Descriptors that are open now. If the host does not tell, the number is three, as for every
/// process.
#[must_use]
pub fn open_now() -> usize {
    // One of the entries is the descriptor that reads the directory.
    fs::read_dir("/proc/self/fd").map_or(3, |files| files.count().saturating_sub(1))
}

impl Descriptors {
    /// Shares out `limit` for a start that finds `open` descriptors and has opened nothing itself.
    /// `state` is the record of the aggregates, `None` before the data directory is read.
    ///
    /// # Errors
    /// [`StartError::Descriptors`] with the number that is needed.
    pub fn share_out(
        limit: usize,
        open: usize,
        (config, clients): (&Config, Clients),
        state: Option<&State>,
    ) -> Result<Descriptors, StartError> {
        let needs = Needs::of(config, clients.listeners, open, state);
        let most = clients.connections_max;
        Ok(Descriptors {
            shares: needs.share_out(limit, most)?,
            enough: needs.enough(most),
            administrators: AtomicUsize::new(0),
        })
    }

    /// Counts a connection of the administration.
    #[must_use]
    pub fn count(self: &Arc<Self>) -> Counted {
        self.administrators.fetch_add(1, Ordering::Relaxed);
        Counted(Arc::clone(self))
    }

    /// Connections of the administration that are open now.
    #[must_use]
    pub fn administrators(&self) -> usize {
        self.administrators.load(Ordering::Relaxed)
    }

    /// Logs the consequence of the limit for clients, if there is one.
    pub fn tell(&self, connections_max: u32) {
        let Shares {
            limit,
            process,
            devices,
            connections,
            ..
        } = self.shares;
        let administration = self.shares.administration();
        tracing::debug!(
            "of {limit} descriptors the process has {process}, devices {devices}, \
             administration {administration}, connections {connections}"
        );
        if connections < connections_max {
            let enough = self.enough;
            tracing::warn!(
                "connections_max is lowered from {connections_max} to {connections}, because the \
                 limit of open files is {limit}; further clients wait until others disconnect; \
                 raise the limit to {enough} (LimitNOFILE= of the unit, or 'ulimit -n')"
            );
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.administrators.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Shares {
    /// Connections and files of the administration.
    #[must_use]
    pub fn administration(&self) -> usize {
        self.places.unix + self.places.tcp + self.places.metrics + FILES
    }
}

impl Needs {
    /// Returns the needs of a configuration. `of_clients`: descriptors of the clients' listeners.
    fn of(config: &Config, of_clients: usize, open: usize, state: Option<&State>) -> Needs {
        let doors = Doors {
            unix: config.api_unix.is_some(),
            tcp: config.api_tcp.is_some(),
            metrics: config.metrics.tcp.is_some(),
        };
        // The name of a Unix socket is kept beside the socket that is accepted from.
        let listeners = of_clients
            + 2 * usize::from(doors.unix)
            + usize::from(doors.tcp)
            + usize::from(doors.metrics);
        let runtimes = usize::from(doors.unix || doors.tcp) + usize::from(doors.metrics);
        Needs {
            process: open
                + OF_THE_START
                + listeners
                + config.reactors * OF_A_REACTOR
                + runtimes * OF_A_RUNTIME
                + PASSING,
            pinned: pinned(&config.first_start, state),
            doors,
        }
    }

    fn share_out(self, limit: usize, connections_max: u32) -> Result<Shares, StartError> {
        let bounds = |is_open: bool, bounds: (usize, usize)| if is_open { bounds } else { (0, 0) };
        let unix = bounds(self.doors.unix, UNIX);
        let tcp = bounds(self.doors.tcp, TCP);
        let metrics = bounds(self.doors.metrics, METRICS);
        let (least, most) = (
            FILES + unix.0 + tcp.0 + metrics.0,
            FILES + unix.1 + tcp.1 + metrics.1,
        );
        let devices_min = self.pinned + SEGMENTS_MIN;
        let needed = self.process + devices_min + least + CONNECTIONS_MIN;
        if limit < needed {
            return Err(StartError::Descriptors { limit, needed });
        }
        let rest = limit - self.process;
        let room = rest - devices_min - CONNECTIONS_MIN;
        let administration = (rest / 4).clamp(least, most).min(room);
        let place = |(min, max): (usize, usize)| match most - least {
            0 => min,
            span => min + (max - min) * (administration - least) / span,
        };
        let places = Places {
            unix: place(unix),
            tcp: place(tcp),
            metrics: place(metrics),
        };
        let rest = rest - administration;
        let connections_max = connections_max as usize;
        // Descriptors that clients cannot use are for devices.
        let devices = (rest / 2).max(rest.saturating_sub(connections_max));
        let devices = devices.clamp(devices_min, DEVICES_MAX.max(devices_min));
        let connections = (rest - devices).min(connections_max);
        Ok(Shares {
            limit,
            process: self.process,
            devices,
            places,
            connections: u32::try_from(connections).expect("at most what is configured"),
        })
    }
}

impl Needs {
    /// Returns the least limit that lowers nothing.
    fn enough(self, connections_max: u32) -> usize {
        let is_enough = |limit| {
            let shares = self.share_out(limit, connections_max);
            shares.is_ok_and(|shares| shares.connections == connections_max)
        };
        // Connections grow with the limit.
        let (mut few, mut enough) = (0, usize::MAX);
        while few + 1 < enough {
            let middle = few + (enough - few) / 2;
            match is_enough(middle) {
                true => enough = middle,
                false => few = middle,
            }
        }
        enough
    }
}

/// Descriptors that the devices keep open.
fn pinned(first: &FirstStart, state: Option<&State>) -> usize {
    let recorded = state.map_or(&[][..], |state| &state.aggregates);
    let devices = recorded.iter().flat_map(|aggregate| &aggregate.devices);
    let recorded: usize = devices
        .map(|device| match device.kind {
            DeviceKind::Directory => OF_A_DIRECTORY,
            DeviceKind::File | DeviceKind::Block => 1,
        })
        .sum();
    match recorded {
        // A first start makes a directory device. The kind of the journal's device is not known
        // yet.
        0 => OF_A_DIRECTORY * (1 + usize::from(first.journal.device.is_some())),
        recorded => recorded,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEEDS: Needs = Needs {
        process: 28,
        pinned: 2,
        doors: Doors {
            unix: true,
            tcp: false,
            metrics: true,
        },
    };

    #[test]
    fn the_shares_fit_into_the_limit_and_nobody_has_less_than_the_least() {
        let (mut served, mut refused) = (0, 0);
        for tcp in [false, true] {
            for connections_max in [1, 2, 100, 1024, 65_536] {
                for limit in (0..3000).chain([4096, 65_536, 1 << 30, usize::MAX]) {
                    let doors = Doors { tcp, ..NEEDS.doors };
                    let needs = Needs { doors, ..NEEDS };
                    let Ok(shares) = needs.share_out(limit, connections_max) else {
                        assert!(limit < 64, "{limit}");
                        refused += 1;
                        continue;
                    };
                    served += 1;
                    let connections = shares.connections as usize;
                    let sum = shares.process + shares.devices + shares.administration();
                    assert!(sum + connections <= limit, "{limit}: {shares:?}");
                    assert!(shares.devices >= NEEDS.pinned + SEGMENTS_MIN, "{shares:?}");
                    assert!(shares.places.unix >= 2 && shares.places.unix <= 64);
                    assert!(shares.places.metrics >= 1 && shares.places.metrics <= 32);
                    assert_eq!(shares.places.tcp == 0, !tcp);
                    assert!(shares.connections <= connections_max);
                    assert!(connections >= CONNECTIONS_MIN.min(connections_max as usize));
                }
            }
        }
        assert!(served > 0 && refused > 0);
    }

    #[test]
    fn a_limit_that_is_refused_names_the_least_that_is_not() {
        let Err(StartError::Descriptors { limit, needed }) = NEEDS.share_out(32, 1024) else {
            panic!("32 are too few");
        };
        assert_eq!(limit, 32);
        assert!(NEEDS.share_out(needed, 1024).is_ok());
        assert!(NEEDS.share_out(needed - 1, 1024).is_err());
    }

    #[test]
    fn an_ordinary_limit_lowers_nothing() {
        let shares = NEEDS.share_out(65_536, 1024).expect("plenty");
        let places = Places {
            unix: 64,
            tcp: 0,
            metrics: 32,
        };
        assert_eq!((shares.connections, shares.places), (1024, places));
        assert_eq!(shares.devices, DEVICES_MAX);
        let shares = NEEDS.share_out(4096, 1024).expect("enough");
        assert_eq!(shares.connections, 1024);
    }

    #[test]
    fn what_is_said_to_be_enough_is_the_least_that_is() {
        for connections_max in [2, 1024, 65_536] {
            let enough = NEEDS.enough(connections_max);
            let connections = |limit| NEEDS.share_out(limit, connections_max);
            let at = |limit| connections(limit).map_or(0, |shares| shares.connections);
            assert_eq!(at(enough), connections_max);
            assert!(at(enough - 1) < connections_max);
        }
    }
}
