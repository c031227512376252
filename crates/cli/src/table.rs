//! Aligned tables: names to the left, numbers to the right, two spaces between.

use std::fmt::Write as _;

/// Where a column's text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// A table being filled.
pub(crate) struct Table {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(columns: &[(&'static str, Align)]) -> Table {
        Table {
            columns: columns.to_vec(),
            rows: Vec::new(),
        }
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        assert_eq!(cells.len(), self.columns.len(), "a cell for each column");
        self.rows.push(cells.into());
    }

    /// With its heading; nothing trails.
    pub(crate) fn text(&self) -> String {
        let heading = self.columns.iter().map(|(name, _)| (*name).to_owned());
        let mut lines = vec![heading.collect::<Vec<_>>()];
        lines.extend(self.rows.iter().cloned());
        let width = |column: usize| {
            let cells = lines.iter().map(|line| line[column].chars().count());
            cells.max().unwrap_or(0)
        };
        let widths: Vec<_> = (0..self.columns.len()).map(width).collect();
        let mut text = String::new();
        for line in &lines {
            let mut shown = String::new();
            for ((cell, width), (_, align)) in line.iter().zip(&widths).zip(&self.columns) {
                // Writing to a String cannot fail.
                let _ = match align {
                    Align::Left => write!(shown, "{cell:<width$}  "),
                    Align::Right => write!(shown, "{cell:>width$}  "),
                };
            }
            text.push_str(shown.trim_end());
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest() {
        let mut table = Table::new(&[("NAME", Align::Left), ("SIZE", Align::Right)]);
        table.row(["a".to_owned(), "1.0 GiB".to_owned()]);
        table.row(["longer".to_owned(), "5 B".to_owned()]);
        let expected = "NAME       SIZE\na       1.0 GiB\nlonger      5 B\n";
        assert_eq!(table.text(), expected);
        assert_eq!(Table::new(&[("NAME", Align::Left)]).text(), "NAME\n");
    }
}
