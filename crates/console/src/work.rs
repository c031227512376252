//! Jobs, events and history: what is going on, and what was.

use everglade_api::{Change, Event, Job, JobState, Size};
use maud::{Markup, html};

use crate::frame::{Page, Visitor};
use crate::table;
use crate::table::Head::{Number, Text};

/// Lines of the lists of events and changes.
const LINES: usize = 100;

/// The jobs, newest first. `done`: what has just been done.
#[must_use]
pub fn jobs(visitor: &Visitor, jobs: &[Job], done: Option<&str>) -> String {
    let content = html! {
        h1 { "Jobs" }
        section aria-label="All jobs" id="live-jobs" data-live {
            (jobs_table(visitor, jobs.iter(), "There was no job yet."))
        }
    };
    let page = Page {
        title: "Jobs",
        place: "/jobs",
        visitor,
        done,
    };
    page.around(&content)
}

/// A table of jobs. `none` is the text if there is no job.
pub(crate) fn jobs_table<'a>(
    visitor: &Visitor,
    jobs: impl Iterator<Item = &'a Job>,
    none: &str,
) -> Markup {
    let jobs: Vec<&Job> = jobs.collect();
    let heads = [
        Text("Job"),
        Text("Object"),
        Text("State"),
        Number("Done"),
        Number("Time left"),
        Text("Detail"),
    ];
    html! {
        @if jobs.is_empty() {
            p class="quiet" { (none) }
        } @else {
            (table::table("jobs", &heads, &html! {
                @for job in jobs { (job_row(visitor, job)) }
            }))
        }
    }
}

fn job_row(visitor: &Visitor, job: &Job) -> Markup {
    let is_running = job.state == JobState::Running;
    html! {
        tr {
            th scope="row" { (job.id) " " (job.kind) }
            td { (table::object(&job.object)) }
            td { (table::job_state(job.state)) }
            td class="number" {
                (job.percent) " %"
                @if job.total_bytes > 0 {
                    " of " (Size(job.total_bytes))
                }
            }
            td class="number" {
                @if let (true, Some(seconds)) = (is_running, job.eta_seconds) {
                    (table::duration(seconds))
                }
            }
            td {
                @if let Some(detail) = &job.detail { (detail) " " }
                @if is_running && job.cancellable && visitor.may_change() {
                    a href={ "/do/job-cancel/" (job.id) } aria-label={ "Cancel job " (job.id) } {
                        "Cancel"
                    }
                }
            }
        }
    }
}

/// Events and changes, oldest first as they are kept; the newest are shown.
#[must_use]
pub fn events(visitor: &Visitor, events: &[Event], changes: &[Change]) -> String {
    let content = html! {
        h1 { "Events" }
        section aria-labelledby="events" id="live-events" data-live {
            h2 id="events" { "What happened" }
            (events_table(events))
        }
        section aria-labelledby="changes" id="live-changes" data-live {
            h2 id="changes" { "What administrators changed" }
            (changes_table(changes))
        }
    };
    let page = Page {
        title: "Events",
        place: "/events",
        visitor,
        done: None,
    };
    page.around(&content)
}

fn events_table(events: &[Event]) -> Markup {
    let heads = [
        Text("Time"),
        Text("Severity"),
        Text("Object"),
        Text("Event"),
    ];
    html! {
        (table::table("events", &heads, &html! {
            @for event in events.iter().rev().take(LINES) {
                tr {
                    td { time datetime=(event.time) { (event.time) } }
                    td { (table::severity(event.severity)) }
                    td { (table::object(&event.object)) }
                    td {
                        (event.text)
                        @if let Some(code) = &event.code { " (" (code) ")" }
                    }
                }
            }
        }))
    }
}

fn changes_table(changes: &[Change]) -> Markup {
    let heads = [
        Text("Time"),
        Text("Who"),
        Text("Change"),
        Text("Object"),
        Text("Detail"),
    ];
    html! {
        (table::table("changes", &heads, &html! {
            @for change in changes.iter().rev().take(LINES) {
                tr {
                    td { time datetime=(change.time) { (change.time) } }
                    td { (change.who) }
                    td { (change.what) }
                    td { (table::object(&change.object)) }
                    td { (change.detail) }
                }
            }
        }))
    }
}
