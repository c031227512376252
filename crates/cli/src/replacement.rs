//! `everglade aggregate replace`, and how far the new drive is.

use everglade_api::{Device, DeviceState, ReplaceDrive, Replacement, Size};

use crate::failure::Failure;
use crate::output::Output;
use crate::path::absolute;
use crate::session::Session;
use crate::status::duration;
use crate::verb::AggregateReplace;

pub(crate) fn replace(
    replace: &AggregateReplace,
    session: &Session,
    output: &Output,
    yes: bool,
) -> Result<(), Failure> {
    let request = ReplaceDrive {
        device: absolute(&replace.drive, "DRIVE")?,
        with: absolute(&replace.with, "--with")?,
        size_bytes: replace.size.map(Size::bytes),
        discard_contents: yes,
        dry_run: replace.dry_run,
    };
    let path = format!("/v1/aggregates/{}/actions/replace", replace.name);
    let told = session.post::<Replacement>(&path, &request)?;
    match told.meant.dry_run {
        true => output.data(&told.raw, || text(&told.meant)),
        false => output.made(&told.raw, || text(&told.meant)),
    }
}

/// Describes a replacement, or what it would do.
fn text(told: &Replacement) -> String {
    let Replacement {
        aggregate,
        dry_run,
        group,
        device,
        was_in_use,
        with,
        kind,
        size_bytes,
        holds_data,
    } = told;
    let (verb, size) = match dry_run {
        true => ("would replace", Size(*size_bytes)),
        false => ("replaces", Size(*size_bytes)),
    };
    let mut text =
        format!("{with} ({kind}, {size}) {verb} {device} in group {group} of {aggregate}\n");
    if *dry_run && *was_in_use {
        text += "The old drive is in use, and would be taken out first: until the new one has \
            caught up, the group has one drive less\n";
    }
    if *dry_run && *holds_data {
        text += "The new drive holds data, which would be lost; needs --yes\n";
    }
    if !*dry_run {
        text += &format!("It catches up now; see: everglade aggregate show {aggregate}\n");
    }
    text
}

/// Returns the state of a drive, and how far it has caught up.
pub(crate) fn state(device: &Device) -> String {
    let word = device.state.map_or("-", DeviceState::word);
    let Some(progress) = device.catching_up else {
        return word.to_owned();
    };
    let rate = Size(progress.bytes_per_second);
    let eta = match progress.eta_seconds {
        Some(seconds) => format!(", {} left", duration(seconds)),
        None => String::new(),
    };
    format!("{word}: {} %, {rate}/s{eta}", progress.percent)
}

#[cfg(test)]
mod tests {
    use everglade_api::{CatchingUp, DeviceKind};

    use super::*;

    fn told(dry_run: bool) -> Replacement {
        Replacement {
            aggregate: "safe".to_owned(),
            dry_run,
            group: 1,
            device: "/f".to_owned(),
            was_in_use: true,
            with: "/g".to_owned(),
            kind: DeviceKind::File,
            size_bytes: 2 << 30,
            holds_data: true,
        }
    }

    #[test]
    fn a_plan_says_what_would_be_lost_and_a_replacement_what_follows() {
        let plan = text(&told(true));
        assert!(
            plan.starts_with("/g (file, 2.0 GiB) would replace /f in group 1 of safe\n"),
            "{plan}"
        );
        assert!(
            plan.contains("taken out first") && plan.contains("--yes"),
            "{plan}"
        );
        let done = text(&told(false));
        assert_eq!(
            done,
            "/g (file, 2.0 GiB) replaces /f in group 1 of safe\n\
            It catches up now; see: everglade aggregate show safe\n"
        );
    }

    #[test]
    fn the_state_of_a_drive_that_catches_up_says_how_far_it_is() {
        let mut device = Device {
            path: "/g".to_owned(),
            kind: DeviceKind::File,
            size_bytes: 2 << 30,
            group: Some(1),
            column: Some(0),
            state: Some(DeviceState::Behind),
            catching_up: None,
            faults: None,
        };
        assert_eq!(state(&device), "behind");
        device.catching_up = Some(CatchingUp::of(1 << 30, 4 << 30, 16));
        assert_eq!(state(&device), "behind: 25 %, 64.0 MiB/s, 48s left");
        device.catching_up = Some(CatchingUp::of(0, 4 << 30, 0));
        assert_eq!(state(&device), "behind: 0 %, 0 B/s");
    }
}
