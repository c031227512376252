//! The REST interface: HTTP/1.1 on a Unix socket, for the command line and for scripts (CONVENTIONS, "REST and
//! metrics"; every path is in `docs/reference/rest.md`).
//!
//! One thread of its own drives all connections; the data plane is reached through the
//! [`Administrator`] alone. What changes something may wait for a consistency
//! point, so it runs on a thread that may block, and never on this one.
//!
//! accepted → request read → routed → looked up here, or done at a `desk` → answered → closed
//!
//! Everything is bounded, because a client may be hostile or stuck: connections at a time, bytes of a request,
//! time to send it, changes at a time, time to wait for a change, time a connection may live. A connection
//! carries one request.
//!
//! Who may connect is said by the mode of the socket, 0600.

mod aggregates;
mod answer;
mod body;
mod connections;
mod desk;
mod luns;
mod overview;
mod routes;
mod volumes;

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use everglade_env::net::Listener;
use tokio::sync::watch;

use crate::Stop;
use crate::datadir::Endpoints;
use crate::reactor::Administrator;
use desk::Desk;

/// How long the last answers may take once the data plane has ended.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

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
    listener: Listener,
    administrator: Arc<Administrator>,
    endpoints: Endpoints,
    stop: &Stop,
) -> io::Result<Rest> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(desk::CHANGES_MAX)
        .build()?;
    let (ask, asked) = watch::channel(false);
    // Nobody listens any more if the interface ended by itself.
    stop.on_ask(move || _ = ask.send(true));
    let desk = Arc::new(Desk::new(administrator, endpoints));
    let run = move || {
        let served = runtime.block_on(connections::serve(listener, desk, asked));
        if let Err(error) = served {
            tracing::error!("the REST interface ended early: {error}");
        }
        runtime.shutdown_timeout(STOP_PATIENCE);
    };
    let thread = std::thread::Builder::new()
        .name("rest".to_owned())
        .spawn(run)?;
    Ok(Rest { thread })
}

impl Rest {
    /// Waits for the end after a stop.
    pub fn wait(self) {
        if self.thread.join().is_err() {
            tracing::error!("the REST interface ended by a panic");
        }
    }
}
