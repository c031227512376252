//! The load of the last minutes, measured while somebody looks.
//!
//! Measuring begins when somebody opens a page, and ends ten minutes after the last page was
//! opened. So a daemon at which nobody looks does nothing for the console.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use everglade_api::{Session, Statistics, Work};
use everglade_console::{Course, Point};
use everglade_env::lock::Mutex;
use tokio::time::sleep;

use super::super::desk::Desk;

const EVERY: Duration = Duration::from_secs(2);
/// Measurements that are kept: five minutes.
const KEPT: usize = 150;
/// Measuring ends this long after the last look.
const UNWATCHED_MAX: Duration = Duration::from_secs(600);
/// LUNs of which operations are kept.
const LUNS_MAX: usize = 256;

/// See the module's documentation.
#[derive(Default)]
pub(super) struct Measured(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    is_measuring: bool,
    looked: Option<Instant>,
    totals: VecDeque<Totals>,
    /// What clients of each LUN had at the last two measurements.
    luns: [BTreeMap<String, Totals>; 2],
    /// The sessions of the last measurement.
    sessions: Vec<Session>,
}

/// Counters since the daemon began.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    uptime_ms: u64,
    work: Work,
}

impl Totals {
    fn of(statistics: &Statistics) -> Totals {
        let mut work = Work::default();
        for operation in &statistics.operations {
            let index = match operation.op.as_str() {
                "read" => 0,
                "write" => 1,
                _ => continue,
            };
            work.counts[index] = operation.count;
            work.bytes[index] = operation.bytes;
            work.us[index] = operation.duration_us;
        }
        Totals {
            uptime_ms: statistics.uptime_ms,
            work,
        }
    }

    /// What happened since `before`, `now` being the uptime of the newest measurement.
    fn since(&self, before: &Totals, now: u64) -> Point {
        let span = seconds(self.uptime_ms.saturating_sub(before.uptime_ms)).max(0.001);
        let done = self.work.since(&before.work);
        let rates = |sums: [u64; 2]| sums.map(|sum| sum as f64 / span);
        Point {
            age: seconds(now.saturating_sub(self.uptime_ms)),
            operations: rates(done.counts),
            bytes: rates(done.bytes),
            latency: [0, 1].map(|index| {
                let each = done.us[index] as f64 / (done.counts[index] as f64).max(1.0);
                each / 1000.0
            }),
        }
    }
}

fn seconds(milliseconds: u64) -> f64 {
    milliseconds as f64 / 1000.0
}

impl Measured {
    /// Returns what was measured, and goes on measuring.
    pub(super) fn look(self: &Arc<Self>, desk: &Arc<Desk>) -> Course {
        let mut inner = self.0.lock();
        inner.looked = Some(Instant::now());
        if !inner.is_measuring {
            inner.is_measuring = true;
            tokio::spawn(measure(Arc::clone(self), Arc::clone(desk)));
        }
        inner.course()
    }

    /// Returns the sessions of the last measurement.
    pub(super) fn sessions(&self) -> Vec<Session> {
        self.0.lock().sessions.clone()
    }

    /// Adds a measurement. Returns false if nobody looks any more.
    fn add(&self, statistics: &Statistics, sessions: Vec<Session>) -> bool {
        let mut inner = self.0.lock();
        let is_watched = inner.looked.is_some_and(|at| at.elapsed() < UNWATCHED_MAX);
        if !is_watched {
            *inner = Inner::default();
            return false;
        }
        if inner.totals.len() == KEPT {
            inner.totals.pop_front();
        }
        inner.totals.push_back(Totals::of(statistics));
        let mut luns: BTreeMap<String, Totals> = BTreeMap::new();
        for session in &sessions {
            if luns.len() < LUNS_MAX || luns.contains_key(&session.lun) {
                let totals = luns.entry(session.lun.clone()).or_default();
                totals.uptime_ms = statistics.uptime_ms;
                totals.work += session.work();
            }
        }
        let [_, last] = std::mem::take(&mut inner.luns);
        inner.luns = [last, luns];
        inner.sessions = sessions;
        true
    }
}

impl Inner {
    fn course(&self) -> Course {
        let now = self.totals.back().map_or(0, |last| last.uptime_ms);
        let pairs = self.totals.iter().zip(self.totals.iter().skip(1));
        let points: Vec<Point> = pairs
            .map(|(before, after)| after.since(before, now))
            .collect();
        let [before, after] = &self.luns;
        let mut luns: Vec<(String, Point)> = after
            .iter()
            // A LUN that was not there before was connected meanwhile.
            .filter_map(|(lun, totals)| Some((lun.clone(), totals.since(before.get(lun)?, now))))
            .filter(|(_, load)| load.operations != [0.0, 0.0])
            .collect();
        let busy = |load: &Point| load.operations[0] + load.operations[1];
        luns.sort_by(|a, b| busy(&b.1).total_cmp(&busy(&a.1)));
        Course { points, luns }
    }
}

async fn measure(measured: Arc<Measured>, desk: Arc<Desk>) {
    let mut stopping = desk.stopping();
    loop {
        let asked = desk.ask(|it| Ok((it.statistics(), it.sessions()))).await;
        // A desk without a place, or a stop: this measurement is left out.
        if let Ok((statistics, sessions)) = asked
            && !measured.add(&statistics, sessions)
        {
            return;
        }
        tokio::select! {
            () = sleep(EVERY) => {}
            _ = stopping.wait_for(|asked| *asked) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use everglade_api::Operation;

    use super::*;

    fn statistics(uptime_ms: u64, reads: u64) -> Statistics {
        Statistics {
            uptime_ms,
            operations: vec![Operation {
                op: "read".to_owned(),
                count: reads,
                error_count: 0,
                bytes: reads * 4096,
                duration_us: reads * 500,
            }],
            ..Statistics::default()
        }
    }

    fn session(write_count: u64) -> Session {
        Session {
            lun: "v/l".to_owned(),
            write_count,
            ..Session::default()
        }
    }

    #[test]
    fn rates_are_differences() {
        let measured = Measured::default();
        measured.0.lock().looked = Some(Instant::now());
        assert!(measured.add(&statistics(1_000, 0), vec![session(10)]));
        assert!(measured.add(&statistics(3_000, 200), vec![session(70)]));
        let course = measured.0.lock().course();
        assert_eq!(course.points.len(), 1);
        let point = course.points[0];
        assert_eq!((point.age, point.operations), (0.0, [100.0, 0.0]));
        assert_eq!((point.bytes[0], point.latency), (409_600.0, [0.5, 0.0]));
        let [(lun, load)] = course.luns.as_slice() else {
            panic!("one LUN was used: {course:?}");
        };
        assert_eq!((lun.as_str(), load.operations), ("v/l", [0.0, 30.0]));
    }

    #[test]
    fn nothing_is_kept_when_nobody_looks() {
        let measured = Measured::default();
        assert!(!measured.add(&statistics(1_000, 0), Vec::new()));
        measured.0.lock().looked = Some(Instant::now());
        for round in 0..KEPT as u64 + 10 {
            measured.add(&statistics(round * 2_000, round), Vec::new());
        }
        assert_eq!(measured.0.lock().totals.len(), KEPT);
    }
}
