//! SIGTERM and SIGINT: the first asks for an orderly stop, the second ends the process at once.
//!
//! An orderly stop writes a consistency point, which on a slow device may take seconds; an operator
//! who cannot wait sends the signal again. What clients had flushed is safe either way.
//!
//! SIGPIPE is already ignored by the Rust runtime, so a vanished reader of stdout is an error value.

use std::io;
use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::Stop;

/// Exit code of a process ended by a second signal: not clean, not refused, not broken.
const EXIT_CUT_SHORT: i32 = 1;

/// Starts listening; `stop` is asked at the first signal.
///
/// # Errors
/// The operating system refused the handlers or the thread.
pub fn watch(stop: Stop) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let listen = move || {
        for signal in signals.forever() {
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
        .spawn(listen)?;
    Ok(())
}
