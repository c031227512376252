//! Query parameters that are true or false.

use everglade_api::{Code, Problem};

/// Returns the values of several flags, in their order.
pub(super) fn read<const N: usize>(
    query: Option<&str>,
    names: [&str; N],
) -> Result<[bool; N], Problem> {
    let mut found = [None; N];
    for part in query.unwrap_or_default().split('&') {
        if part.is_empty() {
            continue;
        }
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        let Some(index) = names.iter().position(|name| key == *name) else {
            let printable = key.chars().take(64).flat_map(char::escape_default);
            let key: String = printable.collect();
            let text = format!("unknown parameter; this path takes {}", names.join(" and "));
            return Err(Problem::of_field(Code::UnknownField, &key, text));
        };
        if found[index].is_some() {
            return Err(Problem::invalid(key, "given twice; give it once"));
        }
        found[index] = Some(match value {
            "true" => true,
            "false" => false,
            _ => return Err(Problem::invalid(key, "use true or false")),
        });
    }
    Ok(found.map(|found| found.unwrap_or(false)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_is_true_or_false_and_there_once() {
        let read = |query| read(Some(query), ["sure"]).map(|[found]| found);
        assert_eq!(read(""), Ok(false));
        assert_eq!(read("sure=true"), Ok(true));
        assert_eq!(read("sure=false&"), Ok(false));
        for (query, code) in [
            ("sure", Code::InvalidValue),
            ("sure=1", Code::InvalidValue),
            ("sure=true&sure=true", Code::InvalidValue),
            ("sur=true", Code::UnknownField),
            ("sure=true&x", Code::UnknownField),
        ] {
            assert_eq!(read(query).expect_err(query).code, code, "{query}");
        }
        assert_eq!(super::read(None, ["sure"]), Ok([false]));
        let both = |query| super::read(Some(query), ["sure", "very"]);
        assert_eq!(both("very=true"), Ok([false, true]));
        assert_eq!(both("very=true&sure=true"), Ok([true, true]));
        assert!(both("very=true&very=true").is_err());
    }
}
