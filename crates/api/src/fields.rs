//! The body of a request, read strictly: each field is taken once, by name, and what is left over
//! at the end is refused.
//!
//! `serde`'s own messages name a field only sometimes; here a refusal always does, and says what
//! was found and what was expected.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;

use crate::{Code, Problem};

/// Characters of an unknown field's name that a message shows.
const SHOWN_MAX: usize = 64;

/// The fields of one request.
#[derive(Debug)]
pub struct Fields {
    fields: Vec<(String, Value)>,
    /// Fields that the parser has requested so far, for the message about an unknown field.
    known: Vec<&'static str>,
}

/// The object as it was sent: with doubled fields still in it.
struct Raw(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Raw, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Raw;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Raw, M::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Raw(pairs))
            }
        }
        deserializer.deserialize_map(Pairs)
    }
}

impl Fields {
    /// Reads a body.
    ///
    /// # Errors
    /// The body is not one JSON object, or has a field twice.
    pub fn parse(body: &[u8]) -> Result<Fields, Problem> {
        let Raw(fields) = serde_json::from_slice(body).map_err(|error| {
            let text = error.to_string().replace('\n', ", ");
            Problem::new(
                Code::NotJson,
                format!("the body is not one JSON object: {text}"),
            )
        })?;
        for (index, (name, _)) in fields.iter().enumerate() {
            if fields
                .iter()
                .take(index)
                .any(|(earlier, _)| earlier == name)
            {
                return Err(Problem::invalid(&shown(name), "given twice; give it once"));
            }
        }
        Ok(Fields {
            fields,
            known: Vec::new(),
        })
    }

    fn take(&mut self, name: &'static str) -> Option<Value> {
        self.known.push(name);
        let index = self.fields.iter().position(|(known, _)| known == name)?;
        Some(self.fields.swap_remove(index).1).filter(|value| !value.is_null())
    }

    /// Takes a text and parses it; `None` if it is absent or null.
    ///
    /// # Errors
    /// Another kind of value, or a text that means nothing here.
    pub fn parsed<T: FromStr>(&mut self, name: &'static str) -> Result<Option<T>, Problem>
    where
        T::Err: fmt::Display,
    {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => text
                .parse()
                .map(Some)
                .map_err(|error| Problem::invalid(name, error)),
            Some(other) => Err(expected(name, "a string", &other)),
        }
    }

    /// Takes a whole number; `None` if it is absent or null.
    ///
    /// # Errors
    /// Another kind of value, negative, fractional or beyond 64 bits.
    pub fn integer(&mut self, name: &'static str) -> Result<Option<u64>, Problem> {
        match self.take(name) {
            None => Ok(None),
            Some(value) => value
                .as_u64()
                .map(Some)
                .ok_or_else(|| expected(name, "a whole number from 0 to 2^64 - 1", &value)),
        }
    }

    /// Takes a Boolean; false if it is absent or null.
    ///
    /// # Errors
    /// Another kind of value.
    pub fn flag(&mut self, name: &'static str) -> Result<bool, Problem> {
        match self.take(name) {
            None => Ok(false),
            Some(Value::Bool(value)) => Ok(value),
            Some(other) => Err(expected(name, "true or false", &other)),
        }
    }

    /// Takes a list of texts; empty if it is absent or null.
    ///
    /// # Errors
    /// Another kind of value, or one in the list, or more than `most`.
    pub fn strings(&mut self, name: &'static str, most: usize) -> Result<Vec<String>, Problem> {
        let list = match self.take(name) {
            None => return Ok(Vec::new()),
            Some(Value::Array(list)) => list,
            Some(other) => return Err(expected(name, "a list of strings", &other)),
        };
        if list.len() > most {
            let text = format!("{} entries; at most {most} are possible", list.len());
            return Err(Problem::invalid(name, text));
        }
        let text = |value| match value {
            Value::String(text) => Ok(text),
            other => Err(expected(name, "a list of strings", &other)),
        };
        list.into_iter().map(text).collect()
    }

    /// Refuses fields that no parser has taken.
    ///
    /// # Errors
    /// The first unknown field.
    pub fn finish(self) -> Result<(), Problem> {
        match self.fields.first() {
            None => Ok(()),
            Some((name, _)) => {
                let known = self.known.join(", ");
                let text = format!("unknown field; known are {known}");
                Err(Problem::of_field(Code::UnknownField, &shown(name), text))
            }
        }
    }
}

/// Refuses the absence of a field.
///
/// # Errors
/// If there is no value.
pub(crate) fn required<T>(name: &'static str, value: Option<T>) -> Result<T, Problem> {
    let missing = || Problem::of_field(Code::MissingField, name, "missing; this field is required");
    value.ok_or_else(missing)
}

/// Parses a body that has this field only.
///
/// # Errors
/// The field is wrong or missing, or the body has another field.
pub(crate) fn only<T: FromStr<Err: fmt::Display>>(
    body: &[u8],
    name: &'static str,
) -> Result<T, Problem> {
    let mut fields = Fields::parse(body)?;
    let value = fields.parsed(name)?;
    fields.finish()?;
    required(name, value)
}

fn expected(name: &str, wanted: &str, found: &Value) -> Problem {
    let found = match found {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "true or false".to_owned(),
        Value::Number(number) => format!("the number {number}"),
        Value::String(_) => "a string".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    };
    Problem::invalid(name, format!("found {found}; expected {wanted}"))
}

fn shown(name: &str) -> String {
    let printable = name.chars().take(SHOWN_MAX).flat_map(char::escape_default);
    printable.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(body: &str) -> Problem {
        let read = |body: &[u8]| {
            let mut fields = Fields::parse(body)?;
            fields.parsed::<crate::Name>("name")?;
            fields.integer("size_bytes")?;
            fields.flag("sure")?;
            fields.strings("devices", 2)?;
            fields.finish()
        };
        read(body.as_bytes()).expect_err(body)
    }

    #[test]
    fn what_is_not_one_object_is_refused() {
        for body in ["", "[]", "7", "{", "{} {}", "{\"name\": }", "\u{feff}{}"] {
            assert_eq!(refusal(body).code, Code::NotJson, "{body}");
        }
        let deep = format!("{{\"name\": {}", "[".repeat(100_000));
        assert_eq!(refusal(&deep).code, Code::NotJson);
    }

    #[test]
    fn a_refusal_names_the_field() {
        for (body, code, field, part) in [
            (
                "{\"nmae\": 1}",
                Code::UnknownField,
                "nmae",
                "known are name",
            ),
            ("{\"name\": 7}", Code::InvalidValue, "name", "the number 7"),
            (
                "{\"name\": \"../x\"}",
                Code::InvalidValue,
                "name",
                "is not a name",
            ),
            (
                "{\"name\": \"a\", \"name\": \"a\"}",
                Code::InvalidValue,
                "name",
                "given twice",
            ),
            (
                "{\"size_bytes\": -1}",
                Code::InvalidValue,
                "size_bytes",
                "-1",
            ),
            (
                "{\"size_bytes\": 1.5}",
                Code::InvalidValue,
                "size_bytes",
                "1.5",
            ),
            (
                "{\"size_bytes\": \"1G\"}",
                Code::InvalidValue,
                "size_bytes",
                "a string",
            ),
            (
                "{\"size_bytes\": 18446744073709551616}",
                Code::InvalidValue,
                "size_bytes",
                "2^64",
            ),
            ("{\"sure\": 1}", Code::InvalidValue, "sure", "true or false"),
            (
                "{\"devices\": \"/a\"}",
                Code::InvalidValue,
                "devices",
                "a list",
            ),
            (
                "{\"devices\": [1]}",
                Code::InvalidValue,
                "devices",
                "a list",
            ),
            (
                "{\"devices\": [\"a\", \"b\", \"c\"]}",
                Code::InvalidValue,
                "devices",
                "at most 2",
            ),
            ("{\"\\u001b\": 1}", Code::UnknownField, "\\u{1b}", ""),
        ] {
            let problem = refusal(body);
            assert_eq!(problem.code, code, "{body}: {problem}");
            assert_eq!(problem.field.as_deref(), Some(field), "{body}");
            assert!(problem.to_string().contains(part), "{body}: {problem}");
        }
    }

    #[test]
    fn null_is_absence() {
        let mut fields = Fields::parse(b"{\"name\": null}").expect("an object");
        assert_eq!(fields.parsed::<crate::Name>("name"), Ok(None));
        fields.finish().expect("nothing left");
    }
}
