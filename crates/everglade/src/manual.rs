//! `everglade man`: made from the grammar, so that it says what the program does.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory;

use crate::args::{Args, Man};
use crate::exit::{self, Failure};

pub(crate) fn run(man: &Man) -> Result<ExitCode, Failure> {
    let grammar = Args::command();
    if let Some(folder) = &man.dir {
        write_all(&grammar, folder).map_err(|error| {
            let text = format!("cannot write into {}: {error}", folder.display());
            Failure::new(exit::FAILED, text)
        })?;
        return Ok(ExitCode::from(exit::OK));
    }
    print(&page(grammar).map_err(|error| Failure::new(exit::FAILED, error))?)
}

/// One page for the program and one for each verb.
fn write_all(grammar: &clap::Command, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    clap_mangen::generate_to(grammar.clone(), folder)
}

fn page(command: clap::Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command)
        .manual("Everglade")
        // The date of a page would change with every build.
        .date("")
        .render(&mut page)?;
    Ok(page)
}

/// A reader that has had enough is not a failure.
pub(crate) fn print(bytes: &[u8]) -> Result<ExitCode, Failure> {
    match io::stdout().write_all(bytes) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(exit::FAILED, error))
        }
        _ => Ok(ExitCode::from(exit::OK)),
    }
}
