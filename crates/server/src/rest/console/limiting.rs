//! The form of a limit: fields for its rates, or the policy that it follows.

use everglade_api::{Limit, Problem, Size};
use everglade_console::Field;
use serde_json::{Map, Value, json};

use super::filled::Filled;

/// What is chosen for a limit with rates of its own.
const OWN: &str = "none";

fn text(
    filled: &Filled,
    (name, label): (&'static str, &'static str),
    hint: &str,
    usual: Option<String>,
) -> Field {
    Field::Text {
        name,
        label,
        hint: hint.to_owned(),
        value: filled.text_or(name, &usual.unwrap_or_default()),
        is_required: false,
    }
}

/// Returns a size that is read back as what it is.
fn exactly(bytes: u64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let whole = units
        .iter()
        .find(|(_, bits)| bytes.is_multiple_of(1 << bits));
    match whole {
        Some((unit, bits)) => format!("{} {unit}", bytes >> bits),
        None => bytes.to_string(),
    }
}

/// Returns the fields, with what the limit says now.
pub(super) fn fields(filled: &Filled, limit: Option<&Limit>, policies: Vec<String>) -> Vec<Field> {
    let own = limit.filter(|limit| limit.policy.is_none());
    let policy = limit.and_then(|limit| limit.policy.clone());
    let mut options = vec![OWN.to_owned()];
    options.extend(policies);
    vec![
        Field::Choice {
            name: "policy",
            label: "Follow a policy instead",
            options,
            value: filled.text_or("policy", policy.as_deref().unwrap_or(OWN)),
        },
        text(
            filled,
            ("iops", "Operations in a second"),
            "At most so many; empty for no limit.",
            own.and_then(|it| it.iops).map(|iops| iops.to_string()),
        ),
        text(
            filled,
            ("bandwidth", "Bytes in a second"),
            "At most so many, with KiB, MiB or GiB; empty for no limit.",
            own.and_then(|it| it.bytes_per_second).map(exactly),
        ),
        text(
            filled,
            ("burst", "Burst"),
            "What may be saved up while idle, in milliseconds; empty for 50.",
            own.and_then(|it| it.burst_milliseconds)
                .map(|burst| burst.to_string()),
        ),
        text(
            filled,
            ("weight", "Weight"),
            "Part of a busy aggregate, 1 to 10000; empty for that of the volume, or 100.",
            own.and_then(|it| it.weight)
                .map(|weight| weight.to_string()),
        ),
    ]
}

/// Returns the body of the request; one without a rate removes the limit.
///
/// # Errors
/// A field cannot be understood.
pub(super) fn body(filled: &Filled) -> Result<Value, Problem> {
    let mut body = Map::new();
    let policy = filled.text("policy").trim();
    if !policy.is_empty() && policy != OWN {
        body.insert("policy".to_owned(), json!(policy));
    }
    for (name, field) in [
        ("iops", "iops"),
        ("burst", "burst_milliseconds"),
        ("weight", "weight"),
    ] {
        let text = filled.text(name).trim();
        if !text.is_empty() {
            let number: Result<u64, _> = text.parse();
            let number = number.map_err(|_| Problem::invalid(name, "write a whole number"))?;
            body.insert(field.to_owned(), json!(number));
        }
    }
    let bandwidth = filled.text("bandwidth").trim();
    if !bandwidth.is_empty() {
        let size: Result<Size, _> = bandwidth.parse();
        let size = size.map_err(|error| Problem::invalid("bandwidth", error))?;
        body.insert("bytes_per_second".to_owned(), json!(size.bytes()));
    }
    Ok(Value::Object(body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_filled_in_becomes_a_limit() {
        let of = |text: &str| body(&Filled::parse(text.as_bytes()));
        assert_eq!(of("policy=none&iops=&bandwidth="), Ok(json!({})));
        let whole = "policy=none&iops=+500&bandwidth=50MiB&burst=100&weight=7";
        let expected = json!({
            "iops": 500,
            "bytes_per_second": 50 << 20,
            "burst_milliseconds": 100,
            "weight": 7,
        });
        assert_eq!(of(whole), Ok(expected));
        assert_eq!(of("policy=gold&iops="), Ok(json!({"policy": "gold"})));
        for (bad, field) in [("iops=many", "iops"), ("bandwidth=fast", "bandwidth")] {
            let problem = of(bad).expect_err(bad);
            assert_eq!(problem.field.as_deref(), Some(field));
        }
    }

    #[test]
    fn a_limit_that_follows_a_policy_shows_no_rates_of_its_own() {
        let limit = Limit {
            policy: Some("gold".to_owned()),
            iops: Some(5),
            ..Limit::default()
        };
        let values = |limit: &Limit| -> Vec<String> {
            let fields = fields(&Filled::empty(), Some(limit), vec!["gold".to_owned()]);
            let value = |field| match field {
                Field::Text { value, .. } | Field::Choice { value, .. } => value,
                Field::Check { .. } => String::new(),
            };
            fields.into_iter().map(value).collect()
        };
        assert_eq!(values(&limit), ["gold", "", "", "", ""]);
        let own = Limit {
            policy: None,
            bytes_per_second: Some(1 << 20),
            ..limit
        };
        assert_eq!(values(&own), ["none", "5", "1 MiB", "", ""]);
        for bytes in [1 << 20, 1_234_567, 3 << 29, 5 << 40] {
            let read: Size = exactly(bytes).parse().expect("a size");
            assert_eq!(read.bytes(), bytes);
        }
    }
}
