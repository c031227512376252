//! `everglade help lun create`: the same text as `everglade lun create --help`, by words.

use std::process::ExitCode;

use clap::CommandFactory;

use crate::args::{Args, Help};
use crate::exit::{self, Failure};
use crate::manual;

pub(crate) fn run(help: &Help) -> Result<ExitCode, Failure> {
    manual::print(text(&help.words)?.as_bytes())
}

fn text(words: &[String]) -> Result<String, Failure> {
    let mut grammar = Args::command();
    grammar.build();
    let mut at = &mut grammar;
    for (depth, word) in words.iter().enumerate() {
        if at.find_subcommand(word).is_none() {
            let before = ["everglade"].into_iter();
            let before = before.chain(words[..depth].iter().map(String::as_str));
            let before: Vec<_> = before.collect();
            return Err(unknown(at, word, &before.join(" ")));
        }
        at = at.find_subcommand_mut(word).expect("it was found just now");
    }
    Ok(at.render_long_help().to_string())
}

fn unknown(command: &clap::Command, word: &str, before: &str) -> Failure {
    let known = command.get_subcommands().filter(|it| !it.is_hide_set());
    let known: Vec<_> = known.map(clap::Command::get_name).collect();
    let text = match known.is_empty() {
        true => format!("'{before}' has no verbs, so leave out {word:?}"),
        false => format!("'{before}' has no {word:?}; it has {}", known.join(", ")),
    };
    Failure::new(exit::USAGE, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(words: &[&str]) -> Result<String, String> {
        let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
        text(&words).map_err(|failure| {
            assert_eq!(failure.code, exit::USAGE);
            failure.message
        })
    }

    #[test]
    fn help_is_that_of_the_program_a_noun_or_a_verb() {
        for (words, part) in [
            (&[][..], "Usage: everglade [OPTIONS] <COMMAND>"),
            (&["lun"], "Usage: everglade lun [OPTIONS] <COMMAND>"),
            (&["lun", "create"], "--size <SIZE>"),
            (&["clone", "split", "start"], "--wait"),
            (&["serve"], "--nbd-tcp"),
            (&["help"], "[WORD]"),
        ] {
            let text = said(words).expect("it exists");
            assert!(text.contains(part), "{words:?}: {text}");
        }
    }

    #[test]
    fn what_does_not_exist_is_said_with_what_does() {
        let text = said(&["lum"]).expect_err("a mistake");
        assert!(text.contains("'everglade' has no \"lum\""), "{text}");
        assert!(text.contains("volume, lun, snapshot"), "{text}");
        let text = said(&["lun", "make"]).expect_err("a mistake");
        assert!(text.contains("create, show, resize"), "{text}");
        let text = said(&["status", "now"]).expect_err("a mistake");
        assert!(text.contains("'everglade status' has no verbs"), "{text}");
    }
}
