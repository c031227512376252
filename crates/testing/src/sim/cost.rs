//! The cost of a simulation beside its work: the table at the end of `sim`.
//!
//! Rates are per second of processor time, which makes them comparable on a machine with other
//! load; simulated time is compared with real time, which matters to people who wait.

use std::fmt::Write;
use std::time::{Duration, Instant};

use super::{Background, Growth, Mirrored, PerBackground, PerGrowth, PerMirrored, Report};
use crate::world::Fault;

/// Time spent.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// On the wall.
    pub real: Duration,
    /// On the processor; the same as on the wall where the system does not tell.
    pub processor: Duration,
}

/// A rate of the table: its name in JSON, its unit, and its count.
type Row = (&'static str, &'static str, u64);

impl Cost {
    /// Returns the cost of this process since `begin`.
    #[must_use]
    pub fn since(begin: Instant) -> Cost {
        let real = begin.elapsed();
        let processor = processor_time().unwrap_or(real);
        Cost { real, processor }
    }

    fn rows(report: &Report, runs: u64) -> [Row; 9] {
        [
            ("runs", "seeds", runs),
            ("operations", "operations", report.actions),
            ("device_writes", "device writes", report.writes),
            ("consistency_points", "consistency points", report.cps),
            ("power_cuts", "power cuts", report.cuts),
            (
                "power_cuts_in_recovery",
                "power cuts in recovery",
                report.cuts_in_recovery,
            ),
            ("recoveries", "recoveries judged", report.recoveries),
            (
                "recoveries_known",
                "… known by footprint",
                report.recoveries_known,
            ),
            ("effective_faults", "effective faults", report.effective()),
        ]
    }

    /// For people.
    #[must_use]
    pub fn table(&self, report: &Report, runs: u64) -> String {
        let mut text = format!("{report}\n\n");
        let seconds = self.processor.as_secs_f64().max(1e-3);
        let _ = writeln!(
            text,
            "{:<24} {:>12} {:>14}",
            "what", "count", "per CPU-second"
        );
        for (_, name, count) in Cost::rows(report, runs) {
            let rate = as_float(count) / seconds;
            let _ = writeln!(text, "{name:<24} {count:>12} {rate:>14.1}");
        }
        let _ = writeln!(
            text,
            "\n{:.1} CPU-seconds in {:.1} s; {:.1} simulated hours per real hour",
            seconds,
            self.real.as_secs_f64(),
            self.simulated_per_real(report)
        );
        let _ = writeln!(
            text,
            "\n{:<20} {:>10} {:>10} {:>10}",
            "fault", "fired", "met", "answered"
        );
        for fault in Fault::ALL {
            let (fired, met, answered) = (
                report.fired[fault],
                report.met[fault],
                report.answered[fault],
            );
            let _ = writeln!(
                text,
                "{:<20} {fired:>10} {met:>10} {answered:>10}",
                fault.name()
            );
        }
        if report.interrupted != PerBackground::default() {
            let _ = writeln!(text, "\ncuts met in the background: {}", report.interrupted);
        }
        if report.growths != PerGrowth::default() {
            let _ = writeln!(text, "\ngrowths of the pool: {}", report.growths);
        }
        if report.mirrors != PerMirrored::default() {
            let _ = writeln!(text, "\nmirrors: {}", report.mirrors);
        }
        text
    }

    /// For programs: one line.
    #[must_use]
    pub fn json(&self, report: &Report, runs: u64) -> String {
        let mut text = String::from("{\"schema_version\":1");
        for (name, _, count) in Cost::rows(report, runs) {
            let _ = write!(text, ",\"{name}\":{count}");
        }
        let _ = write!(
            text,
            ",\"cpu_us\":{},\"real_us\":{},\"simulated_us\":{},\"faults\":{{",
            self.processor.as_micros(),
            self.real.as_micros(),
            report.nanos / 1000
        );
        for (place, fault) in Fault::ALL.into_iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            let _ = write!(
                text,
                "{comma}\"{fault}\":{{\"fired\":{},\"met\":{},\"answered\":{}}}",
                report.fired[fault], report.met[fault], report.answered[fault]
            );
        }
        text.push_str("},\"interrupted\":{");
        for (place, one) in Background::ALL.into_iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            let count = report.interrupted[one];
            let _ = write!(text, "{comma}\"{}\":{count}", one.name());
        }
        text.push_str("},\"growths\":{");
        for (place, one) in Growth::ALL.into_iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            let count = report.growths[one];
            let _ = write!(text, "{comma}\"{}\":{count}", one.name());
        }
        text.push_str("},\"mirrors\":{");
        for (place, one) in Mirrored::ALL.into_iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            let count = report.mirrors[one];
            let _ = write!(text, "{comma}\"{}\":{count}", one.name());
        }
        text.push_str("}}");
        text
    }

    fn simulated_per_real(&self, report: &Report) -> f64 {
        as_float(report.nanos) / 1e9 / self.real.as_secs_f64().max(1e-3)
    }
}

#[expect(clippy::cast_precision_loss, reason = "rates for people")]
fn as_float(count: u64) -> f64 {
    count as f64
}

/// Returns Linux's processor time of the only thread, which simulates.
fn processor_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/self/schedstat").ok()?;
    let nanos = text.split_whitespace().next()?.parse().ok()?;
    Some(Duration::from_nanos(nanos))
}
