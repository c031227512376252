//! `everglade df`: where the space is, as of the last consistency point.

use everglade_api::Aggregates;

use crate::failure::{Failure, exit};
use crate::output::{Output, size};
use crate::session::Session;
use crate::table::{Align, Table};
use crate::verb::Df;

pub(crate) fn run(df: &Df, session: &Session, output: &Output) -> Result<u8, Failure> {
    let told = session.get::<Aggregates>("/v1/aggregates")?;
    output.data(&told.raw, || table(&told.meant, df.exact))?;
    Ok(exit::OK)
}

fn table(aggregates: &Aggregates, exact: bool) -> String {
    let mut table = Table::new(&[
        ("AGGREGATE", Align::Left),
        ("SIZE", Align::Right),
        ("USED", Align::Right),
        ("FREE", Align::Right),
        ("USE%", Align::Right),
        ("RESERVE", Align::Right),
        ("BEING FREED", Align::Right),
        ("LUN SIZES", Align::Right),
        ("FROM HOST", Align::Right),
        ("HOST FREE", Align::Right),
    ]);
    for aggregate in &aggregates.aggregates {
        let host_free = aggregate.host_free_bytes;
        table.row([
            aggregate.name.clone(),
            size(aggregate.size_bytes, exact),
            size(aggregate.used_bytes, exact),
            size(aggregate.free_bytes, exact),
            percent(aggregate.used_bytes, aggregate.free_bytes),
            size(aggregate.reserve_bytes, exact),
            size(aggregate.pending_free_bytes, exact),
            size(aggregate.logical_bytes, exact),
            size(aggregate.host_backed_bytes, exact),
            host_free.map_or_else(|| "-".to_owned(), |free| size(free, exact)),
        ]);
    }
    table.text()
}

/// Of what clients can fill; rounded up, so that 100 % and 0 % are said of nothing else.
fn percent(used: u64, free: u64) -> String {
    let all = u128::from(used) + u128::from(free);
    let percent = (u128::from(used) * 100).div_ceil(all.max(1));
    format!("{percent}%")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_have_no_accidents() {
        for (used, free, text) in [
            (0, 0, "0%"),
            (0, 5, "0%"),
            (1, 999, "1%"),
            (5, 0, "100%"),
            (u64::MAX, u64::MAX, "50%"),
        ] {
            assert_eq!(percent(used, free), text);
        }
    }
}
