//! Repository commands: `cargo xtask VERB`. Standard library only, so that it builds in seconds
//! before anything else does; whatever needs our crates is a binary of `testing`, started from
//! here.
//!
//! Every command that runs several things keeps a [`tally::Tally`] and ends with one plain line,
//! `N passed, N failed[, N skipped]`; the exit code is 1 if anything failed, 2 for wrong usage.

mod axe;
mod bench;
mod check;
mod dist;
mod fuzz;
mod generate;
mod guest;
mod judge;
mod picture;
mod place;
mod planted;
mod sim;
mod step;
mod tally;
mod test;
mod tidy;
mod tools;
mod torture;

use std::process::ExitCode;

/// A verb: its name, its arguments, what it does, and the function that does it.
struct Verb {
    name: &'static str,
    arguments: &'static str,
    summary: &'static str,
    run: fn(&[String]) -> Result<ExitCode, Usage>,
}

/// Wrong usage, with what would be right.
struct Usage(String);

const VERBS: [Verb; 12] = [
    Verb {
        name: "check",
        arguments: "",
        summary: "format, lints, house checks, documentation: before every commit",
        run: check::run,
    },
    Verb {
        name: "test",
        arguments: "[CRATE]",
        summary: "everything CI runs; with a crate, its tests alone",
        run: test::run,
    },
    Verb {
        name: "sim",
        arguments: "[--seed N] [--minutes M] [--kind KIND] | --whole",
        summary: "the whole engine in a seeded world with faults and power cuts; KIND exhaustive: \
            all short runs; --whole: the tests that judge some of all cuts, with all of them",
        run: sim::run,
    },
    Verb {
        name: "planted",
        arguments: "[--check] [--bug NAME] [--kind KIND [--from N]] [--search] [--seconds S]",
        summary: "plants mistakes in a copy of the sources, and shows that the rigs find them; \
            with --check, only that they can be planted",
        run: planted::run,
    },
    Verb {
        name: "torture",
        arguments: "[--kills N] [--cuts N] [--seed N] [--planted BUG]",
        summary: "kills and power cuts of the real server under load",
        run: torture::run,
    },
    Verb {
        name: "fuzz",
        arguments: "[--minutes M] [--seed N] [TARGET …]",
        summary: "every decoder of disk and wire, with coverage",
        run: fuzz::run,
    },
    Verb {
        name: "judge",
        arguments: "rest",
        summary: "an outside suite; 'rest': Schemathesis against the built daemon",
        run: judge::run,
    },
    Verb {
        name: "gen",
        arguments: "[--check]",
        summary: "writes generated documents; with --check, fails if one is stale",
        run: generate::run,
    },
    Verb {
        name: "picture",
        arguments: "[PROGRAM]",
        summary: "runs a session of everglade and draws it for the README",
        run: picture::run,
    },
    Verb {
        name: "dist",
        arguments: "",
        summary: "makes a Debian package, and tries it out in a scratch root",
        run: dist::run,
    },
    Verb {
        name: "tidy",
        arguments: "",
        summary: "the house checks alone",
        run: tidy::run,
    },
    Verb {
        name: "bench",
        arguments: "[RIG …]",
        summary: "runs a benchmark rig",
        run: bench::run,
    },
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some((name, rest)) = words.split_first() else {
        eprintln!("{}", verbs("no verb given"));
        return ExitCode::from(2);
    };
    if ["help", "--help", "-h"].contains(&name.as_str()) {
        println!("{}", verbs("cargo xtask VERB"));
        return ExitCode::SUCCESS;
    }
    let Some(verb) = VERBS.iter().find(|verb| verb.name == name) else {
        eprintln!("{}", verbs(&format!("unknown verb '{name}'")));
        return ExitCode::from(2);
    };
    (verb.run)(rest).unwrap_or_else(|Usage(problem)| {
        eprintln!(
            "xtask {name}: {problem}; usage: cargo xtask {name} {}",
            verb.arguments
        );
        ExitCode::from(2)
    })
}

/// A list of all verbs under a heading.
fn verbs(heading: &str) -> String {
    let mut text = format!("xtask: {heading}; verbs are:\n");
    for Verb {
        name,
        arguments,
        summary,
        ..
    } in VERBS
    {
        let usage = format!("{name} {arguments}");
        text.push_str(&format!("  {usage:<32} {summary}\n"));
    }
    text.trim_end().to_owned()
}

impl Usage {
    /// For verbs without arguments.
    fn none_expected(words: &[String]) -> Result<(), Usage> {
        match words.first() {
            None => Ok(()),
            Some(word) => Err(Usage(format!("unexpected '{word}'"))),
        }
    }
}
