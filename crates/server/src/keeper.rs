//! The keeper: a thread that stores reservations of LUNs in their aggregates (decision 0046).
//!
//! Sessions call it when a change waits. It takes all changes that wait, and writes them with one
//! consistency point for each aggregate, so many changes in a row are a few writes.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;

use everglade_target::reservations::Registry;

use crate::Stop;
use crate::administrator::Administrator;

/// What the keeper is told.
enum Call {
    /// Changes wait.
    Keep,
    /// The daemon ends.
    End,
}

/// The way to the keeper, before its thread runs.
pub(crate) struct Calls {
    sender: Sender<Call>,
    receiver: Receiver<Call>,
}

/// The running keeper.
pub(crate) struct Keeper {
    thread: JoinHandle<()>,
}

/// Returns the reservations of all protocols, and the calls for their keeper.
pub(crate) fn registry() -> (Arc<Registry>, Calls) {
    let (sender, receiver) = mpsc::channel();
    let call = sender.clone();
    // Nobody is called after the end; changes that wait then are never answered.
    let registry = Registry::with_keeper(move || _ = call.send(Call::Keep));
    (Arc::new(registry), Calls { sender, receiver })
}

/// Starts the thread. Calls of earlier changes are answered, too.
///
/// # Errors
/// The system gives no thread.
pub(crate) fn start(
    administrator: Arc<Administrator>,
    calls: Calls,
    stop: &Stop,
) -> io::Result<Keeper> {
    let Calls { sender, receiver } = calls;
    stop.on_ask(move || _ = sender.send(Call::End));
    let run = move || {
        while let Ok(Call::Keep) = receiver.recv() {
            administrator.keep_reservations();
        }
    };
    let thread = crate::background::spawn("reservations", run)?;
    Ok(Keeper { thread })
}

impl Keeper {
    /// Waits for the end after a stop.
    pub(crate) fn wait(self) {
        if self.thread.join().is_err() {
            tracing::error!("the keeper of reservations ended by a panic");
        }
    }
}
