//! A line of progress on a terminal, rewritten in place.

use std::io::{self, IsTerminal, Write};

/// See the module's documentation. Quiet people and those without a terminal see nothing.
pub struct Progress {
    is_on: bool,
    is_shown: bool,
}

impl Progress {
    /// Makes a progress line that shows nothing yet.
    #[must_use]
    pub fn new(is_quiet: bool) -> Progress {
        Progress {
            is_on: !is_quiet && io::stderr().is_terminal(),
            is_shown: false,
        }
    }

    /// Replaces the line by this text.
    pub fn show(&mut self, text: &str) {
        if self.is_on {
            eprint!("\r\x1b[K{text}");
            // A terminal that went away takes no progress, and needs none.
            let _ = io::stderr().flush();
            self.is_shown = true;
        }
    }

    /// Takes the line away.
    pub fn clear(&mut self) {
        if self.is_shown {
            eprint!("\r\x1b[K");
            self.is_shown = false;
        }
    }
}
