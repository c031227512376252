//! Query parameters of collections: `?fields= &order_by= &max_records= &cursor=`, and filters by
//! field.
//!
//! Items are sorted and filtered in their JSON form, so a new field of a type needs no change here.
//! The OpenAPI description has the names and kinds of the fields, and `everglade_api` the grammar
//! of filters: `size_bytes%3E=1.5GiB` is the filter `size_bytes>=1.5GiB`.

use std::borrow::Cow;
use std::cmp::Ordering;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use everglade_api::{Code, Filter, Found, Kind, Problem, Relation, openapi, split_filter};
use serde::Serialize;
use serde_json::{Map, Value};

use super::answer::{Answer, Refusal, found};

/// Records in one answer.
const RECORDS_MAX: usize = 10_000;
/// Longest query that means anything.
const QUERY_BYTES_MAX: usize = 4096;

/// The parameters of a request, each at most once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Listing {
    parameters: Vec<Parameter>,
}

/// A parameter; only those that filter have a relation other than `=`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Parameter {
    name: String,
    relation: Relation,
    value: String,
}

/// A field of the items, and the kind of its values.
type Field<'a> = (&'a str, Kind);

impl<S: Send + Sync> FromRequestParts<S> for Listing {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Listing, Refusal> {
        Listing::parse(parts.uri.query().unwrap_or_default()).map_err(Refusal)
    }
}

impl Listing {
    fn parse(query: &str) -> Result<Listing, Problem> {
        if query.len() > QUERY_BYTES_MAX {
            let text = format!("longer than {QUERY_BYTES_MAX} bytes; ask for less at a time");
            return Err(Problem::invalid("query", text));
        }
        let mut parameters: Vec<Parameter> = Vec::new();
        for part in query.split('&').filter(|part| !part.is_empty()) {
            let parameter = Parameter::parse(part)?;
            let is_same = |known: &Parameter| {
                known.name == parameter.name && known.relation == parameter.relation
            };
            if parameters.iter().any(is_same) {
                let text = "given twice; give it once";
                return Err(Problem::invalid(&shown(&parameter.name), text));
            }
            parameters.push(parameter);
        }
        Ok(Listing { parameters })
    }

    /// Returns whether the request has no filter, order or limit.
    pub(super) fn is_empty(&self) -> bool {
        self.parameters.is_empty()
    }

    /// Returns the values of these parameters, for a path that takes them and no others.
    pub(super) fn only<const N: usize>(
        mut self,
        known: [&str; N],
    ) -> Result<[Option<String>; N], Problem> {
        let values = known.map(|name| {
            let found = self.parameters.iter().position(|known| known.is(name))?;
            Some(self.parameters.swap_remove(found).value)
        });
        match self.parameters.first() {
            None => Ok(values),
            Some(other) => {
                let name = shown(&other.name);
                let text = format!("unknown parameter; this path takes {}", known.join(", "));
                Err(Problem::of_field(Code::UnknownField, &name, text))
            }
        }
    }

    /// Returns the requested items: a list called `key`, and the start of the next page.
    pub(super) fn answer<T: Serialize>(
        &self,
        key: &str,
        schema: &'static str,
        items: &[T],
    ) -> Answer {
        let items = items
            .iter()
            .map(|item| serde_json::to_value(item).expect("maps with text keys are JSON"));
        found(self.select(key, &openapi::kinds_of(schema), items.collect())?)
    }

    fn select(
        &self,
        key: &str,
        known: &[Field<'_>],
        mut items: Vec<Value>,
    ) -> Result<Map<String, Value>, Problem> {
        let mut fields = None;
        let (mut most, mut first) = (RECORDS_MAX, 0);
        for parameter in &self.parameters {
            let (name, value) = (parameter.name.as_str(), parameter.value.as_str());
            if parameter.is("fields") {
                fields = Some(names(name, value, known)?);
            } else if parameter.is("order_by") {
                let downwards = value.starts_with('-');
                let field = value.trim_start_matches('-');
                let field = one(name, field, known)?;
                items.sort_by(|a, b| compare(a.get(field), b.get(field)));
                if downwards {
                    items.reverse();
                }
            } else if parameter.is("max_records") {
                most = number(name, value, 1, RECORDS_MAX)?;
            } else if parameter.is("cursor") {
                first = number(name, value, 0, usize::MAX)?;
            } else {
                let filter = parameter.filter(known)?;
                items.retain(|item| filter.keeps(&found_in(item.get(name))));
            }
        }
        let total = items.len();
        let end = first.saturating_add(most).min(total);
        let mut page: Vec<Value> = items.drain(first.min(total)..end).collect();
        if let Some(fields) = fields {
            for item in &mut page {
                if let Value::Object(item) = item {
                    item.retain(|name, _| fields.contains(&name.as_str()));
                }
            }
        }
        let mut answer = Map::new();
        answer.insert(key.to_owned(), Value::Array(page));
        if end < total {
            answer.insert("next_cursor".to_owned(), Value::String(end.to_string()));
        }
        Ok(answer)
    }
}

impl Parameter {
    fn parse(part: &str) -> Result<Parameter, Problem> {
        let text = match part.split_once('=') {
            Some((name, value)) => format!("{}={}", decoded(name)?, decoded(value)?),
            None => decoded(part)?,
        };
        let parameter = |name: &str, relation, value: &str| Parameter {
            name: name.to_owned(),
            relation,
            value: value.to_owned(),
        };
        Ok(match split_filter(&text) {
            Some((name, relation, value)) => parameter(name, relation, value),
            None => parameter(&text, Relation::Equal, ""),
        })
    }

    /// Returns whether this is the parameter of that name, which is no filter.
    fn is(&self, name: &str) -> bool {
        self.name == name && self.relation == Relation::Equal
    }

    fn filter(&self, known: &[Field<'_>]) -> Result<Filter, Problem> {
        let name = shown(&self.name);
        let Some((_, kind)) = known.iter().find(|(known, _)| *known == self.name) else {
            let text = format!(
                "unknown parameter; known are fields, order_by, max_records, cursor, and as \
                filters {}",
                joined(known)
            );
            return Err(Problem::of_field(Code::UnknownField, &name, text));
        };
        let filter = Filter::parse(*kind, self.relation, &self.value);
        filter.map_err(|error| Problem::invalid(&name, error))
    }
}

fn joined(known: &[Field<'_>]) -> String {
    let names: Vec<_> = known.iter().map(|(name, _)| *name).collect();
    names.join(", ")
}

/// Decodes percent-encoding; a '+' is a space.
fn decoded(text: &str) -> Result<String, Problem> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => match (digit(rest.next()), digit(rest.next())) {
                (Some(high), Some(low)) => {
                    bytes.push(u8::try_from(high * 16 + low).expect("two digits"));
                }
                _ => {
                    return Err(Problem::invalid(
                        &shown(text),
                        "not percent-encoded correctly",
                    ));
                }
            },
            b'+' => bytes.push(b' '),
            byte => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).map_err(|_| Problem::invalid(&shown(text), "not UTF-8"))
}

fn shown(name: &str) -> String {
    let printable = name.chars().take(64).flat_map(char::escape_default);
    printable.collect()
}

fn one<'a>(parameter: &str, name: &'a str, known: &[Field<'_>]) -> Result<&'a str, Problem> {
    if known.iter().any(|(known, _)| *known == name) {
        return Ok(name);
    }
    let (shown, known) = (shown(name), joined(known));
    let text = format!("{shown:?} is not a field here; use one of {known}");
    Err(Problem::invalid(parameter, text))
}

fn names<'a>(
    parameter: &str,
    value: &'a str,
    known: &[Field<'_>],
) -> Result<Vec<&'a str>, Problem> {
    value
        .split(',')
        .map(|name| one(parameter, name.trim(), known))
        .collect()
}

fn number(parameter: &str, value: &str, least: usize, most: usize) -> Result<usize, Problem> {
    let found: Option<usize> = value.parse().ok();
    found
        .filter(|found| (least..=most).contains(found))
        .ok_or_else(|| {
            let text = format!(
                "{:?} is not possible; use a whole number from {least} to {most}",
                shown(value)
            );
            Problem::invalid(parameter, text)
        })
}

/// Orders absent values first, numbers by value, and all others as text.
fn compare(a: Option<&Value>, b: Option<&Value>) -> Ordering {
    match (a.and_then(Value::as_u64), b.and_then(Value::as_u64)) {
        (Some(a), Some(b)) => a.cmp(&b),
        _ => text_of(a).cmp(&text_of(b)),
    }
}

fn text_of(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// Returns a field's value as filters compare it. Lists and objects are the text of their JSON.
fn found_in(value: Option<&Value>) -> Found<'_> {
    match value {
        None | Some(Value::Null) => Found::Absent,
        Some(Value::String(text)) => Found::Text(Cow::Borrowed(text)),
        Some(Value::Bool(true)) => Found::Text(Cow::Borrowed("yes")),
        Some(Value::Bool(false)) => Found::Text(Cow::Borrowed("no")),
        Some(other) => match other.as_u64() {
            Some(number) => Found::Number(number),
            None => Found::Text(Cow::Owned(other.to_string())),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const KNOWN: [Field<'_>; 4] = [
        ("name", Kind::Text),
        ("size", Kind::Size),
        ("on", Kind::Flag),
        ("state", Kind::Word("JobState")),
    ];

    fn items() -> Vec<Value> {
        vec![
            json!({"name": "b", "size": 9, "on": true, "state": "done"}),
            json!({"name": "a", "size": 10, "on": false}),
            json!({"name": "c d", "size": 10, "on": null}),
        ]
    }

    fn select(query: &str) -> Result<Value, Problem> {
        let answer = Listing::parse(query)?.select("items", &KNOWN, items())?;
        Ok(Value::Object(answer))
    }

    fn shown_names(query: &str) -> String {
        let answer = select(query).expect(query);
        let list = answer["items"].as_array().expect("a list").clone();
        let name = |item: &Value| item["name"].as_str().unwrap_or("-").to_owned();
        list.iter().map(name).collect::<Vec<_>>().join("|")
    }

    #[test]
    fn items_are_sorted_filtered_cut_and_paged() {
        assert_eq!(shown_names(""), "b|a|c d");
        assert_eq!(shown_names("order_by=name"), "a|b|c d");
        assert_eq!(shown_names("order_by=-name"), "c d|b|a");
        assert_eq!(
            shown_names("order_by=size"),
            "b|a|c d",
            "by value, not as text"
        );
        assert_eq!(shown_names("size=10"), "a|c d");
        assert_eq!(shown_names("name=c%20d"), "c d");
        assert_eq!(shown_names("name=c+d&size=10"), "c d");
        assert_eq!(shown_names("size%3E=10"), "a|c d");
        assert_eq!(shown_names("size%3E9"), "a|c d");
        assert_eq!(shown_names("size%3C0.01KiB&size%3E=9"), "b|a|c d");
        assert_eq!(shown_names("name!=a"), "b|c d");
        assert_eq!(shown_names("name~d"), "c d");
        assert_eq!(shown_names("on=true"), "b");
        assert_eq!(shown_names("on!=true"), "a|c d");
        assert_eq!(shown_names("on=-"), "c d");
        assert_eq!(shown_names("state=done"), "b");
        assert_eq!(shown_names("fields=size"), "-|-|-");
        let page = select("max_records=2").expect("a page");
        assert_eq!(page["next_cursor"], "2");
        assert_eq!(shown_names("max_records=2&cursor=2"), "c d");
        assert_eq!(shown_names("cursor=7"), "");
        assert!(select("cursor=2").expect("the end")["next_cursor"].is_null());
    }

    #[test]
    fn bad_parameters_are_named() {
        for (query, code, field) in [
            ("nmae=a", Code::UnknownField, "nmae"),
            ("fields=nmae", Code::InvalidValue, "fields"),
            ("fields=", Code::InvalidValue, "fields"),
            ("order_by=-", Code::InvalidValue, "order_by"),
            ("max_records=0", Code::InvalidValue, "max_records"),
            ("max_records=10001", Code::InvalidValue, "max_records"),
            ("max_records=-1", Code::InvalidValue, "max_records"),
            ("cursor=x", Code::InvalidValue, "cursor"),
            ("name=a&name=b", Code::InvalidValue, "name"),
            ("size%3E1&size%3E2", Code::InvalidValue, "size"),
            ("size=bla", Code::InvalidValue, "size"),
            ("size%3E=1.5GB", Code::InvalidValue, "size"),
            ("size~1", Code::InvalidValue, "size"),
            ("on=perhaps", Code::InvalidValue, "on"),
            ("state=runing", Code::InvalidValue, "state"),
            ("fields!=name", Code::UnknownField, "fields"),
            ("name=%zz", Code::InvalidValue, "%zz"),
            ("name=%ff", Code::InvalidValue, "%ff"),
            ("name=%", Code::InvalidValue, "%"),
            ("%1b=1", Code::UnknownField, "\\u{1b}"),
        ] {
            let problem = select(query).expect_err(query);
            assert_eq!(problem.code, code, "{query}: {problem}");
            assert_eq!(problem.field.as_deref(), Some(field), "{query}");
        }
    }

    #[test]
    fn a_query_is_long_enough_or_refused_as_what_it_is() {
        let of = |bytes: usize| format!("name={}", "a".repeat(bytes - "name=".len()));
        assert_eq!(shown_names(&of(QUERY_BYTES_MAX)), "");
        let problem = select(&of(QUERY_BYTES_MAX + 1)).expect_err("too long");
        assert_eq!(problem.code, Code::InvalidValue, "{problem}");
        assert_eq!(problem.field.as_deref(), Some("query"));
    }
}
