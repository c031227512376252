//! Aligned tables: names to the left, numbers to the right, two spaces between.

use std::fmt::Write as _;

/// Alignment of a column's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// A table being filled.
pub(crate) struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(columns: impl IntoIterator<Item = (String, Align)>) -> Table {
        Table {
            columns: columns.into_iter().collect(),
            rows: Vec::new(),
        }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.columns.len(), "a cell for each column");
        self.rows.push(cells);
    }

    /// Returns the text, with the heading if requested, without trailing spaces.
    pub(crate) fn text(&self, with_heading: bool) -> String {
        let heading = self.columns.iter().map(|(name, _)| name.clone());
        let mut lines = Vec::new();
        if with_heading {
            lines.push(heading.collect::<Vec<_>>());
        }
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

/// A table of numbers, each below its name; the first column has names.
pub(crate) fn heading(names: &[&str]) -> Table {
    let align = |index| {
        if index == 0 {
            Align::Left
        } else {
            Align::Right
        }
    };
    let columns = names.iter().enumerate();
    Table::new(columns.map(|(index, name)| ((*name).to_owned(), align(index))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest() {
        let columns = [("NAME", Align::Left), ("SIZE", Align::Right)];
        let mut table = Table::new(columns.map(|(name, align)| (name.to_owned(), align)));
        table.row(vec!["a".to_owned(), "1.0 GiB".to_owned()]);
        table.row(vec!["longer".to_owned(), "5 B".to_owned()]);
        let expected = "NAME       SIZE\na       1.0 GiB\nlonger      5 B\n";
        assert_eq!(table.text(true), expected);
        assert_eq!(table.text(false), "a       1.0 GiB\nlonger      5 B\n");
        let empty = Table::new([("NAME".to_owned(), Align::Left)]);
        assert_eq!(empty.text(true), "NAME\n");
    }
}
