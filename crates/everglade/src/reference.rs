//! `everglade reference`: parts of the reference, made from the program itself. `cargo xtask gen`
//! puts them into documents, and its check fails when one is stale.

use std::fmt::Write as _;
use std::process::ExitCode;

use clap::CommandFactory;
use everglade_server::{metrics, openapi};

use crate::args::{Args, Part, Reference};
use crate::exit::{self, Failure};

pub(crate) fn run(reference: &Reference) -> Result<ExitCode, Failure> {
    match reference.part {
        Part::Openapi => println!("{:#}", openapi::document()),
        Part::Paths => print!("{}", paths()),
        Part::Metrics => print!("{}", metrics::table::markdown()),
        Part::CommandLine => print!("{}", command_line()),
    }
    Ok(ExitCode::from(exit::OK))
}

/// The table of paths, in Markdown.
fn paths() -> String {
    let mut text = String::from("| path | method | does | role |\n| --- | --- | --- | --- |\n");
    let mut last = "";
    for route in openapi::ROUTES {
        let path = if route.path == last {
            String::new()
        } else {
            format!("`{}`", route.path)
        };
        last = route.path;
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "| {path} | {} | {} | {} |",
            route.method, route.summary, route.role
        );
    }
    text
}

/// The help of the program and of every verb, without the options that all have.
fn command_line() -> String {
    let mut grammar = Args::command();
    grammar.build();
    let mut text = String::new();
    describe(&grammar, "everglade", true, &mut text);
    text
}

fn describe(command: &clap::Command, title: &str, with_globals: bool, text: &mut String) {
    let verbs: Vec<_> = command
        .get_subcommands()
        .filter(|verb| !verb.is_hide_set())
        .collect();
    // A noun alone does nothing; its verbs are in its place.
    if verbs.is_empty() || with_globals {
        let mut shown = command.clone().term_width(100).bin_name(title);
        if !with_globals {
            shown = shown.mut_args(|argument| {
                let is_global = argument.is_global_set();
                argument.hide(is_global)
            });
        }
        let help = shown.render_help().to_string();
        let lines: Vec<_> = help.lines().map(str::trim_end).collect();
        let _ = write!(
            text,
            "\n## {title}\n\n```text\n{}\n```\n",
            lines.join("\n").trim_end()
        );
    }
    for verb in verbs {
        let title = format!("{title} {}", verb.get_name());
        describe(verb, &title, false, text);
    }
}
