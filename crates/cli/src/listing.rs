//! Lists of objects, with the columns, rows and order that the user selects.
//!
//! A noun has its columns once, with the kind of each; text, order and comparison follow from that.
//! `--where` and `--sort` go by the value, not by its text, so sizes compare as sizes however they
//! are printed, and what they leave is also what `--json` prints. `everglade_api` has the grammar
//! of `--where`, because filters over REST have the same one.

use std::borrow::Cow;
use std::cmp::Ordering;

use everglade_api::{Filter, Found, Kind, Size, split_filter};
use serde_json::{Value, json};

use crate::failure::{Failure, exit};
use crate::output::Output;
use crate::session::Answer;
use crate::status::duration;
use crate::table::{Align, Table};
use crate::verb::Listing;

/// The value in one cell of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cell {
    Text(String),
    Bytes(u64),
    Count(u64),
    Percent(u64),
    Seconds(u64),
    /// The value is unknown or absent.
    None,
}

impl Cell {
    pub(crate) fn bytes(bytes: Option<u64>) -> Cell {
        bytes.map_or(Cell::None, Cell::Bytes)
    }

    pub(crate) fn seconds(seconds: Option<u64>) -> Cell {
        seconds.map_or(Cell::None, Cell::Seconds)
    }

    pub(crate) fn flag(flag: bool) -> Cell {
        Cell::text(if flag { "yes" } else { "no" })
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
            Cell::Seconds(seconds) => duration(*seconds),
            Cell::None => "-".to_owned(),
        }
    }

    fn number(&self) -> Option<u64> {
        match self {
            Cell::Bytes(number)
            | Cell::Count(number)
            | Cell::Percent(number)
            | Cell::Seconds(number) => Some(*number),
            Cell::Text(_) | Cell::None => None,
        }
    }

    /// Returns the value as filters compare it.
    fn found(&self) -> Found<'_> {
        match self {
            Cell::Text(text) => Found::Text(Cow::Borrowed(text)),
            other => other.number().map_or(Found::Absent, Found::Number),
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
    /// Kind of the values in its cells.
    kind: Kind,
    /// Name of its field in JSON; from name and kind if empty.
    field: &'static str,
    /// Whether the column is shown by default.
    usual: bool,
    cell: fn(&T) -> Cell,
}

impl<T> Column<T> {
    const fn new(name: &'static str, kind: Kind, cell: fn(&T) -> Cell) -> Column<T> {
        Column {
            name,
            kind,
            field: "",
            usual: true,
            cell,
        }
    }

    pub(crate) const fn text(name: &'static str, cell: fn(&T) -> Cell) -> Column<T> {
        Column::new(name, Kind::Text, cell)
    }

    /// Makes a column of words of a schema of the REST interface.
    pub(crate) const fn words(
        name: &'static str,
        schema: &'static str,
        cell: fn(&T) -> Cell,
    ) -> Column<T> {
        Column::new(name, Kind::Word(schema), cell)
    }

    pub(crate) const fn flag(name: &'static str, cell: fn(&T) -> Cell) -> Column<T> {
        Column::new(name, Kind::Flag, cell)
    }

    /// Makes a column of times, RFC 3339 in UTC.
    pub(crate) const fn time(name: &'static str, cell: fn(&T) -> Cell) -> Column<T> {
        Column::new(name, Kind::Time, cell)
    }

    pub(crate) const fn bytes(name: &'static str, cell: fn(&T) -> Cell) -> Column<T> {
        Column::new(name, Kind::Size, cell)
    }

    pub(crate) const fn count(name: &'static str, cell: fn(&T) -> Cell) -> Column<T> {
        Column::new(name, Kind::Count, cell)
    }

    pub(crate) const fn percent(name: &'static str, cell: fn(&T) -> Cell) -> Column<T> {
        Column::new(name, Kind::Percent, cell)
    }

    pub(crate) const fn seconds(name: &'static str, cell: fn(&T) -> Cell) -> Column<T> {
        Column::new(name, Kind::Duration, cell)
    }

    /// Gives the column's field in JSON a name that does not follow from name and kind.
    pub(crate) const fn called(self, field: &'static str) -> Column<T> {
        Column { field, ..self }
    }

    /// Returns the name of the column's field in JSON, with the unit of its values.
    fn field(&self) -> String {
        let name = self.name.trim_end_matches('%').replace('-', "_");
        let unit = match self.kind {
            _ if !self.field.is_empty() => return self.field.to_owned(),
            Kind::Size => "bytes",
            Kind::Percent => "percent",
            Kind::Duration => "seconds",
            Kind::Text | Kind::Count | Kind::Time | Kind::Flag | Kind::Word(_) => return name,
        };
        match name == unit {
            true => name,
            false => format!("{name}_{unit}"),
        }
    }

    /// Returns the cell of an item as JSON.
    fn value(&self, item: &T) -> Value {
        match (self.cell)(item) {
            Cell::None => Value::Null,
            Cell::Text(text) if self.kind == Kind::Flag => Value::Bool(text == "yes"),
            Cell::Text(text) => Value::String(text),
            number => json!(number.number()),
        }
    }

    /// Numbers are aligned right.
    fn align(&self) -> Align {
        match self.kind {
            Kind::Text | Kind::Time | Kind::Flag | Kind::Word(_) => Align::Left,
            Kind::Size | Kind::Count | Kind::Percent | Kind::Duration => Align::Right,
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
    if !listing.columns.is_empty() {
        let chosen = rows.iter().map(|row| fields(&items[*row], &chosen));
        raw[key] = Value::Array(chosen.collect());
    } else if let Some(all) = told.raw[key].as_array() {
        let kept = rows.iter().filter_map(|row| all.get(*row));
        raw[key] = Value::Array(kept.cloned().collect());
    }
    output.data(&raw, || table(items, &rows, &chosen, listing))
}

/// Returns the cells of an item as a JSON object: exact, and named alike in table and JSON.
fn fields<T>(item: &T, columns: &[&Column<T>]) -> Value {
    let cells = columns
        .iter()
        .map(|column| (column.field(), column.value(item)));
    Value::Object(cells.collect())
}

/// Prints one object as a list of one row.
pub(crate) fn print_one<T>(
    told: &Answer<T>,
    columns: &[Column<T>],
    listing: &Listing,
    output: &Output,
) -> Result<(), Failure> {
    for_one(columns, listing)?;
    let items = std::slice::from_ref(&told.meant);
    let chosen = choose(columns, listing)?;
    let raw = match listing.columns.is_empty() {
        true => told.raw.clone(),
        false => versioned(fields(&told.meant, &chosen)),
    };
    output.data(&raw, || table(items, &[0], &chosen, listing))
}

/// Refuses options that cannot be followed for one object. A verb that changes something asks this
/// first.
///
/// # Errors
/// There is a `--where` or a `--sort`, or a column that does not exist.
pub(crate) fn for_one<T>(columns: &[Column<T>], listing: &Listing) -> Result<(), Failure> {
    choose(columns, listing)?;
    if listing.filters.is_empty() && listing.sort.is_empty() {
        return Ok(());
    }
    let text = "--where and --sort are for lists, and this shows one object; leave them out, or \
        leave out its name";
    Err(Failure::new(exit::USAGE, text))
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
        .map(|column| (column.name.to_uppercase(), column.align()));
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
        let (column, filter) = condition(columns, text)?;
        rows.retain(|row| filter.keeps(&(column.cell)(&items[*row]).found()));
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

/// Reads a condition such as `size>=10GiB`.
fn condition<'c, T>(
    columns: &'c [Column<T>],
    text: &str,
) -> Result<(&'c Column<T>, Filter), Failure> {
    let refuse = |why: String| Failure::new(exit::USAGE, format!("--where: {text:?}: {why}"));
    let (name, relation, value) = split_filter(text).ok_or_else(|| {
        let why = "not a condition; write COLUMN=VALUE, with =, !=, <, <=, >, >= or ~ (contains)";
        refuse(why.to_owned())
    })?;
    let column = find(columns, name, "--where")?;
    let filter = Filter::parse(column.kind, relation, value);
    Ok((column, filter.map_err(|error| refuse(error.to_string()))?))
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
        Column::text("name", |item| Cell::text(item.0)),
        Column::bytes("size", |item| Cell::bytes(item.1)),
        if_asked(Column::bytes("half", |item| {
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
        assert_eq!(names(&["size>=9.5GiB"], &[]), "a", "a fraction");
        assert_eq!(names(&["half<=4.5 GiB"], &[]), "bd", "as it is printed");
    }

    #[test]
    fn a_value_of_another_kind_is_wrong_usage_even_in_an_empty_list() {
        let none: [(&str, Option<u64>); 0] = [];
        for (filter, part) in [
            ("size>lots", "'lots' is not a size"),
            ("size>=1.5GB", "GiB"),
            ("size~1", "'~' is for texts"),
        ] {
            let refused = select(&none, &COLUMNS, &listing(&[filter], &[], &[]));
            let failure = refused.expect_err(filter);
            assert_eq!(failure.code, exit::USAGE);
            assert!(failure.message.contains(part), "{failure}");
            assert!(failure.message.contains(filter), "{failure}");
        }
    }

    #[test]
    fn columns_are_fields_with_their_units() {
        let all: Vec<_> = COLUMNS.iter().collect();
        assert_eq!(
            fields(&("a", Some(9)), &all),
            json!({"name": "a", "size_bytes": 9, "half_bytes": 4})
        );
        assert!(fields(&("a", None), &all)["size_bytes"].is_null());
        let field = |name, kind| Column::<()>::new(name, kind, |()| Cell::None).field();
        assert_eq!(field("use%", Kind::Percent), "use_percent");
        assert_eq!(field("percent", Kind::Percent), "percent");
        assert_eq!(field("lun-sizes", Kind::Size), "lun_sizes_bytes");
        assert_eq!(field("eta", Kind::Duration), "eta_seconds");
        assert_eq!(field("clone-of", Kind::Text), "clone_of");
        let flag = Column::<()>::flag("exported", |()| Cell::flag(true));
        assert_eq!(flag.value(&()), json!(true));
        let rate = Column::<()>::bytes("rate", |()| Cell::Bytes(1)).called("rate_per_second");
        assert_eq!(fields(&(), &[&rate]), json!({"rate_per_second": 1}));
    }

    #[test]
    fn one_object_has_no_rows_to_choose_from() {
        assert_eq!(for_one(&COLUMNS, &listing(&[], &[], &["size"])), Ok(()));
        for listing in [
            listing(&["size>1"], &[], &[]),
            listing(&[], &["size"], &[]),
            listing(&[], &[], &["nix"]),
        ] {
            assert_eq!(
                for_one(&COLUMNS, &listing).expect_err("refused").code,
                exit::USAGE
            );
        }
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
