//! Numbers with their nouns, for messages: `1 volume`, `2 volumes`.

/// Returns a number with the noun, which gets an `s` unless the number is one.
#[must_use]
pub fn counted(count: u64, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn one_is_not_many() {
        let all = [0, 1, 2].map(|count| counted(count, "volume"));
        assert_eq!(all, ["0 volumes", "1 volume", "2 volumes"]);
    }
}
