//! `everglade garden map`: how full each area of an aggregate is, and how whole its free space.

use std::fmt::Write as _;

use everglade_api::{GardeningState, Size, SpaceMap, picture};

use crate::drawing::{draw, strip};
use crate::failure::{Failure, exit};
use crate::output::Output;
use crate::session::Session;
use crate::table::{Align, Table};
use crate::verb::GardenMap;
use crate::wait::until_done;

pub(crate) fn run(of: &GardenMap, session: &Session, output: &Output) -> Result<(), Failure> {
    let name = &of.name;
    let begun = session.act::<SpaceMap>(&format!("/v1/aggregates/{name}/actions/map-space"))?;
    let line_of = |map: &SpaceMap| {
        let is_running = map.state == GardeningState::Running;
        is_running.then(|| format!("counting the blocks of aggregate {name}, {} %", map.percent))
    };
    let again = |_: &SpaceMap| session.get(&format!("/v1/aggregates/{name}/space-map"));
    let told = until_done(output, begun, line_of, again, |_| {
        Failure::new(
            exit::INTERRUPTED,
            "interrupted; nothing was changed".to_owned(),
        )
    })?;
    if told.meant.state != GardeningState::Done {
        let text = format!("the space map of aggregate {name} was stopped; ask again");
        return Err(Failure::new(exit::FAILED, text));
    }
    if let Some(file) = &of.svg {
        draw(file, &picture::of_space(&told.meant))?;
    }
    output.data(&told.raw, || text(&told.meant))
}

fn text(map: &SpaceMap) -> String {
    let mut text = format!(
        "aggregate {}: {} in use, {} free",
        map.aggregate,
        Size(map.used_bytes),
        Size(map.free_bytes)
    );
    if let Some(run) = map.run_bytes() {
        let _ = write!(text, " in runs of {} on the average", Size(run));
    }
    text.push('\n');
    if let (Some(free), Some(whole), Some(percent)) = (
        map.free_stripe_count,
        map.whole_stripe_count,
        map.whole_stripe_percent(),
    ) {
        let _ = writeln!(
            text,
            "stripes with free blocks: {free}, of which {whole} ({percent} %) are free as a whole"
        );
    }
    text += "\nin use, from the beginning of each device: '·' nothing, 0 to 9 tenths, '#' all, \
        '?' cannot be read\n";
    for device in &map.devices {
        let _ = writeln!(text, "{}  {}", strip(&device.cells, character), device.path);
    }
    text.push('\n');
    text + &runs(map)
}

/// How much of some cells is in use.
fn character(cells: &[Option<u8>]) -> char {
    let used: Option<u64> = cells.iter().map(|it| it.map(u64::from)).sum();
    match used {
        None => '?',
        Some(0) => '·',
        Some(used) => {
            let tenths = used / (cells.len() as u64 * 10);
            let digit = u32::try_from(tenths).ok();
            digit.and_then(|it| char::from_digit(it, 10)).unwrap_or('#')
        }
    }
}

fn runs(map: &SpaceMap) -> String {
    let heads = ["FREE RUNS FROM", "COUNT", "BYTES", "PART"];
    let mut table = Table::new(heads.map(|head| (head.to_owned(), Align::Right)));
    for runs in &map.free_runs {
        let part = runs.bytes.saturating_mul(100).checked_div(map.free_bytes);
        table.row(vec![
            Size(runs.least_bytes).to_string(),
            runs.run_count.to_string(),
            Size(runs.bytes).to_string(),
            format!("{} %", part.unwrap_or(0)),
        ]);
    }
    table.text(true)
}

#[cfg(test)]
mod tests {
    use everglade_api::{FreeRuns, MappedDevice};

    use super::*;

    #[test]
    fn a_map_says_what_is_in_use_and_how_whole_the_rest_is() {
        let run = |least_bytes, run_count, bytes| FreeRuns {
            least_bytes,
            run_count,
            bytes,
        };
        let map = SpaceMap {
            aggregate: "pool".to_owned(),
            used_bytes: 1 << 30,
            free_bytes: 1 << 20,
            devices: vec![MappedDevice {
                path: "/d/0".to_owned(),
                cell_bytes: 1 << 20,
                cells: vec![Some(0), Some(1), Some(55), Some(100), None],
            }],
            free_runs: vec![run(4096, 64, 1 << 18), run(786_432, 1, 786_432)],
            free_stripe_count: Some(200),
            whole_stripe_count: Some(30),
            ..SpaceMap::default()
        };
        let text = text(&map);
        assert!(text.starts_with(
            "aggregate pool: 1.0 GiB in use, 1.0 MiB free in runs of 15.8 KiB on the average\n\
            stripes with free blocks: 200, of which 30 (15 %) are free as a whole\n"
        ));
        assert!(text.contains("\n·05#?  /d/0\n"), "{text}");
        assert!(text.contains("4.0 KiB"), "{text}");
        assert!(text.contains("25 %"), "{text}");
    }

    #[test]
    fn many_cells_share_a_character() {
        let cells = [Some(100), Some(50)].repeat(128);
        assert_eq!(strip(&cells, character), "7".repeat(64));
    }
}
