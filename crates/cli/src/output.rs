//! Destinations of output: data to stdout, messages to stderr and only to a terminal.

use std::io::{self, IsTerminal, Write};

use everglade_api::Size;
use serde_json::Value;

use crate::failure::{Failure, exit};

/// The form of output.
pub struct Output {
    json: bool,
    quiet: bool,
}

impl Output {
    /// Makes an output as JSON or text; with `quiet`, only results are printed.
    #[must_use]
    pub fn new(json: bool, quiet: bool) -> Output {
        Output { json, quiet }
    }

    /// Prints the daemon's JSON, or text for people.
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

    /// Prints the object that a change created, unless the output is quiet.
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

    /// Prints JSON for a program; people get [`Output::done`].
    pub(crate) fn for_programs(&self, raw: &Value) -> Result<(), Failure> {
        if self.json {
            return print(&format!("{raw:#}\n"));
        }
        Ok(())
    }

    /// Prints the id of a job for scripts: alone, and only if stdout is no terminal. JSON has it
    /// already.
    pub(crate) fn id(&self, id: u64) -> Result<(), Failure> {
        if self.json || self.quiet || io::stdout().is_terminal() {
            return Ok(());
        }
        print(&format!("{id}\n"))
    }

    /// Prints one of many items that follow each other: JSON is one line then.
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

    /// Returns whether the output is JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Prints a piece of a document that is too long to be printed at once.
    pub(crate) fn piece(&self, text: &str) -> Result<(), Failure> {
        print(text)
    }

    /// Returns whether progress is hidden.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Prints that a change without a result to show was made.
    pub(crate) fn done(&self, text: &str) {
        if !self.quiet && io::stderr().is_terminal() {
            eprintln!("{text}");
        }
    }
}

/// Prints text. A reader that has closed the pipe (`| head`) is not a failure.
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

/// Returns a size for people, or exact to the byte.
pub(crate) fn size(bytes: u64, exact: bool) -> String {
    if exact {
        bytes.to_string()
    } else {
        Size(bytes).to_string()
    }
}
