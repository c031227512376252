//! The overview: health and what to do about it, space, load, work under way.

use everglade_api::{Aggregate, Health, Job, JobState, Session, Status, Volume, counted};
use maud::{Markup, html};

use crate::course::{self, Course};
use crate::frame::{Page, Visitor};
use crate::table::Head::{Number, Text};
use crate::{space, table, work};

/// What the overview shows.
#[derive(Debug)]
pub struct Overview {
    /// Health, with conditions and their remedies.
    pub status: Status,
    /// All aggregates.
    pub aggregates: Vec<Aggregate>,
    /// All volumes.
    pub volumes: Vec<Volume>,
    /// Jobs, newest first.
    pub jobs: Vec<Job>,
    /// Connections that have a LUN open.
    pub sessions: Vec<Session>,
    /// The load of the last minutes.
    pub course: Course,
}

/// LUNs that the table of the busiest has.
const BUSIEST: usize = 10;

/// The page.
#[must_use]
pub fn page(visitor: &Visitor, shown: &Overview) -> String {
    let content = html! {
        h1 { "Overview" }
        (health(&shown.status))
        section aria-labelledby="load" {
            h2 id="load" { "Load" }
            div id="live-load" data-live {
                (shown.course.charts())
                (busiest(&shown.course, &shown.sessions))
            }
        }
        @for aggregate in &shown.aggregates {
            section aria-labelledby={ "aggregate-" (aggregate.name) } {
                h2 id={ "aggregate-" (aggregate.name) } {
                    "Aggregate " a href={ "/aggregates/" (aggregate.name) } { (aggregate.name) }
                    " " (table::state(aggregate.state))
                }
                div id={ "live-space-" (aggregate.name) } data-live {
                    (space::bar(aggregate, &shown.volumes))
                }
            }
        }
        section aria-labelledby="jobs" {
            h2 id="jobs" { "Work under way" }
            div id="live-jobs" data-live {
                @let running = shown.jobs.iter().filter(|job| job.state == JobState::Running);
                (work::jobs_table(visitor, running, "No job is running."))
            }
        }
    };
    let page = Page {
        title: "Overview",
        place: "/",
        visitor,
        done: None,
    };
    page.around(&content)
}

/// The health of the server, and what to do about each condition.
fn health(status: &Status) -> Markup {
    html! {
        section aria-labelledby="health" id="live-health" data-live {
            h2 id="health" { "Health: " (table::health(status.health)) }
            p class="quiet" {
                (counted(status.aggregate_count, "aggregate")) ", "
                (counted(status.volume_count, "volume")) ", "
                (counted(status.lun_count, "LUN")) ", "
                (counted(status.connection_count, "connection"))
                "; up for " (table::duration(status.uptime_seconds)) "."
            }
            @for condition in &status.conditions {
                @let tone = match condition.health {
                    Health::Unhealthy => "bad",
                    Health::Warning | Health::Healthy => "warn",
                };
                div class={ "note " (tone) } {
                    p {
                        strong { (condition.object) ": " (condition.what) }
                        " (" (condition.code) ")"
                    }
                    p { "What to do: " (condition.action) }
                }
            }
        }
    }
}

/// The busiest LUNs, and who uses them.
fn busiest(course: &Course, sessions: &[Session]) -> Markup {
    let heads = [
        Text("LUN"),
        Number("Reads in a second"),
        Number("Writes in a second"),
        Number("Throughput"),
        Number("Read latency"),
        Number("Write latency"),
        Text("Clients"),
    ];
    html! {
        @if course.luns.is_empty() {
            p class="quiet" { "No LUN was used in the last seconds." }
        } @else {
            @let caption = "Busiest LUNs of the last seconds";
            (table::captioned("busiest LUNs", caption, &heads, &html! {
                @for (lun, load) in course.luns.iter().take(BUSIEST) {
                    tr {
                        th scope="row" { (table::object(lun)) }
                        (table::number(course::rate(load.operations[0])))
                        (table::number(course::rate(load.operations[1])))
                        (table::number(course::bytes(load.bytes[0] + load.bytes[1])))
                        (table::number(course::milliseconds(load.latency[0])))
                        (table::number(course::milliseconds(load.latency[1])))
                        td { (clients(sessions, lun)) }
                    }
                }
            }))
        }
    }
}

fn clients(sessions: &[Session], lun: &str) -> String {
    let of_it = sessions.iter().filter(|session| session.lun == lun);
    let mut named: Vec<String> = of_it
        .map(|it| {
            format!(
                "{} over {}",
                it.host.as_ref().unwrap_or(&it.client),
                it.protocol
            )
        })
        .collect();
    named.sort_unstable();
    named.dedup();
    match named.len() {
        0..=3 => named.join(", "),
        more => format!("{}, and {} more", named[..3].join(", "), more - 3),
    }
}
