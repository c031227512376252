//! The command line of the rigs.

use std::path::PathBuf;

pub(crate) const USAGE: &str = "everglade-torture [--kills N] [--cuts N] [--seed N] \
    [--server NAME] [--folder DIR] [--planted BUG]";

pub(crate) struct Arguments {
    pub(crate) kills: u64,
    pub(crate) cuts: u64,
    pub(crate) seed: u64,
    /// The binary under torture, one beside this program.
    pub(crate) everglade: PathBuf,
    /// Where its files go.
    pub(crate) folder: PathBuf,
    /// A bug to switch on, and to find.
    pub(crate) planted: Option<String>,
}

impl Arguments {
    pub(crate) fn read(words: impl Iterator<Item = String>) -> Result<Arguments, String> {
        let mut arguments = Arguments {
            kills: 0,
            cuts: 0,
            seed: seed_of_the_moment(),
            everglade: beside_this_program("everglade"),
            folder: std::env::temp_dir(),
            planted: None,
        };
        let mut words = words;
        while let Some(option) = words.next() {
            let mut value = || words.next().ok_or(format!("{option} needs a value"));
            match option.as_str() {
                "--kills" => arguments.kills = number(&value()?)?,
                "--cuts" => arguments.cuts = number(&value()?)?,
                "--seed" => arguments.seed = number(&value()?)?,
                "--server" => arguments.everglade = beside_this_program(&value()?),
                "--folder" => arguments.folder = value()?.into(),
                "--planted" => arguments.planted = Some(value()?),
                _ => return Err(format!("did not understand '{option}'")),
            }
        }
        if arguments.kills == 0 && arguments.cuts == 0 {
            return Err("nothing to do".to_owned());
        }
        if arguments.planted.is_some() && arguments.kills > 0 {
            return Err("planted bugs are for cuts".to_owned());
        }
        Ok(arguments)
    }
}

fn number(word: &str) -> Result<u64, String> {
    word.parse()
        .map_err(|_| format!("'{word}' is not a number"))
}

fn seed_of_the_moment() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(1, |since| {
        u64::from(since.subsec_nanos()) << 10 ^ since.as_secs()
    })
}

fn beside_this_program(name: &str) -> PathBuf {
    let this = std::env::current_exe().unwrap_or_default();
    this.with_file_name(name)
}
