//! Usage errors. Like all other errors they are printed in one line, which names the argument and
//! the remedy.
//!
//! clap's own messages are a paragraph with tips, and the usage of the verb below it. Their parts
//! are put in a row.

use clap::CommandFactory;
use clap::error::ErrorKind;

use crate::args::Args;

/// The line, or nothing where it is no mistake: help, a version, or a noun without a verb, which
/// gets its help.
pub(crate) fn line(error: &clap::Error) -> Option<String> {
    match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => return None,
        _ => {}
    }
    let text = error.render().to_string();
    let mut parts: Vec<String> = Vec::new();
    for line in text.trim_start_matches("error: ").lines().map(str::trim) {
        if line.starts_with("Usage:") || line.starts_with("For more information") {
            break;
        }
        match (line.strip_prefix("tip: "), parts.last_mut()) {
            _ if line.is_empty() => {}
            (Some(tip), _) => parts.push(tip.to_owned()),
            // What belongs to the line before: missing arguments, possible values.
            (None, Some(last)) => {
                last.push(' ');
                last.push_str(line);
            }
            (None, None) => parts.push(line.to_owned()),
        }
    }
    parts.push(usage_in(&text).unwrap_or_else(|| "--help says more".to_owned()));
    Some(parts.join("; "))
}

/// How the verb is used whose usage clap has printed: with all that must be given, not with what
/// was.
fn usage_in(text: &str) -> Option<String> {
    let printed = text
        .lines()
        .find_map(|line| line.strip_prefix("Usage: everglade"))?;
    let mut command = Args::command();
    command.build();
    let mut at = &mut command;
    for word in printed.split_whitespace() {
        if at.find_subcommand(word).is_none() {
            break;
        }
        at = at.find_subcommand_mut(word)?;
    }
    let usage = at.render_usage().to_string();
    let usage = usage.split_whitespace().collect::<Vec<_>>().join(" ");
    Some(usage.replacen("Usage:", "usage:", 1))
}

/// Returns whether a command line that cannot be understood asks for JSON.
pub(crate) fn asks_for_json() -> bool {
    let mut words = std::env::args_os().skip(1).take_while(|word| word != "--");
    let value = std::env::var("EVERGLADE_JSON").unwrap_or_default();
    words.any(|word| word == "--json") || is_true(&value)
}

/// Returns whether the value of a variable turns a switch on, as clap reads it.
fn is_true(value: &str) -> bool {
    !matches!(
        value.to_lowercase().as_str(),
        "" | "n" | "no" | "f" | "false" | "off" | "0"
    )
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn said(words: &[&str]) -> Option<String> {
        let words = std::iter::once(&"everglade").chain(words);
        line(&Args::try_parse_from(words).expect_err("wrong"))
    }

    #[test]
    fn wrong_usage_is_one_line_with_what_is_wrong_and_what_is_right() {
        for (words, parts) in [
            (
                &["lun", "create", "v/l", "--data-dir", "/d"][..],
                &[
                    "--size <SIZE>",
                    "usage: everglade lun create [OPTIONS] --size <SIZE> <VOLUME/LUN>",
                ][..],
            ),
            (
                &["lun", "create", "v/l", "--sise", "1G"],
                &["'--sise'", "'--size'", "usage: "],
            ),
            (
                &["lun", "create", "v/../l", "--size", "1G"],
                &["\"../l\"", "use 1 to 64"],
            ),
            (
                &["volume", "create", "v", "--sync", "never"],
                &["'never'", "standard, always"],
            ),
            (
                &["volume", "rename", "v"],
                &["<NEW>", "usage: everglade volume rename"],
            ),
            (&["frobnicate"], &["frobnicate"]),
            (&["serve", "--memory", "lots"], &["lots", "--memory"]),
            (
                &[
                    "snapshot",
                    "restore",
                    "v@s",
                    "--discard-newer",
                    "--safety-snapshot",
                    "x",
                ],
                &["--discard-newer", "--safety-snapshot"],
            ),
        ] {
            let said = said(words).expect("a mistake");
            assert_eq!(said.lines().count(), 1, "{said}");
            for part in parts {
                assert!(said.contains(part), "{words:?}: {part} is not in: {said}");
            }
            assert!(
                !said.contains("error:") && !said.contains("For more"),
                "{said}"
            );
        }
    }

    #[test]
    fn a_switch_in_the_environment_is_read_as_clap_reads_it() {
        use clap::builder::{FalseyValueParser, TypedValueParser};
        let command = Args::command();
        for value in ["0", "no", "False", "off", "f", "n", "1", "yes", "true", "x"] {
            let parser = FalseyValueParser::new();
            let read = parser.parse_ref(&command, None, value.as_ref());
            assert_eq!(read.ok(), Some(is_true(value)), "{value}");
        }
    }

    #[test]
    fn help_is_no_mistake() {
        for words in [&["--help"][..], &["--version"], &["lun", "create", "-h"]] {
            assert_eq!(said(words), None, "{words:?}");
        }
    }
}
