//! Applies the edits of planted bugs to a source.
//!
//! 1. An edit finds its text in the source as it is in the repository, exactly once, and in whole
//!    words. No edit sees what another one made.
//! 2. The places of two edits do not overlap. So their order is of no account, and bugs in one
//!    function are independent. Two bugs in one expression are written as edits of different
//!    statements: a test before it, a condition within it.
//! 3. White space around words does not count, nor does a comma before a closing bracket. So
//!    `rustfmt` breaks no edit.
//! 4. In the new text the word `PLANTED` becomes the condition that this bug is switched on, and
//!    `PLANTED_NOW` that it is, this time: every sixteenth (`everglade_planted::is`, `is_now`).

use std::ops::Range;

use super::bug::Edit;

/// Applies edits, each with the name of its bug, to the text of their source. On failure says of
/// which edits the text is not there once, and why.
pub(super) fn apply<'a>(
    text: &str,
    edits: &[(&str, &'a Edit)],
) -> Result<String, Vec<(String, &'a Edit, String)>> {
    let mut found: Vec<(Range<usize>, &str, &Edit)> = Vec::new();
    let mut mistakes = Vec::new();
    let source = tokens(text);
    for (name, edit) in edits {
        let mut places = places(&source, &tokens(&edit.find));
        match (places.pop(), places.len()) {
            (Some(place), 0) => found.push((place, name, edit)),
            (_, more) => {
                let count = match more {
                    0 => "no longer has".to_owned(),
                    more => format!("has {} times", more + 1),
                };
                let first = edit.find.lines().next().unwrap_or_default();
                let mistake = format!(
                    "{} {count} the text of this edit, which begins '{first}'; make the text below \
                     '---' one that the file has once, and plant the same mistake there",
                    edit.path.display()
                );
                mistakes.push(((*name).to_owned(), *edit, mistake));
            }
        }
    }
    found.sort_by_key(|(place, ..)| place.start);
    for pair in found.windows(2) {
        let [(before, other, _), (after, name, edit)] = pair else {
            continue;
        };
        if before.end > after.start {
            let mistake = format!(
                "this edit and one of {other} change the same text of {}; let them change \
                 different statements",
                edit.path.display()
            );
            mistakes.push(((*name).to_owned(), *edit, mistake));
        }
    }
    if !mistakes.is_empty() {
        return Err(mistakes);
    }
    let (mut edited, mut at) = (String::new(), 0);
    for (place, name, edit) in found {
        edited.push_str(&text[at..place.start]);
        edited.push_str(&switched(&edit.replace, name));
        at = place.end;
    }
    edited.push_str(&text[at..]);
    Ok(edited)
}

/// True if a text has a condition.
pub(super) fn has_token(text: &str) -> bool {
    tokens(text).iter().any(|token| function(token).is_some())
}

/// What decides about the condition that a token stands for.
fn function(token: &Token<'_>) -> Option<&'static str> {
    match token.text {
        "PLANTED" => Some("is"),
        "PLANTED_NOW" => Some("is_now"),
        _ => None,
    }
}

/// The text with conditions of this bug in place of the tokens.
fn switched(text: &str, name: &str) -> String {
    let (mut switched, mut at) = (String::new(), 0);
    for token in tokens(text) {
        if let Some(function) = function(&token) {
            switched.push_str(&text[at..token.place.start]);
            switched.push_str(&format!(
                "everglade_planted::{function}(const {{ \
                 everglade_planted::Bug::named(\"{name}\") }})"
            ));
            at = token.place.end;
        }
    }
    switched.push_str(&text[at..]);
    switched
}

/// A word, or another character that is no white space; with its place.
#[derive(Debug)]
struct Token<'a> {
    text: &'a str,
    place: Range<usize>,
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let is_inside = |c: char| c.is_alphanumeric() || c == '_';
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        let length = match is_inside(c) {
            true => rest.find(|c| !is_inside(c)).unwrap_or(rest.len()),
            false => c.len_utf8(),
        };
        if !c.is_whitespace() {
            let (text, place) = (&rest[..length], at..at + length);
            tokens.push(Token { text, place });
        }
        at += length;
    }
    tokens
}

/// Where a text is in a source.
fn places(source: &[Token<'_>], text: &[Token<'_>]) -> Vec<Range<usize>> {
    let starts = 0..source.len();
    let places = starts.filter_map(|start| {
        let end = end(&source[start..], text)?;
        Some(source[start].place.start..source[start + end - 1].place.end)
    });
    places.collect()
}

/// How many tokens of `source` the text at its beginning has, if it is there.
fn end(source: &[Token<'_>], text: &[Token<'_>]) -> Option<usize> {
    let word = |tokens: &[Token<'_>], at: usize| tokens.get(at).map(|token| token.text.to_owned());
    let is_closing = |text: Option<String>| matches!(text.as_deref(), Some(")" | "]" | "}"));
    let is_idle_comma = |tokens: &[Token<'_>], at: usize| {
        word(tokens, at).as_deref() == Some(",") && is_closing(word(tokens, at + 1))
    };
    let (mut here, mut there) = (0, 0);
    while there < text.len() {
        if source.get(here)?.text == text[there].text {
            (here, there) = (here + 1, there + 1);
        } else if is_idle_comma(text, there) {
            there += 1;
        } else if here > 0 && is_idle_comma(source, here) {
            here += 1;
        } else {
            return None;
        }
    }
    (here > 0).then_some(here)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn edit(find: &str, replace: &str) -> Edit {
        Edit {
            line: 1,
            path: PathBuf::from("crates/a/src/b.rs"),
            find: find.to_owned(),
            replace: replace.to_owned(),
        }
    }

    fn applied(text: &str, find: &str, replace: &str) -> Option<String> {
        apply(text, &[("B", &edit(find, replace))]).ok()
    }

    #[test]
    fn tokens_become_conditions_as_whole_words() {
        let is = "everglade_planted::is(const { everglade_planted::Bug::named(\"B\") })";
        let now = is.replacen("is(", "is_now(", 1);
        let edited = applied("a(b);", "b", "b || PLANTED && PLANTED_NOW && UNPLANTED").unwrap();
        assert_eq!(edited, format!("a(b || {is} && {now} && UNPLANTED);"));
        assert!(has_token("!PLANTED") && has_token("PLANTED_NOW"));
        assert!(!has_token("PLANTED_LATER") && !has_token("planted"));
    }

    #[test]
    fn the_form_that_rustfmt_chooses_does_not_count() {
        let short = "let x = call(one, &[two], three);\n";
        let long = "let x = call(\n    one,\n    &[two],\n    three,\n);\n";
        for (text, find) in [(short, long), (long, short), (short, short), (long, long)] {
            assert_eq!(
                applied(text, find, "x").as_deref(),
                Some("x\n"),
                "{text}{find}"
            );
        }
        // A comma that ends the text is part of it.
        assert_eq!(
            applied("S { a, b: 1, }", "b: 1,", "b: 2,").as_deref(),
            Some("S { a, b: 2, }")
        );
        assert_eq!(applied("f(a, b)", "f(a,", "g(").as_deref(), Some("g( b)"));
        assert_eq!(applied("f(a b)", "ab", "c"), None);
        assert_eq!(applied("f(ab)", "a b", "c"), None);
    }

    #[test]
    fn a_text_is_there_once_and_ends_where_words_do() {
        assert_eq!(
            applied("refree(x); free(x);", "free(x);", "-").as_deref(),
            Some("refree(x); -")
        );
        assert_eq!(applied("freed", "free", "-"), None);
        let told = |text: &str| {
            let edit = edit("free(x);\nmore();", "-");
            let mistakes = apply(text, &[("B", &edit)]).unwrap_err();
            mistakes
                .into_iter()
                .map(|(name, _, told)| format!("{name}: {told}"))
                .collect::<Vec<_>>()
        };
        let gone = told("free(y);");
        assert!(
            gone[0].starts_with("B: crates/a/src/b.rs no longer has the text"),
            "{gone:?}"
        );
        assert!(gone[0].contains("'free(x);'"), "{gone:?}");
        let twice = told("free(x); more(); free(x); more();");
        assert!(twice[0].contains("has 2 times"), "{twice:?}");
    }

    #[test]
    fn edits_see_the_source_alone_in_any_order_and_do_not_overlap() {
        let text = "a(); b(); c();";
        let (first, second) = (edit("c();", "a();"), edit("a();", "c();"));
        let forth = apply(text, &[("A", &first), ("B", &second)]);
        let back = apply(text, &[("B", &second), ("A", &first)]);
        assert_eq!(forth.as_deref(), Ok("c(); b(); a();"));
        assert_eq!(forth, back);
        let (first, second) = (edit("a(); b();", "x"), edit("b(); c();", "y"));
        let mistakes = apply(text, &[("A", &first), ("B", &second)]).unwrap_err();
        assert_eq!(mistakes.len(), 1);
        assert_eq!(mistakes[0].0, "B");
        assert!(mistakes[0].2.contains("one of A"), "{}", mistakes[0].2);
    }
}
