//! SIGTERM and SIGINT: the first one asks for a clean stop, the second one ends the process at
//! once. SIGHUP reads the certificates again.
//!
//! A clean stop writes a consistency point, which on a slow device may take seconds; an operator
//! who cannot wait sends the signal again. Flushed data is safe either way.
//!
//! SIGPIPE is already ignored by the Rust runtime, so a vanished reader of stdout is an error
//! value.

use std::sync::Arc;
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::tls::Certificates;
use crate::{StartError, Stop};
use everglade_env::lock::Mutex;

/// Exit code of a process ended by a second signal: not clean, not refused, not broken.
const EXIT_CUT_SHORT: i32 = 1;

/// The files to read again. Clones share the list.
#[derive(Clone, Debug, Default)]
pub struct Again(Arc<Mutex<Vec<Arc<Certificates>>>>);

impl Again {
    /// Adds certificates to reload, and returns them.
    #[must_use]
    pub fn add(&self, certificates: Arc<Certificates>) -> Arc<Certificates> {
        let mut all = self.0.lock();
        all.push(Arc::clone(&certificates));
        certificates
    }

    fn read(&self) {
        let all = self.0.lock();
        if all.is_empty() {
            tracing::info!("SIGHUP: there are no certificates to read again");
        }
        for certificates in all.iter() {
            if let Err(error) = certificates.read_again() {
                tracing::error!("SIGHUP: {error}; the certificates of before stay in use");
            }
        }
    }
}

/// Starts listening for signals; the first one requests the stop.
///
/// # Errors
/// [`StartError::System`]: the operating system refused the handlers or the thread.
pub fn watch(stop: Stop, again: Again) -> Result<(), StartError> {
    let refused = |source| StartError::System {
        action: "listen for signals",
        source,
    };
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(refused)?;
    let listen = move || {
        for signal in signals.forever() {
            if signal == SIGHUP {
                again.read();
                continue;
            }
            let name = if signal == SIGINT {
                "SIGINT"
            } else {
                "SIGTERM"
            };
            if stop.is_asked() {
                tracing::warn!("{name} again: stopping at once, without a consistency point");
                std::process::exit(EXIT_CUT_SHORT);
            }
            tracing::info!("{name}: stopping; send it again to stop at once");
            stop.ask();
        }
    };
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(listen)
        .map_err(refused)?;
    Ok(())
}
