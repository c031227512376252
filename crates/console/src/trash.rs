//! The trash: what was deleted and can come back.

use everglade_api::{Size, TrashItem};
use maud::html;

use crate::frame::{Page, Visitor};
use crate::table;
use crate::table::Head::{Number, Text};

/// The page. `keep_seconds`: how long objects stay; `done`: what has just been done.
#[must_use]
pub fn page(
    visitor: &Visitor,
    trash: &[TrashItem],
    keep_seconds: u64,
    done: Option<&str>,
) -> String {
    let heads = [
        Text("Object"),
        Text("Kind"),
        Number("Size"),
        Number("Takes"),
        Text("Deleted"),
        Text("Leaves"),
        Text("Change"),
    ];
    let content = html! {
        h1 { "Trash" }
        @if keep_seconds == 0 {
            p { "What is deleted does not go into the trash, as configured." }
        } @else {
            p {
                "Deleted LUNs, snapshots and volumes stay here for "
                (table::duration(keep_seconds)) ". When space is short, the oldest leaves earlier. "
                "A snapshot that its policy has deleted is not here."
            }
        }
        section aria-label="Objects in the trash" id="live-trash" data-live {
            @if trash.is_empty() {
                p class="quiet" { "The trash is empty." }
            } @else {
                (table::table("trash", &heads, &html! {
                    @for item in trash {
                        tr {
                            th scope="row" { (item.name) }
                            td { (item.kind.noun()) }
                            td class="number" { (Size(item.size_bytes)) }
                            td class="number" { (Size(item.used_bytes)) }
                            td { (item.deleted) }
                            td { (item.until) }
                            td {
                                @if visitor.may_change() {
                                    a href={ "/do/undelete/" (item.id) }
                                        aria-label={ "Bring back " (item.name) } { "Bring back" }
                                    " "
                                    a href={ "/do/purge/" (item.id) }
                                        aria-label={ "Delete for good: " (item.name) } {
                                        "Delete for good"
                                    }
                                }
                            }
                        }
                    }
                }))
            }
        }
    };
    let page = Page {
        title: "Trash",
        place: "/trash",
        visitor,
        done,
    };
    page.around(&content)
}
