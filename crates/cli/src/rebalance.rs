//! `everglade aggregate rebalance`: devices become about equally full.

use std::time::Duration;

use everglade_api::{Garden, GardeningState, Rebalance, Size, counted};

use crate::failure::{Failure, exit};
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::progress::Progress;
use crate::session::Session;
use crate::status::duration;
use crate::verb::AggregateRebalance;

/// Time between two looks at the progress.
const LOOK_EVERY: Duration = Duration::from_millis(500);

pub(crate) fn rebalance(
    rebalance: &AggregateRebalance,
    session: &Session,
    output: &Output,
) -> Result<(), Failure> {
    let name = &rebalance.name;
    let path = format!("/v1/aggregates/{name}/actions/rebalance");
    let mut told = session.act::<Garden>(&path)?;
    if rebalance.wait {
        let mut line = Progress::new(output.is_quiet());
        let interrupt = Interrupt::watch();
        while told.meant.rebalance.state == GardeningState::Running {
            line.show(&progress(&told.meant.rebalance));
            if !interrupt.sleep(LOOK_EVERY) {
                line.clear();
                let text = format!(
                    "interrupted; the rebalance goes on: 'everglade garden show {name}' shows it"
                );
                return Err(Failure::new(exit::INTERRUPTED, text));
            }
            told = session.get::<Garden>(&format!("/v1/aggregates/{name}/garden"))?;
        }
        line.clear();
    }
    output.made(&told.raw, || {
        text(&told.meant.aggregate, &told.meant.rebalance).unwrap_or_default()
    })
}

/// Describes a rebalance; nothing if there was none.
pub(crate) fn text(aggregate: &str, rebalance: &Rebalance) -> Option<String> {
    (rebalance.state != GardeningState::None).then_some(())?;
    let mut text = format!(
        "rebalance of aggregate {aggregate}: {}\n",
        progress(rebalance)
    );
    if let (Some(fullest), Some(emptiest)) = (rebalance.fullest_percent, rebalance.emptiest_percent)
    {
        text += &format!("devices were {emptiest} % to {fullest} % full when it began\n");
    }
    if rebalance.left_block_count > 0 {
        text += &format!(
            "left where they are, because they cannot be read: {}; see: everglade aggregate scrub \
            start {aggregate}\n",
            counted(rebalance.left_block_count, "block")
        );
    }
    Some(text)
}

/// How far it is, in one line.
fn progress(rebalance: &Rebalance) -> String {
    let state = rebalance.state;
    let ended = rebalance.ended.as_ref();
    let ended = ended.map_or_else(String::new, |ended| format!(" {ended}"));
    let moved = Size(rebalance.moved_bytes);
    match (state, rebalance.total_bytes) {
        (GardeningState::Running, None) => "running, counts the blocks of each device".to_owned(),
        (GardeningState::Running, Some(total)) => {
            let eta = rebalance.eta_seconds;
            let left = eta.map_or_else(String::new, |eta| format!(", {} left", duration(eta)));
            let (percent, total) = (rebalance.percent, Size(total));
            format!("running, {percent} %, {moved} of {total} moved{left}")
        }
        (GardeningState::Done, Some(0)) => {
            format!("{state}{ended}, nothing to move: all devices are about equally full")
        }
        _ => format!("{state}{ended}, {moved} moved"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rebalance_says_how_far_it_is() {
        let mut rebalance = Rebalance::default();
        assert_eq!(text("pool", &rebalance), None);
        rebalance.state = GardeningState::Running;
        let said = |rebalance: &Rebalance| text("pool", rebalance).expect("it has begun");
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
