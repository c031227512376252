//! Where words go: data to stdout, messages to stderr and only to a terminal.

use std::io::{self, IsTerminal, Write};

use everglade_api::Size;
use serde_json::Value;

use crate::failure::{Failure, exit};

/// How to speak.
pub struct Output {
    json: bool,
    quiet: bool,
}

impl Output {
    /// In JSON, or in words; nothing but results for quiet people.
    #[must_use]
    pub fn new(json: bool, quiet: bool) -> Output {
        Output { json, quiet }
    }

    /// The daemon's own words, or the same for people.
    pub(crate) fn data(
        &self,
        raw: &Value,
        for_people: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        let text = if self.json {
            format!("{raw:#}\n")
        } else {
            for_people()
        };
        print(&text)
    }

    /// What a change made: quiet people need not see it.
    pub(crate) fn made(
        &self,
        raw: &Value,
        for_people: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        if self.quiet && !self.json {
            return Ok(());
        }
        self.data(raw, for_people)
    }

    /// JSON, where a program reads; people are told by [`Output::done`].
    pub(crate) fn for_programs(&self, raw: &Value) -> Result<(), Failure> {
        if self.json {
            return print(&format!("{raw:#}\n"));
        }
        Ok(())
    }

    /// One of many that follow each other: JSON is one line then.
    pub(crate) fn stream(
        &self,
        raw: &Value,
        for_people: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        let text = if self.json {
            raw.to_string()
        } else {
            for_people()
        };
        print(&format!("{}\n", text.trim_end_matches('\n')))
    }

    /// Whether a program reads it.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// A piece of something that is too long to be printed at once.
    pub(crate) fn piece(&self, text: &str) -> Result<(), Failure> {
        print(text)
    }

    /// Nobody wants to see progress.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// That something was done which leaves nothing to show.
    pub(crate) fn done(&self, text: &str) {
        if !self.quiet && io::stderr().is_terminal() {
            eprintln!("{text}");
        }
    }
}

/// A reader that has had enough (`| head`) is not a failure.
fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let text = format!("cannot write to stdout: {error}");
            Err(Failure::new(exit::FAILED, text))
        }
        _ => Ok(()),
    }
}

/// A size for people, or to the byte.
pub(crate) fn size(bytes: u64, exact: bool) -> String {
    if exact {
        bytes.to_string()
    } else {
        Size(bytes).to_string()
    }
}
