//! One target until its time is up: choose an input, change it, run it, keep it if it reached
//! something new.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::coverage;
use crate::mutation::{Random, mutate};
use crate::targets::Target;

/// Above the results.
pub(crate) const HEADER: &str = "target              executions   per s  kept  reached  seconds";
/// Inputs that are kept; more would dilute the good ones.
const KEPT_MAX: usize = 4096;

pub(crate) struct Driver<'a> {
    target: &'a Target,
    kept: Vec<Vec<u8>>,
    random: Random,
}

pub(crate) struct Outcome {
    name: &'static str,
    pub(crate) executions: u64,
    kept: usize,
    /// Places in the code that this target was the first to reach.
    reached: usize,
    time: Duration,
    /// Where the input is that made it fail.
    pub(crate) found: Option<PathBuf>,
}

impl<'a> Driver<'a> {
    pub(crate) fn new(target: &'a Target, seed: u64) -> Driver<'a> {
        Driver {
            target,
            kept: (target.seeds)(),
            random: Random(seed),
        }
    }

    pub(crate) fn run(mut self, time: Duration) -> Outcome {
        let since = Instant::now();
        let reached_before = coverage::reached();
        let mut executions = 0;
        let mut found = None;
        coverage::clear();
        for input in std::mem::take(&mut self.kept) {
            executions += 1;
            if !self.survives(&input) {
                found = Some(self.save(&input));
                break;
            }
            // All of them are worth changing.
            coverage::take();
            self.kept.push(input);
        }
        let mut input = Vec::new();
        while found.is_none() && since.elapsed() < time {
            let base = self.random.below(self.kept.len());
            let other = self.random.below(self.kept.len());
            input.clone_from(&self.kept[base]);
            mutate(
                &mut input,
                &self.kept[other],
                self.target.bytes_max,
                &mut self.random,
            );
            executions += 1;
            if !self.survives(&input) {
                found = Some(self.save(&input));
            }
            if coverage::take() && self.kept.len() < KEPT_MAX {
                self.kept.push(input.clone());
            }
        }
        Outcome {
            name: self.target.name,
            executions,
            kept: self.kept.len(),
            reached: coverage::reached() - reached_before,
            time: since.elapsed(),
            found,
        }
    }

    /// The panic itself has been printed when this is false.
    fn survives(&self, input: &[u8]) -> bool {
        catch_unwind(AssertUnwindSafe(|| (self.target.run)(input))).is_ok()
    }

    fn save(&self, input: &[u8]) -> PathBuf {
        let path = PathBuf::from(format!("found-{}", self.target.name));
        if let Err(error) = std::fs::write(&path, input) {
            eprintln!("cannot write {}: {error}", path.display());
        }
        path
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcome {
            name,
            executions,
            kept,
            reached,
            time,
            found,
        } = self;
        #[expect(clippy::cast_precision_loss, reason = "for people")]
        let rate = *executions as f64 / time.as_secs_f64();
        write!(
            f,
            "{name:<18}  {executions:>10}  {rate:>6.0}  {kept:>4}  {reached:>7}  {:>7.1}",
            time.as_secs_f64()
        )?;
        match found {
            Some(path) => write!(f, "  FAILED: {}", path.display()),
            None => Ok(()),
        }
    }
}
