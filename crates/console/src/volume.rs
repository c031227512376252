//! Volumes: the list of all, and one with its LUNs and snapshots.

use everglade_api::{Lun, Size, Snapshot, Volume};
use maud::{Markup, html};

use crate::frame::{Page, Visitor};
use crate::table::Head::{Number, Text};
use crate::{line, table as cells};

/// Volumes of one page of the list.
pub const PAGE_VOLUMES: usize = 100;

/// The list of volumes, from the one at `first`. `done`: what has just been done.
#[must_use]
pub fn list(visitor: &Visitor, volumes: &[Volume], first: usize, done: Option<&str>) -> String {
    let shown: Vec<&Volume> = volumes.iter().skip(first).take(PAGE_VOLUMES).collect();
    let end = first + shown.len();
    let content = html! {
        h1 { "Volumes" }
        section aria-label="All volumes" {
            div id="live-volumes" data-live { (table(&shown, "There is no volume.")) }
            @if volumes.len() > PAGE_VOLUMES {
                nav aria-label="Parts of the list" {
                    p { (first + 1) " to " (end) " of " (volumes.len()) }
                    ul class="actions" {
                        @if first > 0 {
                            li {
                                a class="button" href={
                                    "/volumes?first=" (first.saturating_sub(PAGE_VOLUMES))
                                } { "Earlier" }
                            }
                        }
                        @if end < volumes.len() {
                            li { a class="button" href={ "/volumes?first=" (end) } { "Later" } }
                        }
                    }
                }
            }
            (cells::actions(visitor, &[("/do/volume-create".to_owned(), "Create a volume")]))
        }
    };
    let page = Page {
        title: "Volumes",
        place: "/volumes",
        visitor,
        done,
    };
    page.around(&content)
}

/// A table of volumes. `none` is the text if there is no volume.
pub(crate) fn table(volumes: &[&Volume], none: &str) -> Markup {
    let heads = [
        Text("Volume"),
        Text("Aggregate"),
        Number("LUNs"),
        Number("Used"),
        Number("Snapshots"),
        Number("In snapshots alone"),
        Text("Policy"),
    ];
    html! {
        @if volumes.is_empty() {
            p class="quiet" { (none) }
        } @else {
            (cells::table("volumes", &heads, &html! {
                @for volume in volumes {
                    tr {
                        th scope="row" {
                            a href={ "/volumes/" (volume.name) } { (volume.name) }
                        }
                        td {
                            a href={ "/aggregates/" (volume.aggregate) } {
                                (volume.aggregate)
                            }
                        }
                        (cells::number(volume.lun_count))
                        (cells::size(volume.used_bytes))
                        (cells::number(volume.snapshot_count))
                        (cells::size(volume.snapshot_exclusive_bytes))
                        td { (volume.snapshot_policy) }
                    }
                }
            }))
        }
    }
}

/// One volume. `now`: seconds since 1970.
#[must_use]
pub fn page(
    visitor: &Visitor,
    (volume, luns, snapshots): (&Volume, &[Lun], &[Snapshot]),
    now: i64,
    done: Option<&str>,
) -> String {
    let name = &volume.name;
    let act = |what: &str| format!("/do/{what}/{name}");
    let content = html! {
        p class="path" { a href="/volumes" { "Volumes" } " / volume" }
        h1 { (name) }
        section aria-labelledby="facts" {
            h2 id="facts" { "Facts" }
            div id="live-facts" data-live { (facts(volume)) }
            (cells::actions(visitor, &[
                (act("volume-modify"), "Change"),
                (act("volume-limit"), "Limit"),
                (act("volume-delete"), "Delete the volume"),
            ]))
        }
        section aria-labelledby="luns" {
            h2 id="luns" { "LUNs" }
            div id="live-luns" data-live { (luns_table(luns)) }
            (cells::actions(visitor, &[(act("lun-create"), "Create a LUN")]))
        }
        section aria-labelledby="snapshots" {
            h2 id="snapshots" { "Snapshots" }
            (line::line(snapshots, now))
            (snapshots_table(visitor, name, snapshots))
            (cells::actions(visitor, &[(act("snapshot-create"), "Take a snapshot")]))
        }
    };
    let page = Page {
        title: &format!("Volume {name}"),
        place: "/volumes",
        visitor,
        done,
    };
    page.around(&content)
}

fn facts(volume: &Volume) -> Markup {
    html! {
        dl class="facts" {
            dt { "Aggregate" }
            dd { a href={ "/aggregates/" (volume.aggregate) } { (volume.aggregate) } }
            dt { "Used by its LUNs" } dd { (Size(volume.used_bytes)) }
            dt { "Size of its LUNs" } dd { (Size(volume.logical_bytes)) }
            dt { "In snapshots alone" } dd { (Size(volume.snapshot_exclusive_bytes)) }
            dt { "Being freed" } dd { (Size(volume.pending_free_bytes)) }
            dt { "Sync" } dd { (volume.sync) }
            dt { "Snapshot policy" } dd { (volume.snapshot_policy) }
            @if !volume.comment.is_empty() { dt { "Comment" } dd { (volume.comment) } }
            @if let Some(base) = &volume.clone_of {
                dt { "Clone of" } dd { (cells::object(base)) }
            }
        }
    }
}

fn luns_table(luns: &[Lun]) -> Markup {
    let heads = [Text("LUN"), Number("Size"), Number("Used"), Text("NBD")];
    html! {
        @if luns.is_empty() {
            p class="quiet" { "This volume has no LUN." }
        } @else {
            (cells::table("LUNs", &heads, &html! {
                @for lun in luns {
                    tr {
                        th scope="row" {
                            a href={ "/volumes/" (lun.volume) "/luns/" (lun.name) } {
                                (lun.name)
                            }
                        }
                        (cells::size(lun.size_bytes))
                        (cells::size(lun.used_bytes))
                        td { @if let Some(uri) = &lun.nbd_uri { code { (uri) } } }
                    }
                }
            }))
        }
    }
}

fn snapshots_table(visitor: &Visitor, volume: &str, snapshots: &[Snapshot]) -> Markup {
    let mut heads = vec![
        Text("Snapshot"),
        Text("Taken"),
        Number("Alone"),
        Text("Kept by"),
    ];
    heads.extend(visitor.may_change().then_some(Text("Changes")));
    html! {
        @if snapshots.is_empty() {
            p class="quiet" { "This volume has no snapshot." }
        } @else {
            (cells::table("snapshots", &heads, &html! {
                @for snapshot in snapshots.iter().rev() {
                    tr {
                        th scope="row" { (snapshot.name) }
                        td { time datetime=(snapshot.created) { (snapshot.created) } }
                        (cells::size(snapshot.exclusive_bytes))
                        td { (snapshot.holds.join(", ")) }
                        @if visitor.may_change() {
                            td { (changes(volume, &snapshot.name)) }
                        }
                    }
                }
            }))
        }
    }
}

fn changes(volume: &str, snapshot: &str) -> Markup {
    let all = [
        ("snapshot-restore", "Restore"),
        ("volume-clone", "Clone"),
        ("snapshot-delete", "Delete"),
    ];
    html! {
        @for (index, (what, title)) in all.iter().enumerate() {
            @if index > 0 { " · " }
            a href={ "/do/" (what) "/" (volume) "/" (snapshot) }
                aria-label={ (title) " " (snapshot) } { (title) }
        }
    }
}
