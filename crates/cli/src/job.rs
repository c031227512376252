//! `everglade job …`: jobs that continue after their request was answered, and waiting for them.

use everglade_api::{Code, Job, JobState, Jobs, Size};

use crate::failure::{Failure, exit, exit_code};
use crate::listing::{self, Cell, Column, if_asked};
use crate::output::Output;
use crate::session::{Answer, Session};
use crate::status::duration;
use crate::verb::JobVerb;
use crate::wait::until_done;

const COLUMNS: [Column<Job>; 12] = [
    Column::count("id", |job| Cell::Count(job.id)),
    Column::text("kind", |job| Cell::text(&job.kind)),
    Column::text("object", |job| Cell::text(&job.object)),
    Column::words("state", "JobState", |job| Cell::text(job.state)),
    Column::percent("percent", |job| Cell::Percent(job.percent)),
    Column::bytes("total", |job| Cell::Bytes(job.total_bytes)),
    Column::bytes("rate", |job: &Job| Cell::Bytes(job.rate_bytes_per_second))
        .called("rate_bytes_per_second"),
    Column::seconds("eta", |job| Cell::seconds(job.eta_seconds)),
    Column::time("started", |job| Cell::text(&job.started)),
    if_asked(Column::time("ended", |job| {
        job.ended.as_ref().map_or(Cell::None, Cell::text)
    })),
    if_asked(Column::text("code", |job| {
        job.code.as_ref().map_or(Cell::None, Cell::text)
    })),
    Column::text("detail", |job| {
        job.detail.as_ref().map_or(Cell::None, Cell::text)
    }),
];

pub(crate) fn run(verb: &JobVerb, session: &Session, output: &Output) -> Result<u8, Failure> {
    match verb {
        JobVerb::Show(show) => match show.id {
            Some(id) => {
                let told = session.get::<Job>(&format!("/v1/jobs/{id}"))?;
                listing::print_one(&told, &COLUMNS, &show.listing, output)?;
            }
            None => {
                let told = session.get::<Jobs>("/v1/jobs")?;
                let items = ("jobs", told.meant.jobs.as_slice());
                listing::print(&told, items, &COLUMNS, &show.listing, output)?;
            }
        },
        JobVerb::Wait(one) => {
            let told = session.get::<Job>(&format!("/v1/jobs/{}", one.id))?;
            let told = wait(session, output, told)?;
            return conclude(&told, output);
        }
        JobVerb::Cancel(one) => {
            let told = session.act::<Job>(&format!("/v1/jobs/{}/actions/cancel", one.id))?;
            output.made(&told.raw, || listing::of_one(&told.meant, &COLUMNS))?;
        }
    }
    Ok(exit::OK)
}

/// Follows a deletion: waits for its job if requested, and prints the job as JSON if requested.
pub(crate) fn follow(
    session: &Session,
    output: &Output,
    job: Answer<Job>,
    is_awaited: bool,
) -> Result<u8, Failure> {
    let what = format!("gives back {}", Size(job.meant.total_bytes));
    follow_work(session, output, job, is_awaited, &what)
}

/// Follows any other work that a job continues; `what` describes it.
pub(crate) fn follow_work(
    session: &Session,
    output: &Output,
    job: Answer<Job>,
    is_awaited: bool,
    what: &str,
) -> Result<u8, Failure> {
    if is_awaited {
        let job = wait(session, output, job)?;
        return conclude(&job, output);
    }
    output.for_programs(&job.raw)?;
    let id = job.meant.id;
    output.id(id)?;
    if job.meant.state == JobState::Running {
        let detail = why_it_waits(&job.meant);
        output.done(&format!(
            "job {id} {what}{detail}; wait for it with 'job wait {id}'"
        ));
    }
    Ok(exit::OK)
}

fn wait(session: &Session, output: &Output, told: Answer<Job>) -> Result<Answer<Job>, Failure> {
    until_done(
        output,
        told,
        |job| (job.state == JobState::Running).then(|| progress(job)),
        |job| session.get::<Job>(&format!("/v1/jobs/{}", job.id)),
        |job| Failure::interrupted(job.id),
    )
}

fn conclude(told: &Answer<Job>, output: &Output) -> Result<u8, Failure> {
    output.for_programs(&told.raw)?;
    match told.meant.state {
        JobState::Failed => Err(failure(&told.meant)),
        JobState::Running | JobState::Done => Ok(exit::OK),
    }
}

/// Returns the failure of a job, with the exit code of its cause if the cause has a code.
fn failure(job: &Job) -> Failure {
    let detail = job.detail.as_deref().unwrap_or("no reason was given");
    let code = job
        .code
        .as_deref()
        .and_then(|code| code.parse::<Code>().ok());
    let (exit, code) = match code {
        Some(code) => (exit_code(code), format!(" ({code})")),
        None => (exit::FAILED, String::new()),
    };
    Failure::new(exit, format!("job {} failed: {detail}{code}", job.id))
}

/// Returns the reason why a running job waits, as the rest of a line.
fn why_it_waits(job: &Job) -> String {
    let detail = job.detail.as_ref();
    detail.map_or_else(String::new, |detail| format!(" ({detail})"))
}

/// Describes the progress of a job in one line.
fn progress(job: &Job) -> String {
    let rate = Size(job.rate_bytes_per_second);
    let eta = match job.eta_seconds {
        Some(eta) => format!(", {} left", duration(eta)),
        None => String::new(),
    };
    format!(
        "{} {}: {} % of {} at {rate}/s{eta}{}",
        job.kind,
        job.object,
        job.percent,
        Size(job.total_bytes),
        why_it_waits(job)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> Job {
        Job {
            id: 7,
            kind: "lun delete".to_owned(),
            object: "v/l".to_owned(),
            state: JobState::Running,
            percent: 25,
            total_bytes: 4 << 30,
            done_bytes: 1 << 30,
            rate_bytes_per_second: 1 << 20,
            eta_seconds: Some(3072),
            started: String::new(),
            ended: None,
            cancellable: false,
            code: None,
            detail: None,
        }
    }

    #[test]
    fn a_job_that_failed_has_the_exit_code_of_its_cause() {
        let failed = Job {
            state: JobState::Failed,
            detail: Some("no space left in the pool".to_owned()),
            ..job()
        };
        let plain = failure(&failed);
        assert_eq!(plain.code, exit::FAILED);
        assert_eq!(plain.message, "job 7 failed: no space left in the pool");
        let full = failure(&Job {
            code: Some("EVG-3001".to_owned()),
            ..failed
        });
        assert_eq!(full.code, exit::NO_SPACE);
        assert!(full.message.ends_with(" (EVG-3001)"), "{full}");
    }

    #[test]
    fn progress_has_rate_and_eta() {
        assert_eq!(
            progress(&job()),
            "lun delete v/l: 25 % of 4.0 GiB at 1.0 MiB/s, 51m 12s left"
        );
        let held = Job {
            detail: Some("the scan of volume v is paused".to_owned()),
            ..job()
        };
        let said = progress(&held);
        assert!(
            said.ends_with(" left (the scan of volume v is paused)"),
            "{said}"
        );
    }
}
