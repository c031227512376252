//! One LUN: where clients find it, and who uses it.

use everglade_api::{Limit, Lun, Session, Size};
use maud::{Markup, html};

use crate::course::{self, Course};
use crate::frame::{Page, Visitor};
use crate::table;
use crate::table::Head::{Number, Text};

/// The page. `sessions` and `course`: of the whole server.
#[must_use]
pub fn page(
    visitor: &Visitor,
    lun: &Lun,
    limit: Option<&Limit>,
    (sessions, course): (&[Session], &Course),
    done: Option<&str>,
) -> String {
    let (volume, name) = (&lun.volume, &lun.name);
    let act = |what: &str| format!("/do/{what}/{volume}/{name}");
    let content = html! {
        p class="path" {
            a href="/volumes" { "Volumes" } " / "
            a href={ "/volumes/" (volume) } { (volume) } " / LUN"
        }
        h1 { (volume) "/" (name) }
        section aria-labelledby="facts" {
            h2 id="facts" { "Facts" }
            div id="live-facts" data-live { (facts(lun, limit)) }
            (table::actions(visitor, &[
                (act("lun-resize"), "Resize"),
                (act("lun-limit"), "Limit"),
                (act("lun-clone"), "Clone"),
                (act("lun-delete"), "Delete the LUN"),
            ]))
        }
        section aria-labelledby="reach" {
            h2 id="reach" { "Where clients find it" }
            (reach(lun))
        }
        section aria-labelledby="clients" {
            h2 id="clients" { "Who uses it" }
            div id="live-clients" data-live { (clients(lun, sessions, course)) }
        }
    };
    let page = Page {
        title: &format!("LUN {volume}/{name}"),
        place: "/volumes",
        visitor,
        done,
    };
    page.around(&content)
}

fn facts(lun: &Lun, limit: Option<&Limit>) -> Markup {
    html! {
        dl class="facts" {
            dt { "Size" } dd { (Size(lun.size_bytes)) }
            dt { "Used" } dd { (Size(lun.used_bytes)) }
            dt { "UUID" } dd { code { (lun.uuid) } }
            @if let Some(limit) = limit {
                @if let Some(iops) = limit.iops {
                    dt { "Limit of operations" } dd { (iops) " in a second" }
                }
                @if let Some(bytes) = limit.bytes_per_second {
                    dt { "Limit of throughput" } dd { (Size(bytes)) "/s" }
                }
                @if let Some(policy) = &limit.policy {
                    dt { "Limit follows policy" } dd { (policy) }
                }
                @if let Some(weight) = limit.weight {
                    dt { "Weight" } dd { (weight) }
                }
                dt { "Held back so far" } dd { (limit.held_count) " operations" }
            }
        }
    }
}

fn reach(lun: &Lun) -> Markup {
    html! {
        dl class="facts" {
            dt { "NBD export" } dd { code { (lun.nbd_export) } }
            @if let Some(uri) = &lun.nbd_uri { dt { "NBD address" } dd { code { (uri) } } }
            @if let Some(target) = &lun.iscsi_target {
                dt { "iSCSI target" } dd { code { (target) } }
            }
            @if let Some(subsystem) = &lun.nvme_subsystem {
                dt { "NVMe subsystem" } dd { code { (subsystem) } }
            }
        }
    }
}

fn clients(lun: &Lun, sessions: &[Session], course: &Course) -> Markup {
    let name = format!("{}/{}", lun.volume, lun.name);
    let load = course.of_lun(&name).copied().unwrap_or_default();
    let of_it: Vec<&Session> = sessions.iter().filter(|it| it.lun == name).collect();
    let heads = [
        Text("Client"),
        Text("Protocol"),
        Number("Connected for"),
        Number("Idle for"),
        Number("Read"),
        Number("Written"),
    ];
    html! {
        dl class="facts" {
            @for (index, direction) in ["Reads", "Writes"].into_iter().enumerate() {
                dt { (direction) }
                dd {
                    (course::rate(load.operations[index])) " in a second, "
                    (course::bytes(load.bytes[index])) ", "
                    (course::milliseconds(load.latency[index])) " each"
                }
            }
        }
        @if of_it.is_empty() {
            p class="quiet" { "No client has it open." }
        } @else {
            (table::table("clients", &heads, &html! {
                @for session in of_it {
                    tr {
                        th scope="row" {
                            (session.client)
                            @if let Some(host) = &session.host { " (" (host) ")" }
                        }
                        td { (session.protocol) }
                        (table::number(table::duration(session.age_seconds)))
                        (table::number(table::duration(session.idle_seconds)))
                        (table::size(session.read_bytes))
                        (table::size(session.written_bytes))
                    }
                }
            }))
        }
    }
}
