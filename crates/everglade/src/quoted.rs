//! Commands that messages quote, such as `'policy set VOLUME none'`: the grammar has them, with
//! their options. Whether they help is shown by a table (`tests/it/manage/remedies.rs`).

use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory};

use crate::args::Args;

/// Crates whose messages users never see.
const RIGS: [&str; 3] = ["planted", "testing", "torture"];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).expect("a folder");
    for path in entries.map(|entry| entry.expect("an entry").path()) {
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|it| it == "rs") {
            found.push(path);
        }
    }
}

/// Returns the text with strings over several lines as one line.
fn joined(text: &str) -> String {
    let mut parts = text.split("\\\n");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, part| all + part.trim_start())
}

/// Returns what is between single quotes and begins with a noun and a word after it.
fn quoted<'a>(text: &'a str, nouns: &Command) -> Vec<&'a str> {
    let parts = text.split('\'');
    let commands = parts.map(|part| part.strip_prefix("everglade ").unwrap_or(part));
    let is_command = |part: &&str| {
        let mut words = part.split(' ');
        let noun = words.next().and_then(|word| nouns.find_subcommand(word));
        let second = words.next().unwrap_or_default();
        let is_word = second.starts_with(|first: char| first.is_ascii_lowercase());
        !part.contains('\n') && noun.is_some_and(Command::has_subcommands) && is_word
    };
    commands.filter(is_command).collect()
}

/// Returns what is wrong with a command.
fn mistake(command: &str, grammar: &Command) -> Option<String> {
    let mut found = grammar;
    let mut words = command.split(' ').peekable();
    while let Some(next) = words.peek().and_then(|word| found.find_subcommand(word)) {
        found = next;
        words.next();
    }
    if found.has_subcommands() {
        return Some(format!("{command:?} names no verb"));
    }
    let of = |command: &Command, option: &str| {
        let mut options = command.get_arguments();
        options.any(|it| it.get_long() == Some(option))
    };
    let mut options = words.filter_map(|word| word.strip_prefix("--"));
    let unknown = options.find(|option| {
        let name = option.split(['=', ',', ';']).next().unwrap_or_default();
        !of(found, name) && !of(grammar, name)
    });
    unknown.map(|option| format!("{command:?} has an option --{option} that is not there"))
}

#[test]
fn commands_in_messages_are_in_the_grammar() {
    let grammar = Args::command();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for entry in std::fs::read_dir(crates).expect("the crates") {
        let folder = entry.expect("an entry").path();
        let name = folder.file_name().unwrap_or_default();
        if RIGS.iter().all(|rig| name != *rig) && folder.join("src").is_dir() {
            sources(&folder.join("src"), &mut files);
        }
    }
    let (mut count, mut mistakes) = (0, Vec::new());
    // The examples below are wrong on purpose.
    files.retain(|file| !file.ends_with("everglade/src/quoted.rs"));
    for file in files {
        let text = joined(&std::fs::read_to_string(&file).expect("a source"));
        for command in quoted(&text, &grammar) {
            count += 1;
            let mistake = mistake(command, &grammar);
            mistakes.extend(mistake.map(|text| format!("{}: {text}", file.display())));
        }
    }
    assert_eq!(mistakes, Vec::<String>::new());
    assert!(count > 30, "{count} commands were found");
}

#[test]
fn what_is_not_in_the_grammar_is_found() {
    let grammar = Args::command();
    let text = joined("run 'policy \\\n    set v none', 'lun explode', 'lun show --colour' or not");
    let commands = quoted(&text, &grammar);
    assert_eq!(
        commands,
        ["policy set v none", "lun explode", "lun show --colour"]
    );
    let wrong = commands.iter().map(|command| mistake(command, &grammar));
    let wrong: Vec<bool> = wrong.map(|mistake| mistake.is_some()).collect();
    assert_eq!(wrong, [false, true, true]);
}
