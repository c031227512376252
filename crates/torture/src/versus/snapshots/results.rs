//! Figures of the jobs by store, and which goals they reach.

use std::fmt::Display;

use super::super::page::Verdict;

/// Everything that was measured.
#[derive(Default)]
pub struct Results {
    /// What it was measured on, and how.
    pub about: Vec<(&'static str, String)>,
    /// In the order in which they were measured.
    pub(super) figures: Vec<Figure>,
    pub(super) verdicts: Vec<Verdict>,
}

/// One quantity, of each store.
pub(super) struct Figure {
    /// The job that measured it.
    pub(super) job: &'static str,
    pub(super) what: String,
    pub(super) unit: &'static str,
    /// By store, in the order in which they were measured.
    pub(super) values: Vec<(&'static str, Vec<f64>)>,
}

impl Results {
    /// Adds a value.
    pub(super) fn add(
        &mut self,
        (job, store): (&'static str, &'static str),
        what: &str,
        unit: &'static str,
        value: f64,
    ) {
        let is_it = |figure: &Figure| figure.job == job && figure.what == what;
        let index = self.figures.iter().position(is_it);
        let index = index.unwrap_or_else(|| {
            self.figures.push(Figure {
                job,
                what: what.to_owned(),
                unit,
                values: Vec::new(),
            });
            self.figures.len() - 1
        });
        let values = &mut self.figures[index].values;
        match values.iter_mut().find(|(known, _)| *known == store) {
            Some((_, values)) => values.push(value),
            None => values.push((store, vec![value])),
        }
    }

    /// What was noted of ours; empty if nothing was.
    pub(super) fn ours(&self, job: &str, what: &str) -> Vec<f64> {
        let mut figures = self.figures.iter();
        let figure = figures.find(|figure| figure.job == job && figure.what == what);
        let mut values = figure.into_iter().flat_map(|figure| &figure.values);
        let ours = values.find(|(store, _)| *store == OURS);
        ours.map(|(_, values)| values.clone()).unwrap_or_default()
    }

    /// Says whether a goal was reached.
    pub(super) fn judge(&mut self, what: &str, goal: &str, reached: impl Display, is_met: bool) {
        self.verdicts.push(Verdict {
            what: what.to_owned(),
            goal: goal.to_owned(),
            reached: reached.to_string(),
            is_met,
        });
    }
}

/// Who is judged.
pub(super) const OURS: &str = "everglade";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_kept_by_job_quantity_and_store() {
        let mut results = Results::default();
        for (store, value) in [(OURS, 3.0), ("other", 9.0), (OURS, 1.0), (OURS, 2.0)] {
            results.add(("job", store), "time", "ms", value);
        }
        results.add(("another", OURS), "time", "ms", 7.0);
        assert_eq!(results.ours("job", "time"), [3.0, 1.0, 2.0]);
        assert!(results.ours("job", "rate").is_empty());
        assert_eq!(results.figures.len(), 2);
    }
}
