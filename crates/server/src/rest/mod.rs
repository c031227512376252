//! The REST interface: HTTP/1.1 on a Unix socket, and on TCP if that is configured, for the command
//! line and for scripts (docs/reference/conventions.md#rest-and-metrics; every path is in
//! `docs/reference/paths.md`).
//!
//! One thread of its own drives all connections; the data plane is reached through the
//! [`Administrator`] alone. A change may wait for a consistency point, so it runs on a thread that
//! may block, and never on this thread.
//!
//! accepted → request read → caller identified → replayed? (`once`) → routed → read here, or run at
//! a `desk` → answered → closed
//!
//! Everything is bounded, because a client may be hostile or stuck: connections at a time, bytes of
//! a request, time to send it, changes at a time, time to wait for a change, time a connection may
//! live. A connection carries one request.
//!
//! The listening sockets do not compete: each has its own limit of connections (`connections`), and
//! a silent connection loses its place to a new caller (`silent`). Unknown tokens are counted,
//! logged and slowed down (`attempts`).
//!
//! The mode of the Unix socket, 0600, limits who may connect; over TCP a token names the caller
//! (`guard`, `tokens`).

mod aggregates;
mod answer;
pub mod attempts;
mod body;
mod caller;
pub(crate) mod connections;
mod console;
mod desk;
mod entity;
mod flags;
mod garden;
pub(crate) mod guard;
mod happenings;
mod hosts;
mod jobs;
mod keys;
mod limits;
mod listing;
mod luns;
mod once;
mod overview;
mod policies;
mod removal;
mod repairs;
mod routes;
mod scrubs;
mod secrets;
mod sessions;
mod silent;
mod snapshots;
mod spares;
mod splits;
pub mod tokens;
mod trash;
mod volumes;

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use everglade_api::openapi::Role;
use everglade_env::net::Listener;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::administrator::Administrator;
use crate::datadir::Endpoints;
use crate::records::Records;
use crate::tls::Certificates;
use crate::{Descriptors, Stop};
use attempts::Attempts;
use connections::{Connections, Door};
use desk::Desk;
use guard::Keys;
use tokens::Tokens;

/// Time left to write an answer at the stop.
const MOMENT: Duration = Duration::from_millis(500);
/// Time limit for the last answers once the data plane has ended.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// The sockets on which administrators connect.
#[derive(Debug, Default)]
pub struct Doors {
    /// The Unix socket, for the user of this process.
    pub unix: Option<Listener>,
    /// The TCP socket, for callers with a token.
    pub tcp: Option<Remote>,
    /// Tokens of these callers.
    pub tokens: Arc<Tokens>,
}

/// The TCP socket, for callers with a token.
#[derive(Debug)]
pub struct Remote {
    /// Bound.
    pub socket: TcpListener,
    /// Certificates for TLS; `None` without encryption.
    pub tls: Option<Arc<Certificates>>,
    /// What browsers of this machine may do in the console without a token.
    pub console_loopback: Option<Role>,
}

impl Doors {
    /// Returns whether there is no socket.
    #[must_use]
    pub fn are_shut(&self) -> bool {
        self.unix.is_none() && self.tcp.is_none()
    }
}

/// The running interface.
#[derive(Debug)]
pub struct Rest {
    thread: JoinHandle<()>,
}

/// Starts answering.
///
/// # Errors
/// The system gives no thread or descriptors.
pub fn start(
    doors: Doors,
    (administrator, records, endpoints): (Arc<Administrator>, Arc<Records>, Endpoints),
    (descriptors, attempts): (&Arc<Descriptors>, &Arc<Attempts>),
    stop: &Stop,
) -> io::Result<Rest> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(desk::CHANGES_MAX)
        .build()?;
    let (ask, asked) = watch::channel(false);
    // If the interface has ended by itself, the receiver is gone.
    stop.on_ask(move || _ = ask.send(true));
    let tokens = Arc::clone(&doors.tokens);
    let desk = Arc::new(Desk::new(
        administrator,
        records,
        (endpoints, tokens),
        asked,
    ));
    let (descriptors, attempts) = (Arc::clone(descriptors), Arc::clone(attempts));
    let run = move || {
        runtime.block_on(serve(doors, &desk, &descriptors, attempts));
        runtime.shutdown_timeout(STOP_PATIENCE);
    };
    let thread = crate::background::spawn("rest", run)?;
    Ok(Rest { thread })
}

/// Answers at both doors until the stop, then lets those who are being answered finish.
async fn serve(
    doors: Doors,
    desk: &Arc<Desk>,
    descriptors: &Arc<Descriptors>,
    attempts: Arc<Attempts>,
) {
    let unix = doors.unix.map(Door::Unix);
    let tcp = doors.tcp.map(|remote| {
        let keys = Keys {
            tokens: doors.tokens,
            attempts,
            console_loopback: remote.console_loopback,
            is_encrypted: remote.tls.is_some(),
        };
        Door::Tcp(remote.socket, keys, remote.tls)
    });
    let places = descriptors.shares.places;
    tokio::join!(
        serve_one(unix, places.unix, desk, descriptors),
        serve_one(tcp, places.tcp, desk, descriptors)
    );
}

async fn serve_one(
    door: Option<Door>,
    connections_max: usize,
    desk: &Arc<Desk>,
    descriptors: &Arc<Descriptors>,
) {
    let Some(door) = door else {
        return;
    };
    let routes = routes::all(Arc::clone(desk));
    let mut connections = Connections::new(routes, connections_max, descriptors, desk.stopping());
    if let Err(error) = connections.accept(door).await {
        tracing::error!("the REST interface ended early: {error}");
    }
    let enough = async {
        sleep(MOMENT).await;
        desk.settle().await;
        sleep(MOMENT).await;
    };
    // Callers that wait for a change are answered once the data plane has ended. Silent connections
    // are dropped.
    tokio::select! {
        () = connections.ended() => {}
        () = enough => {}
    }
}

impl Rest {
    /// Waits for the end after a stop.
    pub fn wait(self) {
        if self.thread.join().is_err() {
            tracing::error!("the REST interface ended by a panic");
        }
    }
}
