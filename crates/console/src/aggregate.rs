//! One aggregate: its space, its devices, its volumes.

use everglade_api::{Aggregate, Device, Size, SpaceMap, Volume, picture};
use maud::{Markup, PreEscaped, html};

use crate::frame::{Page, Visitor};
use crate::table::Head::{Number, Text};
use crate::{space, table, volume};

/// The page. `volumes`: those of all aggregates.
#[must_use]
pub fn page(
    visitor: &Visitor,
    aggregate: &Aggregate,
    map: &SpaceMap,
    volumes: &[Volume],
) -> String {
    let of_it: Vec<&Volume> = volumes
        .iter()
        .filter(|it| it.aggregate == aggregate.name)
        .collect();
    let content = html! {
        p class="path" { a href="/" { "Overview" } " / aggregate" }
        h1 { (aggregate.name) " " (table::state(aggregate.state)) }
        @if let Some(reason) = &aggregate.reason {
            p class="note bad" { (reason) }
        }
        section aria-labelledby="space" {
            h2 id="space" { "Space" }
            div id="live-space" data-live { (space::bar(aggregate, volumes)) }
        }
        section aria-labelledby="map" {
            h2 id="map" { "Space map" }
            (space_map(map))
        }
        section aria-labelledby="facts" {
            h2 id="facts" { "Facts" }
            div id="live-facts" data-live { (facts(aggregate)) }
        }
        section aria-labelledby="devices" {
            h2 id="devices" { "Devices" }
            div id="live-devices" data-live { (devices(&aggregate.devices)) }
            @if visitor.may_administer() {
                (table::actions(visitor, &[
                    (format!("/do/aggregate-scrub/{}", aggregate.name), "Scrub"),
                ]))
            }
        }
        section aria-labelledby="volumes" {
            h2 id="volumes" { "Volumes" }
            (volume::table(&of_it, "This aggregate has no volume."))
        }
    };
    let page = Page {
        title: &format!("Aggregate {}", aggregate.name),
        place: "",
        visitor,
        done: None,
    };
    page.around(&content)
}

fn space_map(map: &SpaceMap) -> Markup {
    html! {
        @if let Some(counted) = &map.counted {
            figure {
                (PreEscaped(picture::of_space(map)))
                figcaption {
                    "Counted " (counted) ". "
                    @if let Some(run) = map.run_bytes() {
                        "A run of free blocks has " (Size(run)) " on the average. "
                    }
                    @if let Some(percent) = map.whole_stripe_percent() {
                        "Of the stripes with free blocks, " (percent) " % are free as a whole."
                    }
                }
            }
        } @else {
            p { "Nothing is counted yet: " code { "everglade garden map " (map.aggregate) } }
        }
    }
}

fn facts(aggregate: &Aggregate) -> Markup {
    html! {
        dl class="facts" {
            dt { "Redundancy" } dd { (aggregate.raid) }
            dt { "Waiting to be written" } dd { (Size(aggregate.dirty_bytes)) }
            @if aggregate.area_bytes > 0 {
                dt { "Allocation area" } dd { (Size(aggregate.area_bytes)) }
            }
            dt { "Shared by clones" } dd { (Size(aggregate.shared_bytes)) }
            @if let Some(journal) = &aggregate.journal {
                dt { "Journal" }
                dd { (journal.fill_percent) " % of " (Size(journal.half_bytes)) }
            }
            dt { "Lost blocks" } dd { (aggregate.damage.lost_block_count) }
            dt { "Consistency point" } dd { (aggregate.committed_cp) }
            dt { "UUID" } dd { code { (aggregate.uuid) } }
        }
    }
}

fn devices(devices: &[Device]) -> Markup {
    let heads = [
        Text("Device"),
        Text("Kind"),
        Number("Size"),
        Text("Group"),
        Text("State"),
    ];
    html! {
        (table::table("devices", &heads, &html! {
            @for device in devices {
                tr {
                    th scope="row" { code { (device.path) } }
                    td { (device.kind) }
                    (table::size(device.size_bytes))
                    td { @if let Some(group) = device.group { (group) } }
                    td {
                        @if let Some(state) = device.state { (state) }
                        @if let Some(behind) = &device.catching_up {
                            ", " (behind.percent) " % caught up"
                        }
                    }
                }
            }
        }))
    }
}
