//! The space of an aggregate by what holds it, as a bar and as a table.

use everglade_api::{Aggregate, Size, Volume};
use maud::{Markup, html};

use crate::table;
use crate::table::Head::{Number, Text};

/// What one part of the space is for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    name: &'static str,
    bytes: u64,
    colour: &'static str,
    hint: &'static str,
}

/// Splits the space of an aggregate. The parts together are its size.
fn parts(aggregate: &Aggregate, volumes: &[Volume]) -> Vec<Part> {
    let of_it = volumes.iter().filter(|it| it.aggregate == aggregate.name);
    let held: u64 = of_it.map(|it| it.snapshot_exclusive_bytes).sum();
    let pending = aggregate.pending_free_bytes.min(aggregate.used_bytes);
    let snapshots = held.min(aggregate.used_bytes - pending);
    let data = aggregate.used_bytes - pending - snapshots;
    let known = aggregate.used_bytes + aggregate.free_bytes;
    let reserve = aggregate.size_bytes.saturating_sub(known);
    let part = |name, bytes, colour, hint| Part {
        name,
        bytes,
        colour,
        hint,
    };
    vec![
        part(
            "Data",
            data,
            "#0b5d44",
            "of volumes, with what snapshots share",
        ),
        part(
            "Snapshots alone",
            snapshots,
            "#7a4fa3",
            "free once they are deleted",
        ),
        part("Being freed", pending, "#b35c00", "of what was deleted"),
        part(
            "Reserve",
            reserve,
            "#6b7670",
            "kept for the server's own work",
        ),
        part(
            "Free",
            aggregate.free_bytes,
            "#dbe5e0",
            "can be written now",
        ),
    ]
}

/// The bar with its table.
pub(crate) fn bar(aggregate: &Aggregate, volumes: &[Volume]) -> Markup {
    let parts = parts(aggregate, volumes);
    let whole = aggregate.size_bytes.max(1);
    let mut left = 0;
    let mut placed = Vec::new();
    for part in &parts {
        placed.push((part, left * 1000 / u128::from(whole)));
        left += u128::from(part.bytes);
    }
    let free = Size(aggregate.free_bytes);
    let label = format!("{free} of {} are free", Size(aggregate.size_bytes));
    let heads = [Text("What holds space"), Number("Size"), Text("Meaning")];
    html! {
        svg class="bar-of-space" viewBox="0 0 1000 20" preserveAspectRatio="none" role="img"
            aria-label=(label) {
            @for (part, x) in &placed {
                @let width = u128::from(part.bytes) * 1000 / u128::from(whole);
                rect x=(x) y="0" width=(width.max(u128::from(part.bytes > 0))) height="20"
                    fill=(part.colour) {}
            }
        }
        @let what = format!("space of {}", aggregate.name);
        (table::table(&what, &heads, &html! {
            @for part in &parts {
                tr {
                    th scope="row" {
                        svg class="swatch" viewBox="0 0 1 1" aria-hidden="true" {
                            rect width="1" height="1" fill=(part.colour) {}
                        }
                        (part.name)
                    }
                    td class="number" { (Size(part.bytes)) }
                    td class="quiet" { (part.hint) }
                }
            }
        }))
    }
}
