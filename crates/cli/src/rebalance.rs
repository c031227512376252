//! `everglade aggregate rebalance`: devices become about equally full.

use everglade_api::{Garden, GardeningState};

use crate::failure::{Failure, exit};
use crate::garden;
use crate::output::Output;
use crate::session::Session;
use crate::verb::AggregateRebalance;
use crate::wait::until_done;

pub(crate) fn rebalance(
    rebalance: &AggregateRebalance,
    session: &Session,
    output: &Output,
) -> Result<(), Failure> {
    let name = &rebalance.name;
    let path = format!("/v1/aggregates/{name}/actions/rebalance");
    let mut told = session.act::<Garden>(&path)?;
    if rebalance.wait {
        let line_of = |garden: &Garden| {
            let is_running = garden.rebalance.state == GardeningState::Running;
            is_running.then(|| garden::progress(&garden.rebalance))
        };
        told = until_done(
            output,
            told,
            line_of,
            |_| session.get::<Garden>(&format!("/v1/aggregates/{name}/garden")),
            |_| {
                let text = format!(
                    "interrupted; the rebalance goes on: 'everglade garden show {name}' shows it"
                );
                Failure::new(exit::INTERRUPTED, text)
            },
        )?;
    }
    output.made(&told.raw, || {
        let Garden {
            aggregate,
            rebalance,
            ..
        } = &told.meant;
        garden::rebalance(aggregate, rebalance).unwrap_or_default()
    })
}
