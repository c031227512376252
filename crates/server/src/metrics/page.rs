//! A page in the text format of Prometheus, version 0.0.4. Only metrics of the table can be put on
//! it.

use std::fmt::Write as _;

use super::table::{self, Kind, Metric};

/// A page being written.
#[derive(Default)]
pub(super) struct Page {
    text: String,
}

/// One metric of the page, to which values are added.
pub(super) struct Family<'a> {
    page: &'a mut Page,
    metric: &'static Metric,
}

impl Page {
    /// Begins a metric. Called once for each metric.
    ///
    /// # Panics
    /// If the metric is not in the table.
    pub(super) fn family(&mut self, name: &str) -> Family<'_> {
        let metric = table::all().find(|metric| metric.name == name);
        let metric = metric.expect("what is shown is in the table");
        // Writing to a String cannot fail.
        let _ = write!(
            self.text,
            "# HELP {name} {}\n# TYPE {name} {}\n",
            metric.help,
            metric.kind.name()
        );
        Family { page: self, metric }
    }

    pub(super) fn text(self) -> String {
        self.text
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: &str) {
        self.text.push_str(name);
        for (index, (label, text)) in labels.iter().enumerate() {
            self.text.push(if index == 0 { '{' } else { ',' });
            let _ = write!(self.text, "{label}=\"{}\"", escaped(text));
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }
}

impl Family<'_> {
    /// Adds a whole number.
    pub(super) fn value(&mut self, labels: &[&str], value: u64) {
        self.text_value(labels, &value.to_string());
    }

    /// Adds a fraction of whole numbers.
    pub(super) fn ratio(&mut self, labels: &[&str], value: u64, of: u64) {
        let value = if of == 0 {
            0.0
        } else {
            float(value) / float(of)
        };
        self.text_value(labels, &value.to_string());
    }

    /// Adds a number without labels that is text already.
    pub(super) fn ratio_text(&mut self, value: &str) {
        self.text_value(&[], value);
    }

    /// Adds a number that is text already.
    pub(super) fn text_value(&mut self, labels: &[&str], value: &str) {
        assert_ne!(self.metric.kind, Kind::Histogram, "it has buckets");
        let labels = self.labelled(labels);
        self.page.sample(self.metric.name, &labels, value);
    }

    fn labelled<'t>(&self, values: &[&'t str]) -> Vec<(&'static str, &'t str)> {
        assert_eq!(
            values.len(),
            self.metric.labels.len(),
            "a value for each label"
        );
        let names = self.metric.labels.iter().copied();
        names.zip(values.iter().copied()).collect()
    }

    /// Adds a histogram: counts by upper bound in nanoseconds, the last without a bound, not
    /// cumulative; and the sum in nanoseconds.
    pub(super) fn histogram(&mut self, labels: &[&str], bounds: &[u64], counts: &[u64], sum: u64) {
        let ends = bounds.iter().map(|bound| seconds(*bound));
        self.buckets(labels, ends.collect(), (counts, seconds(sum)));
    }

    /// The same of counts that have no unit.
    pub(super) fn plain_histogram(
        &mut self,
        labels: &[&str],
        bounds: &[u64],
        counts: &[u64],
        sum: u64,
    ) {
        let ends = bounds.iter().map(u64::to_string);
        self.buckets(labels, ends.collect(), (counts, sum.to_string()));
    }

    fn buckets(&mut self, labels: &[&str], ends: Vec<String>, (counts, sum): (&[u64], String)) {
        assert_eq!(counts.len(), ends.len() + 1, "one bucket has no bound");
        let labels = self.labelled(labels);
        let name = self.metric.name;
        let mut total = 0;
        let ends = ends.into_iter().chain(["+Inf".to_owned()]);
        for (end, count) in ends.zip(counts) {
            total += count;
            let with_end = [labels.as_slice(), &[("le", end.as_str())]].concat();
            self.page
                .sample(&format!("{name}_bucket"), &with_end, &total.to_string());
        }
        self.page.sample(&format!("{name}_sum"), &labels, &sum);
        self.page
            .sample(&format!("{name}_count"), &labels, &total.to_string());
    }
}

#[expect(clippy::cast_precision_loss, reason = "a ratio for people and graphs")]
fn float(value: u64) -> f64 {
    value as f64
}

/// Nanoseconds as seconds, exactly and without trailing zeroes.
pub(super) fn seconds(nanos: u64) -> String {
    let text = format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn escaped(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
    escaped.replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_what_prometheus_reads() {
        let mut page = Page::default();
        page.family("everglade_luns").value(&[], 7);
        page.family("everglade_journal_fill_ratio")
            .ratio(&["a\"b"], 1, 4);
        let mut family = page.family("everglade_nbd_request_duration_seconds");
        family.histogram(
            &["read"],
            &[50_000, 1_000_000_000],
            &[2, 0, 1],
            1_500_000_000,
        );
        let text = page.text();
        for line in [
            "# TYPE everglade_luns gauge\neverglade_luns 7\n",
            "everglade_journal_fill_ratio{aggregate=\"a\\\"b\"} 0.25\n",
            "_bucket{op=\"read\",le=\"0.00005\"} 2\n",
            "_bucket{op=\"read\",le=\"1\"} 2\n",
            "_bucket{op=\"read\",le=\"+Inf\"} 3\n",
            "_sum{op=\"read\"} 1.5\n",
            "_count{op=\"read\"} 3\n",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert_eq!(seconds(0), "0");
        assert_eq!(seconds(10_000_000_000), "10");
    }
}
