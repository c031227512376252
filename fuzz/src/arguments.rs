//! The command line.

use std::path::PathBuf;
use std::time::Duration;

pub(crate) const USAGE: &str = "everglade-fuzz [TARGET …] [--seconds N] [--seed N] [--replay FILE]";

pub(crate) struct Arguments {
    /// Of all targets together.
    pub(crate) time: Duration,
    pub(crate) seed: u64,
    pub(crate) replay: Option<PathBuf>,
    names: Vec<String>,
}

impl Arguments {
    pub(crate) fn read(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
        let mut arguments = Arguments {
            time: Duration::from_secs(30),
            seed: 1,
            replay: None,
            names: Vec::new(),
        };
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} needs a value"));
            match word.as_str() {
                "--seconds" => arguments.time = Duration::from_secs(number(&value()?)?),
                "--seed" => arguments.seed = number(&value()?)?,
                "--replay" => arguments.replay = Some(value()?.into()),
                _ if word.starts_with('-') => return Err(format!("did not understand '{word}'")),
                _ => arguments.names.push(word),
            }
        }
        Ok(arguments)
    }

    /// All are chosen where none is named.
    pub(crate) fn chooses(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|chosen| chosen == name)
    }
}

fn number(word: &str) -> Result<u64, String> {
    word.parse()
        .map_err(|_| format!("'{word}' is not a number"))
}
