//! Lists of objects, with the columns, rows and order that the user selects.
//!
//! A noun has its columns once, with the kind of each; text, order and comparison follow from that.
//! `--where` and `--sort` go by the value, not by its text, so sizes compare as sizes however they
//! are printed, and what they leave is also what `--json` prints.

use std::cmp::Ordering;

use everglade_api::Size;
use serde_json::{Value, json};

use crate::failure::{Failure, exit};
use crate::output::Output;
use crate::session::Answer;
use crate::table::{Align, Table};
use crate::verb::Listing;

/// The value in one cell of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cell {
    Text(String),
    Bytes(u64),
    Count(u64),
    Percent(u64),
    /// The value is unknown or absent.
    None,
}

impl Cell {
    pub(crate) fn bytes(bytes: Option<u64>) -> Cell {
        bytes.map_or(Cell::None, Cell::Bytes)
    }

    pub(crate) fn text(text: impl ToString) -> Cell {
        Cell::Text(text.to_string())
    }

    fn shown(&self, exact: bool) -> String {
        match self {
            Cell::Text(text) => printable(text),
            Cell::Bytes(bytes) if exact => bytes.to_string(),
            Cell::Bytes(bytes) => Size(*bytes).to_string(),
            Cell::Count(count) => count.to_string(),
            Cell::Percent(percent) => format!("{percent}%"),
            Cell::None => "-".to_owned(),
        }
    }

    fn number(&self) -> Option<u64> {
        match self {
            Cell::Bytes(number) | Cell::Count(number) | Cell::Percent(number) => Some(*number),
            Cell::Text(_) | Cell::None => None,
        }
    }

    /// Orders absent values first.
    fn compare(&self, other: &Cell) -> Ordering {
        match (self, other) {
            (Cell::Text(a), Cell::Text(b)) => a.cmp(b),
            _ => self.number().cmp(&other.number()),
        }
    }
}

/// Returns the text as one line without control characters.
fn printable(text: &str) -> String {
    let clean = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().map(clean).collect()
}

/// A column of a noun.
pub(crate) struct Column<T> {
    /// Name in lower case; the heading is in capitals.
    name: &'static str,
    align: Align,
    /// Whether the column is shown by default.
    usual: bool,
    cell: fn(&T) -> Cell,
}

impl<T> Column<T> {
    /// Makes a column of text, aligned left.
    pub(crate) const fn left(name: &'static str, cell: fn(&T) -> Cell) -> Column<T> {
        Column {
            name,
            align: Align::Left,
            usual: true,
            cell,
        }
    }

    /// Makes a column of numbers, aligned right.
    pub(crate) const fn right(name: &'static str, cell: fn(&T) -> Cell) -> Column<T> {
        Column {
            name,
            align: Align::Right,
            usual: true,
            cell,
        }
    }
}

/// Makes a column that is shown only on request.
pub(crate) const fn if_asked<T>(column: Column<T>) -> Column<T> {
    Column {
        usual: false,
        ..column
    }
}

/// Prints a list. The items are those of `told.raw[key]`, in the same order.
pub(crate) fn print<T, L>(
    told: &Answer<L>,
    (key, items): (&str, &[T]),
    columns: &[Column<T>],
    listing: &Listing,
    output: &Output,
) -> Result<(), Failure> {
    let chosen = choose(columns, listing)?;
    let rows = select(items, columns, listing)?;
    let mut raw = told.raw.clone();
    if let Some(all) = told.raw[key].as_array() {
        let kept = rows.iter().filter_map(|row| all.get(*row));
        raw[key] = Value::Array(kept.cloned().collect());
    }
    output.data(&raw, || table(items, &rows, &chosen, listing))
}

/// Prints one object as a list of one row.
pub(crate) fn print_one<T>(
    told: &Answer<T>,
    columns: &[Column<T>],
    listing: &Listing,
    output: &Output,
) -> Result<(), Failure> {
    let items = std::slice::from_ref(&told.meant);
    let chosen = choose(columns, listing)?;
    output.data(&told.raw, || table(items, &[0], &chosen, listing))
}

/// Returns the text of an object that was just created.
pub(crate) fn of_one<T>(item: &T, columns: &[Column<T>]) -> String {
    let chosen: Vec<_> = columns.iter().filter(|column| column.usual).collect();
    table(
        std::slice::from_ref(item),
        &[0],
        &chosen,
        &Listing::default(),
    )
}

fn table<T>(items: &[T], rows: &[usize], columns: &[&Column<T>], listing: &Listing) -> String {
    let headings = columns
        .iter()
        .map(|column| (column.name.to_uppercase(), column.align));
    let mut table = Table::new(headings);
    for row in rows {
        let cell = |column: &&Column<T>| (column.cell)(&items[*row]).shown(listing.exact);
        table.row(columns.iter().map(cell).collect());
    }
    table.text(!listing.no_header)
}

/// Returns the columns to show.
fn choose<'c, T>(
    columns: &'c [Column<T>],
    listing: &Listing,
) -> Result<Vec<&'c Column<T>>, Failure> {
    if listing.columns.is_empty() {
        return Ok(columns.iter().filter(|column| column.usual).collect());
    }
    let mut chosen = Vec::new();
    for name in &listing.columns {
        match name.as_str() {
            "all" => chosen.extend(columns.iter()),
            name => chosen.push(find(columns, name, "--columns")?),
        }
    }
    Ok(chosen)
}

fn find<'c, T>(
    columns: &'c [Column<T>],
    name: &str,
    option: &str,
) -> Result<&'c Column<T>, Failure> {
    let name = name.trim().to_lowercase();
    let found = columns.iter().find(|column| column.name == name);
    found.ok_or_else(|| {
        let known: Vec<_> = columns.iter().map(|column| column.name).collect();
        let text = format!(
            "{option}: {name:?} is not a column here; use some of {}",
            known.join(", ")
        );
        Failure::new(exit::USAGE, text)
    })
}

/// Returns the rows to show, by their places in the list.
fn select<T>(items: &[T], columns: &[Column<T>], listing: &Listing) -> Result<Vec<usize>, Failure> {
    let mut rows: Vec<usize> = (0..items.len()).collect();
    for text in &listing.filters {
        let filter = Filter::parse(columns, text)?;
        rows.retain(|row| filter.keeps(&items[*row]));
    }
    // The last named decides least, so it sorts first; sorting keeps equals in order.
    for name in listing.sort.iter().rev() {
        let (name, downwards) = match name.strip_prefix('-') {
            Some(name) => (name, true),
            None => (name.as_str(), false),
        };
        let cell = find(columns, name, "--sort")?.cell;
        rows.sort_by(|a, b| {
            let order = cell(&items[*a]).compare(&cell(&items[*b]));
            if downwards { order.reverse() } else { order }
        });
    }
    Ok(rows)
}

/// `size>=10GiB`.
struct Filter<'c, T> {
    column: &'c Column<T>,
    relation: &'static str,
    value: String,
}

/// Longer ones first, so that `>=` is not taken for `>`.
const RELATIONS: [&str; 7] = ["!=", ">=", "<=", "~", "=", ">", "<"];

impl<'c, T> Filter<'c, T> {
    fn parse(columns: &'c [Column<T>], text: &str) -> Result<Filter<'c, T>, Failure> {
        let place = text.find(['!', '>', '<', '=', '~']).unwrap_or(text.len());
        let (name, rest) = text.split_at(place);
        let relation = RELATIONS
            .into_iter()
            .find(|relation| rest.starts_with(relation));
        let relation = relation.ok_or_else(|| {
            let text = format!(
                "--where: {text:?} is not a condition; write COLUMN=VALUE, with =, !=, <, <=, >, \
                >= or ~ (contains)"
            );
            Failure::new(exit::USAGE, text)
        })?;
        Ok(Filter {
            column: find(columns, name, "--where")?,
            relation,
            value: rest[relation.len()..].trim().to_owned(),
        })
    }

    fn keeps(&self, item: &T) -> bool {
        let cell = (self.column.cell)(item);
        let order = match &cell {
            Cell::Text(text) if self.relation == "~" => return text.contains(&self.value),
            Cell::Text(text) => Some(text.as_str().cmp(self.value.as_str())),
            Cell::None => (self.value == "-").then_some(Ordering::Equal),
            number => {
                let value = self.value.trim_end_matches('%').parse::<Size>();
                let value = value.ok().map(|value| value.bytes());
                value.and_then(|value| number.number().map(|number| number.cmp(&value)))
            }
        };
        match self.relation {
            "=" => order == Some(Ordering::Equal),
            "!=" => order != Some(Ordering::Equal),
            ">" => order == Some(Ordering::Greater),
            "<" => order == Some(Ordering::Less),
            ">=" => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
            "<=" => matches!(order, Some(Ordering::Less | Ordering::Equal)),
            _ => false,
        }
    }
}

/// Adds the schema version to the beginning of a document made here and not by the daemon.
pub(crate) fn versioned(body: Value) -> Value {
    let mut document = json!({"schema_version": everglade_api::SCHEMA_VERSION});
    if let (Value::Object(document), Value::Object(body)) = (&mut document, body) {
        document.extend(body);
    }
    document
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column<(&str, Option<u64>)>; 3] = [
        Column::left("name", |item| Cell::text(item.0)),
        Column::right("size", |item| Cell::bytes(item.1)),
        if_asked(Column::right("half", |item| {
            Cell::bytes(item.1.map(|size| size / 2))
        })),
    ];
    const ITEMS: [(&str, Option<u64>); 4] = [
        ("b", Some(9 << 30)),
        ("a", Some(10 << 30)),
        ("c", None),
        ("d", Some(9 << 30)),
    ];

    fn listing(filters: &[&str], sort: &[&str], columns: &[&str]) -> Listing {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Listing {
            filters: owned(filters),
            sort: owned(sort),
            columns: owned(columns),
            ..Listing::default()
        }
    }

    fn names(filters: &[&str], sort: &[&str]) -> String {
        let rows = select(&ITEMS, &COLUMNS, &listing(filters, sort, &[])).expect("good");
        rows.into_iter().map(|row| ITEMS[row].0).collect()
    }

    #[test]
    fn rows_are_kept_and_sorted_by_value() {
        assert_eq!(names(&[], &["size"]), "cbda", "as sizes, not as text");
        assert_eq!(names(&[], &["-size", "name"]), "abdc");
        assert_eq!(names(&["size>9GiB"], &[]), "a");
        assert_eq!(names(&["size>=9GiB", "name!=d"], &[]), "ba");
        assert_eq!(names(&["size=9663676416"], &[]), "bd");
        assert_eq!(names(&["size=-"], &[]), "c");
        assert_eq!(names(&["name~a"], &[]), "a");
        assert_eq!(names(&["name<c"], &[]), "ba");
        assert_eq!(names(&["size>lots"], &[]), "");
    }

    #[test]
    fn columns_are_those_that_are_named() {
        let shown = |columns: &[&str]| {
            let listing = listing(&[], &[], columns);
            let chosen = choose(&COLUMNS, &listing).expect("good");
            chosen.iter().map(|column| column.name).collect::<Vec<_>>()
        };
        assert_eq!(shown(&[]), ["name", "size"]);
        assert_eq!(shown(&["half", "NAME"]), ["half", "name"]);
        assert_eq!(shown(&["all"]), ["name", "size", "half"]);
    }

    #[test]
    fn what_does_not_exist_is_wrong_usage_and_lists_what_does() {
        for bad in [
            select(&ITEMS, &COLUMNS, &listing(&["nmae=a"], &[], &[])).err(),
            select(&ITEMS, &COLUMNS, &listing(&["name"], &[], &[])).err(),
            select(&ITEMS, &COLUMNS, &listing(&["name!a"], &[], &[])).err(),
            select(&ITEMS, &COLUMNS, &listing(&[], &["nmae"], &[])).err(),
            choose(&COLUMNS, &listing(&[], &[], &["nmae"])).err(),
        ] {
            assert_eq!(bad.expect("refused").code, exit::USAGE);
        }
        let failure = choose(&COLUMNS, &listing(&[], &[], &["nmae"])).err();
        let text = failure.expect("refused").message;
        assert!(text.contains("name, size, half"), "{text}");
    }

    #[test]
    fn nothing_in_a_cell_can_move_a_terminal() {
        assert_eq!(Cell::text("a\u{1b}[2Jb\nc").shown(false), "a [2Jb c");
        assert_eq!(Cell::Bytes(1536).shown(false), "1.5 KiB");
        assert_eq!(Cell::Bytes(1536).shown(true), "1536");
    }
}
