//! Counting what passed, failed and was skipped, over all runners, and saying so in one line.

use std::process::ExitCode;

/// Results of any number of runners.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    passed: u64,
    failures: Vec<String>,
    failed_unnamed: u64,
    skips: Vec<String>,
}

impl Tally {
    pub(crate) fn pass(&mut self, count: u64) {
        self.passed += count;
    }

    /// One failure, named for the summary.
    pub(crate) fn fail(&mut self, what: impl Into<String>) {
        self.failures.push(what.into());
    }

    pub(crate) fn skip(&mut self, what: impl Into<String>) {
        self.skips.push(what.into());
    }

    /// A test that returned early counts as passed with its runner; it was none.
    pub(crate) fn skip_instead_of_pass(&mut self, what: impl Into<String>) {
        self.passed = self.passed.saturating_sub(1);
        self.skip(what);
    }

    pub(crate) fn failed(&self) -> u64 {
        self.failures.len() as u64 + self.failed_unnamed
    }

    /// Takes over a runner's counts if `line` is its summary: `test result: ok. 3 passed; 0 failed;
    /// 1 ignored; …` of the Rust test harness. Returns whether it was one.
    pub(crate) fn read_harness_line(&mut self, line: &str) -> bool {
        let Some(counts) = line.trim().strip_prefix("test result: ") else {
            return false;
        };
        let count = |what: &str| -> Option<u64> {
            let mut words = counts
                .split([' ', ';', '.'])
                .filter(|word| !word.is_empty());
            let mut before = words.next()?;
            for word in words {
                if word == what {
                    return before.parse().ok();
                }
                before = word;
            }
            None
        };
        self.passed += count("passed").unwrap_or(0);
        self.failed_unnamed += count("failed").unwrap_or(0);
        for _ in 0..count("ignored").unwrap_or(0) {
            self.skip("ignored, with the reason in its source");
        }
        true
    }

    /// Takes over our own runners' last line: `3 passed, 0 failed, 1 skipped`.
    pub(crate) fn read_plain_line(&mut self, line: &str) -> bool {
        let mut counts = [0; 3];
        let mut seen = 0;
        for part in line.trim().split(", ") {
            let Some((count, what)) = part.split_once(' ') else {
                return false;
            };
            let Ok(count) = count.parse::<u64>() else {
                return false;
            };
            let Some(index) = ["passed", "failed", "skipped"]
                .iter()
                .position(|word| *word == what)
            else {
                return false;
            };
            counts[index] = count;
            seen += 1;
        }
        if seen < 2 {
            return false;
        }
        self.passed += counts[0];
        self.failed_unnamed += counts[1];
        for _ in 0..counts[2] {
            self.skip("skipped, with the reason in the output above");
        }
        true
    }

    /// `N passed, N failed`, and what was skipped if anything was.
    pub(crate) fn line(&self) -> String {
        let mut line = format!("{} passed, {} failed", self.passed, self.failed());
        if !self.skips.is_empty() {
            line.push_str(&format!(", {} skipped", self.skips.len()));
        }
        line
    }

    /// Prints the reasons and the last line.
    pub(crate) fn finish(&self) -> ExitCode {
        for (reason, count) in grouped(&self.skips) {
            println!("skipped ({count}): {reason}");
        }
        for failure in &self.failures {
            println!("failed: {failure}");
        }
        println!("{}", self.line());
        if self.failed() == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }
}

/// Equal reasons once, in order of first appearance.
fn grouped(reasons: &[String]) -> Vec<(&str, usize)> {
    let mut groups: Vec<(&str, usize)> = Vec::new();
    for reason in reasons {
        match groups.iter_mut().find(|(known, _)| known == reason) {
            Some((_, count)) => *count += 1,
            None => groups.push((reason, 1)),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn harness_lines_add_up() {
        let mut tally = Tally::default();
        for line in [
            "running 3 tests",
            "test result: ok. 26 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; \
             finished in 0.01s",
            "test result: FAILED. 2 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out",
            "the test result: is good",
        ] {
            tally.read_harness_line(line);
        }
        assert_eq!(tally.line(), "28 passed, 3 failed, 1 skipped");
    }

    #[test]
    fn our_own_lines_add_up_and_others_are_left_alone() {
        let mut tally = Tally::default();
        assert!(tally.read_plain_line("7 passed, 1 failed, 2 skipped"));
        assert!(tally.read_plain_line("1 passed, 0 failed"));
        for other in [
            "",
            "7 passed",
            "passed, failed",
            "3 men, 1 boat",
            "7 passed, 1 broken",
        ] {
            assert!(!tally.read_plain_line(other), "{other}");
        }
        assert_eq!(tally.line(), "8 passed, 1 failed, 2 skipped");
    }

    #[test]
    fn a_skipped_test_is_not_a_passed_one() {
        let mut tally = Tally::default();
        tally.pass(2);
        tally.skip_instead_of_pass("no fio");
        assert_eq!(tally.line(), "1 passed, 0 failed, 1 skipped");
        tally.fail("lints");
        assert_eq!(tally.line(), "1 passed, 1 failed, 1 skipped");
        assert_eq!(
            grouped(&["a".into(), "b".into(), "a".into()]),
            [("a", 2), ("b", 1)]
        );
    }
}
