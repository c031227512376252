//! `everglade aggregate scrub …`.

use everglade_api::{Scrub, ScrubState, Size, counted};

use crate::failure::Failure;
use crate::output::Output;
use crate::session::Session;
use crate::status::duration;
use crate::verb::ScrubVerb;

pub(crate) fn scrub(verb: &ScrubVerb, session: &Session, output: &Output) -> Result<(), Failure> {
    let path = |name: &dyn std::fmt::Display, rest: &str| format!("/v1/aggregates/{name}/{rest}");
    match verb {
        ScrubVerb::Start(of) => {
            let told = session.act::<Scrub>(&path(&of.name, "actions/scrub"))?;
            output.made(&told.raw, || text(&told.meant))
        }
        ScrubVerb::Pause(of) => {
            let told = session.act::<Scrub>(&path(&of.name, "actions/pause-scrub"))?;
            output.made(&told.raw, || text(&told.meant))
        }
        ScrubVerb::Status(of) => {
            let told = session.get::<Scrub>(&path(&of.name, "scrub"))?;
            output.data(&told.raw, || text(&told.meant))
        }
    }
}

/// Describes a scrub.
fn text(scrub: &Scrub) -> String {
    let Scrub {
        aggregate, state, ..
    } = scrub;
    if *state == ScrubState::None {
        return format!(
            "aggregate {aggregate} was not scrubbed yet; see: everglade aggregate scrub start \
            {aggregate}\n{}",
            next(scrub)
        );
    }
    let pace = match (*state, scrub.eta_seconds) {
        (ScrubState::Running, Some(seconds)) => format!(
            ", {}/s, {} left",
            Size(scrub.bytes_per_second),
            duration(seconds)
        ),
        (ScrubState::Running, None) => format!(", {}/s", Size(scrub.bytes_per_second)),
        _ => String::new(),
    };
    let ended = scrub.ended.as_ref();
    let ended = ended.map_or_else(String::new, |ended| format!(" {ended}"));
    let wrong = counted(scrub.wrong_block_count, "block");
    let lost = counted(scrub.lost_block_count, "block");
    let mut text = format!(
        "scrub of aggregate {aggregate}: {state}{ended}, {} % of {}{pace}\n\
        wrong on one drive, and written again: {wrong}\n\
        right on no drive: {lost}\n",
        scrub.percent,
        Size(scrub.total_bytes)
    );
    if scrub.lost_block_count > 0 {
        text += "What has these blocks cannot be read in whole; restore it from a snapshot or a \
            backup\n";
    }
    text + &next(scrub)
}

fn next(scrub: &Scrub) -> String {
    let next = scrub.next.as_ref();
    next.map_or_else(String::new, |next| format!("the next one begins {next}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scrub_says_how_far_it_is_and_what_it_found() {
        let scrub = Scrub {
            aggregate: "safe".to_owned(),
            state: ScrubState::Running,
            total_bytes: 4 << 30,
            percent: 25,
            wrong_block_count: 1,
            bytes_per_second: 64 << 20,
            eta_seconds: Some(48),
            ..Scrub::default()
        };
        let said = text(&scrub);
        assert!(
            said.starts_with("scrub of aggregate safe: running, 25 % of 4.0 GiB, 64.0 MiB/s, "),
            "{said}"
        );
        assert!(
            said.contains("again: 1 block\n") && said.contains("drive: 0 blocks\n"),
            "{said}"
        );
        let lost = text(&Scrub {
            lost_block_count: 2,
            ..scrub
        });
        assert!(
            lost.contains("2 blocks\n") && lost.contains("backup"),
            "{lost}"
        );
        let none = text(&Scrub {
            next: Some("2026-12-03 10:00:00".to_owned()),
            ..Scrub::default()
        });
        assert!(none.contains("was not scrubbed yet"), "{none}");
        assert!(
            none.ends_with("the next one begins 2026-12-03 10:00:00\n"),
            "{none}"
        );
    }
}
