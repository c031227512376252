//! `everglade garden …`.

use everglade_api::{
    AfterRead, Clean, Cleaning, Garden, GardeningState, LayoutPart, LunLayout, PutInOrder,
    Rebalance, Size, counted, picture,
};

use crate::drawing::{draw, strip};
use crate::failure::{Failure, exit};
use crate::output::Output;
use crate::session::Session;
use crate::space_map;
use crate::status::duration;
use crate::verb::{GardenLayout, GardenOf, GardenVerb};
use crate::wait::until_done;

pub(crate) fn run(verb: &GardenVerb, session: &Session, output: &Output) -> Result<u8, Failure> {
    let path = |name: &dyn std::fmt::Display, rest: &str| format!("/v1/aggregates/{name}/{rest}");
    let act = |of: &GardenOf, action: &str| {
        let told = session.act::<Garden>(&path(&of.name, &format!("actions/{action}")))?;
        output.made(&told.raw, || text(&told.meant))
    };
    match verb {
        GardenVerb::Clean(clean) => {
            let body = Clean {
                least_free_percent: clean.least_free,
            };
            let told = session.post::<Garden>(&path(&clean.name, "actions/clean"), &body)?;
            output.made(&told.raw, || text(&told.meant))?;
        }
        GardenVerb::Layout(layout) => put_in_order(layout, session, output)?,
        GardenVerb::Map(map) => space_map::run(map, session, output)?,
        GardenVerb::Stop(of) => act(of, "stop-gardening")?,
        GardenVerb::Pause(of) => act(of, "pause-gardening")?,
        GardenVerb::Resume(of) => act(of, "resume-gardening")?,
        GardenVerb::Show(of) => {
            let told = session.get::<Garden>(&path(&of.name, "garden"))?;
            output.data(&told.raw, || text(&told.meant))?;
        }
    }
    Ok(exit::OK)
}

fn put_in_order(of: &GardenLayout, session: &Session, output: &Output) -> Result<(), Failure> {
    let (volume, lun) = (&of.name.volume, &of.name.lun);
    let body = PutInOrder {
        estimate: of.estimate,
    };
    let path = format!("/v1/volumes/{volume}/luns/{lun}/actions/layout");
    let mut told = session.post::<Garden>(&path, &body)?;
    let aggregate = told.meant.aggregate.clone();
    if of.wait || of.svg.is_some() {
        let line_of = |garden: &Garden| {
            let layout = &garden.layout;
            let times = (layout.eta_seconds, None);
            let is_running = layout.state == GardeningState::Running;
            is_running.then(|| way(layout.state, format!("{} %", layout.percent), times))
        };
        let again = |_: &Garden| session.get(&format!("/v1/aggregates/{aggregate}/garden"));
        told = until_done(output, told, line_of, again, |_| {
            let text = format!(
                "interrupted; the layout goes on: 'everglade garden show {aggregate}' shows it"
            );
            Failure::new(exit::INTERRUPTED, text)
        })?;
    }
    if let Some(file) = &of.svg {
        draw(file, &picture::of_layout(&told.meant.layout))?;
    }
    output.made(&told.raw, || match of.wait || of.svg.is_some() {
        true => layout(&told.meant.layout).unwrap_or_default(),
        false => text(&told.meant),
    })
}

/// Describes a garden.
fn text(garden: &Garden) -> String {
    let name = &garden.aggregate;
    let jobs = [
        cleaning(name, &garden.cleaning),
        rebalance(name, &garden.rebalance),
        layout(&garden.layout),
        after_read(&garden.after_read),
    ];
    let mut text = rest(garden);
    text.extend(jobs.into_iter().flatten());
    match garden.moved_bytes {
        0 if !text.is_empty() => text,
        0 => format!(
            "nothing was moved in aggregate {name} since it was opened; see: everglade garden \
            clean {name}, or: everglade garden layout VOLUME/LUN\n"
        ),
        // Areas are also emptied on demand, without a job.
        moved => {
            text + &format!(
                "aggregate {name}: {} emptied and {} moved since it was opened\n",
                counted(garden.cleaned_area_count, "area"),
                Size(moved)
            )
        }
    }
}

/// Why nothing is moved at present.
fn rest(garden: &Garden) -> String {
    let mut text = String::new();
    if garden.paused {
        let name = &garden.aggregate;
        text = format!("gardening is paused; let it go on: everglade garden resume {name}\n");
    }
    match &garden.window {
        Some(window) if garden.waits_for_window => {
            text += &format!("gardening waits for its part of the day: {window} UTC\n");
        }
        Some(window) => text += &format!("gardening has this part of the day: {window} UTC\n"),
        None => {}
    }
    text
}

fn runs(count: u64, bytes: u64) -> String {
    format!("{} of {}", counted(count, "run"), Size(bytes))
}

fn after_read(after: &AfterRead) -> Option<String> {
    let mut text = String::new();
    if after.waiting_bytes > 0 {
        text += &format!(
            "to be put in order, because it was read: {}\n",
            Size(after.waiting_bytes)
        );
    }
    if after.passed_bytes > 0 {
        text += &format!(
            "put in order after it was read:\n{} in {} before, {} after\n",
            Size(after.passed_bytes),
            runs(after.run_count_before, after.run_bytes_before),
            runs(after.run_count_after, after.run_bytes_after),
        );
    }
    (!text.is_empty()).then_some(text)
}

/// How far a job is: `running, 25 % of 80 areas, 1m 30s left`.
fn way(
    state: GardeningState,
    part: String,
    (eta, ended): (Option<u64>, Option<&String>),
) -> String {
    let left = eta.map_or_else(String::new, |eta| format!(", {} left", duration(eta)));
    let ended = ended.map_or_else(String::new, |ended| format!(" {ended}"));
    format!("{state}{ended}, {part}{left}")
}

fn cleaning(aggregate: &str, cleaning: &Cleaning) -> Option<String> {
    (cleaning.state != GardeningState::None).then_some(())?;
    let times = (cleaning.eta_seconds, cleaning.ended.as_ref());
    let areas = counted(cleaning.total_area_count, "area");
    let mut text = format!(
        "segment cleaning of aggregate {aggregate}: {}\n\
        emptied, because at least {} % was free: {}\n\
        moved: {}\n",
        way(
            cleaning.state,
            format!("{} % of {areas}", cleaning.percent),
            times
        ),
        cleaning.least_free_percent,
        counted(cleaning.cleaned_area_count, "area"),
        Size(cleaning.moved_bytes)
    );
    text += &left(aggregate, cleaning.left_block_count);
    Some(text)
}

/// Describes the blocks that could not be moved. The text is empty if all were moved.
fn left(aggregate: &str, block_count: u64) -> String {
    match block_count {
        0 => String::new(),
        _ => format!(
            "left where they are, because they cannot be read: {}; see: everglade aggregate scrub \
            start {aggregate}\n",
            counted(block_count, "block")
        ),
    }
}

/// Describes the last rebalance. Returns `None` if there has been none since the aggregate was
/// opened.
pub(crate) fn rebalance(aggregate: &str, rebalance: &Rebalance) -> Option<String> {
    (rebalance.state != GardeningState::None).then_some(())?;
    let mut text = format!(
        "rebalance of aggregate {aggregate}: {}\n",
        progress(rebalance)
    );
    if let (Some(fullest), Some(emptiest)) = (rebalance.fullest_percent, rebalance.emptiest_percent)
    {
        text += &format!("devices were {emptiest} % to {fullest} % full when it began\n");
    }
    text += &left(aggregate, rebalance.left_block_count);
    Some(text)
}

/// Describes the progress of a rebalance in one line.
pub(crate) fn progress(rebalance: &Rebalance) -> String {
    let moved = Size(rebalance.moved_bytes);
    let part = match (rebalance.state, rebalance.total_bytes) {
        (GardeningState::Running, None) => "counts the blocks of each device".to_owned(),
        (GardeningState::Running, Some(total)) => {
            let (percent, total) = (rebalance.percent, Size(total));
            format!("{percent} %, {moved} of {total} moved")
        }
        (GardeningState::Done, Some(0)) => {
            "nothing to move: all devices are about equally full".to_owned()
        }
        _ => format!("{moved} moved"),
    };
    let is_running = rebalance.state == GardeningState::Running;
    let eta = rebalance.eta_seconds.filter(|_| is_running);
    way(rebalance.state, part, (eta, rebalance.ended.as_ref()))
}

fn layout(layout: &LunLayout) -> Option<String> {
    let lun = layout.lun.as_ref()?;
    let what = if layout.estimate {
        "estimate of the layout"
    } else {
        "layout"
    };
    let times = (layout.eta_seconds, layout.ended.as_ref());
    let mut text = format!(
        "{what} of LUN {lun}: {}\n\
        {} in {}",
        way(layout.state, format!("{} %", layout.percent), times),
        Size(layout.passed_bytes),
        runs(layout.run_count_before, layout.run_bytes_before),
    );
    if !layout.estimate {
        let after = runs(layout.run_count_after, layout.run_bytes_after);
        text += &format!(
            " before, {after} after\nmoved: {}",
            Size(layout.moved_bytes)
        );
    }
    text.push('\n');
    if layout.stale_pointer_count > 0 {
        let count = counted(layout.stale_pointer_count, "pointer");
        text += &match layout.estimate {
            true => format!("{count} to former places of blocks, which a layout would correct\n"),
            false => format!("corrected: {count} to former places of blocks\n"),
        };
    }
    if !layout.parts.is_empty() {
        text += &format!(
            "runs along the LUN, from 0 for {} over 1 for {} to 8 for {} and more; '·' is empty\n\
            {}\n",
            Size(4096),
            Size(8192),
            Size(1 << 20),
            strip(&layout.parts, character)
        );
    }
    Some(text)
}

/// How long the runs of some parts of a LUN are.
fn character(parts: &[LayoutPart]) -> char {
    let bytes: u64 = parts.iter().map(|it| it.bytes).sum();
    let runs: u64 = parts.iter().map(|it| it.run_count).sum();
    let length = bytes.checked_div(runs).map(picture::scale_of);
    let digit = length.and_then(|length| char::from_digit(u32::try_from(length).ok()?, 10));
    digit.unwrap_or('·')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_garden_says_how_far_each_job_is_and_what_was_moved() {
        let mut garden = Garden {
            aggregate: "pool".to_owned(),
            ..Garden::default()
        };
        assert!(text(&garden).starts_with("nothing was moved in aggregate pool"));
        let on_demand = Garden {
            moved_bytes: 64 << 20,
            cleaned_area_count: 3,
            ..garden.clone()
        };
        assert_eq!(
            text(&on_demand),
            "aggregate pool: 3 areas emptied and 64.0 MiB moved since it was opened\n"
        );
        garden.paused = true;
        garden.window = Some("22:00-06:00".to_owned());
        garden.waits_for_window = true;
        assert_eq!(
            text(&garden),
            "gardening is paused; let it go on: everglade garden resume pool\n\
            gardening waits for its part of the day: 22:00-06:00 UTC\n"
        );
        (garden.paused, garden.waits_for_window) = (false, false);
        let expected = "gardening has this part of the day: 22:00-06:00 UTC\n";
        assert_eq!(text(&garden), expected);
        garden.window = None;
        garden.cleaning = Cleaning {
            state: GardeningState::Running,
            least_free_percent: 30,
            total_area_count: 80,
            percent: 25,
            cleaned_area_count: 1,
            moved_bytes: 64 << 20,
            eta_seconds: Some(90),
            ..Cleaning::default()
        };
        assert_eq!(
            text(&garden),
            "segment cleaning of aggregate pool: running, 25 % of 80 areas, 1m 30s left\n\
            emptied, because at least 30 % was free: 1 area\n\
            moved: 64.0 MiB\n"
        );
        garden.cleaning = Cleaning {
            left_block_count: 2,
            ..garden.cleaning
        };
        assert!(text(&garden).contains("2 blocks; see: everglade aggregate scrub"));
        garden.cleaning = Cleaning::default();
        garden.layout = LunLayout {
            state: GardeningState::Done,
            lun: Some("vol/db".to_owned()),
            percent: 100,
            passed_bytes: 1 << 30,
            run_count_before: 262_144,
            run_bytes_before: 4096,
            run_count_after: 1024,
            run_bytes_after: 1 << 20,
            parts: Vec::new(),
            moved_bytes: 1 << 30,
            ended: Some("2026-11-27T22:00:00Z".to_owned()),
            ..LunLayout::default()
        };
        assert_eq!(
            text(&garden),
            "layout of LUN vol/db: done 2026-11-27T22:00:00Z, 100 %\n\
            1.0 GiB in 262144 runs of 4.0 KiB before, 1024 runs of 1.0 MiB after\n\
            moved: 1.0 GiB\n"
        );
        garden.after_read = AfterRead {
            waiting_bytes: 1 << 20,
            passed_bytes: 2 << 20,
            run_count_before: 512,
            run_bytes_before: 4096,
            run_count_after: 1,
            run_bytes_after: 2 << 20,
            moved_bytes: 2 << 20,
        };
        assert!(text(&garden).ends_with(
            "to be put in order, because it was read: 1.0 MiB\n\
            put in order after it was read:\n\
            2.0 MiB in 512 runs of 4.0 KiB before, 1 run of 2.0 MiB after\n"
        ));
        garden.after_read = AfterRead::default();
        garden.layout.estimate = true;
        assert_eq!(
            text(&garden),
            "estimate of the layout of LUN vol/db: done 2026-11-27T22:00:00Z, 100 %\n\
            1.0 GiB in 262144 runs of 4.0 KiB\n"
        );
        let part = |bytes, run_count| LayoutPart {
            bytes,
            run_count,
            ..LayoutPart::default()
        };
        garden.layout.stale_pointer_count = 1;
        assert!(text(&garden).contains("\n1 pointer to former places of blocks, which a layout"));
        garden.layout.parts = vec![part(8192, 2), part(0, 0), part(2 << 20, 1), part(16384, 2)];
        assert!(text(&garden).ends_with("'·' is empty\n0·81\n"));
    }

    #[test]
    fn a_rebalance_says_how_far_it_is() {
        let mut rebalance = Rebalance::default();
        assert_eq!(super::rebalance("pool", &rebalance), None);
        rebalance.state = GardeningState::Running;
        let said =
            |rebalance: &Rebalance| super::rebalance("pool", rebalance).expect("it has begun");
        let first = said(&rebalance);
        assert_eq!(
            first,
            "rebalance of aggregate pool: running, counts the blocks of each device\n"
        );
        rebalance = Rebalance {
            total_bytes: Some(4 << 30),
            moved_bytes: 1 << 30,
            percent: 25,
            eta_seconds: Some(90),
            fullest_percent: Some(80),
            emptiest_percent: Some(0),
            ..rebalance
        };
        assert_eq!(
            said(&rebalance),
            "rebalance of aggregate pool: running, 25 %, 1.0 GiB of 4.0 GiB moved, 1m 30s left\n\
            devices were 0 % to 80 % full when it began\n"
        );
        rebalance.state = GardeningState::Done;
        rebalance.ended = Some("2026-11-29T01:00:00Z".to_owned());
        assert!(said(&rebalance).contains("done 2026-11-29T01:00:00Z, 1.0 GiB moved\n"));
        rebalance.total_bytes = Some(0);
        assert!(said(&rebalance).contains("nothing to move"));
        rebalance.left_block_count = 2;
        assert!(
            said(&rebalance).ends_with("2 blocks; see: everglade aggregate scrub start pool\n")
        );
    }
}
