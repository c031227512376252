//! `everglade explain EVG-4003`: what a code means and what to do, without a daemon.
//!
//! The binary contains the pages of `docs/reference/codes` from the commit that it was built from.

use std::fmt::Write as _;
use std::process::ExitCode;

use serde_json::json;

use crate::args::{Explain, Global};
use crate::exit::Failure;
use crate::manual;

macro_rules! page {
    ($code:literal) => {
        (
            $code,
            include_str!(concat!("../../../docs/reference/codes/", $code, ".md")),
        )
    };
}

/// Every code with its page.
const PAGES: [(&str, &str); 43] = [
    page!("EVG-1001"),
    page!("EVG-1002"),
    page!("EVG-1003"),
    page!("EVG-1004"),
    page!("EVG-1005"),
    page!("EVG-1006"),
    page!("EVG-1007"),
    page!("EVG-1008"),
    page!("EVG-1009"),
    page!("EVG-1010"),
    page!("EVG-2001"),
    page!("EVG-2002"),
    page!("EVG-2003"),
    page!("EVG-2004"),
    page!("EVG-2005"),
    page!("EVG-2006"),
    page!("EVG-2007"),
    page!("EVG-2008"),
    page!("EVG-2009"),
    page!("EVG-2010"),
    page!("EVG-2011"),
    page!("EVG-3001"),
    page!("EVG-3002"),
    page!("EVG-3003"),
    page!("EVG-3004"),
    page!("EVG-3005"),
    page!("EVG-4001"),
    page!("EVG-4002"),
    page!("EVG-4003"),
    page!("EVG-4004"),
    page!("EVG-4005"),
    page!("EVG-4006"),
    page!("EVG-4007"),
    page!("EVG-4008"),
    page!("EVG-4010"),
    page!("EVG-4011"),
    page!("EVG-4012"),
    page!("EVG-4013"),
    page!("EVG-4014"),
    page!("EVG-4015"),
    page!("EVG-4016"),
    page!("EVG-4017"),
    page!("EVG-9001"),
];

pub(crate) fn run(global: &Global, explain: &Explain) -> Result<ExitCode, Failure> {
    let Some(asked) = &explain.code else {
        return manual::print(list(global.json).as_bytes());
    };
    let (code, page) = find(asked)?;
    let (title, text) = parts(page);
    let text = match global.json {
        true => {
            let value = json!({
                "schema_version": 1, "code": code, "title": title, "text": plain(text),
            });
            format!("{value:#}\n")
        }
        false => format!("{code}: {title}\n\n{}\n", plain(text)),
    };
    manual::print(text.as_bytes())
}

/// All codes with their titles.
fn list(as_json: bool) -> String {
    if as_json {
        let codes = PAGES.iter();
        let codes = codes.map(|(code, page)| json!({"code": code, "title": parts(page).0}));
        let codes: Vec<_> = codes.collect();
        return format!("{:#}\n", json!({"schema_version": 1, "codes": codes}));
    }
    let mut text = String::new();
    for (code, page) in PAGES {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{code}  {}", parts(page).0);
    }
    text
}

/// Finds a code as people write it: `EVG-4003`, `evg4003`, `4003`.
fn find(asked: &str) -> Result<(&'static str, &'static str), Failure> {
    let upper = asked.to_ascii_uppercase();
    let number = upper.strip_prefix("EVG").unwrap_or(&upper);
    let number = number.strip_prefix('-').unwrap_or(number);
    let mut pages = PAGES.into_iter();
    let found = pages.find(|(code, _)| code.strip_prefix("EVG-") == Some(number));
    found.ok_or_else(|| {
        let text = format!("there is no code {asked:.20?}; 'everglade explain' lists all");
        Failure::new(everglade_cli::exit::NOT_FOUND, text)
    })
}

/// Title and text of a page.
fn parts(page: &str) -> (&str, &str) {
    let (first, text) = page.split_once('\n').unwrap_or((page, ""));
    let title = first.split_once(' ').map_or(first, |(_, rest)| rest);
    let title = title.split_once(' ').map_or(title, |(_, title)| title);
    (title, text.trim())
}

/// The text without addresses of links, which lead nowhere on a terminal.
fn plain(markdown: &str) -> String {
    let mut text = String::new();
    let mut rest = markdown;
    while let Some((before, after)) = rest.split_once("](") {
        let (said, name) = before.rsplit_once('[').unwrap_or((before, ""));
        text.push_str(said);
        text.push_str(name);
        rest = after.split_once(')').map_or("", |(_, rest)| rest);
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_is_in_the_binary() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/codes");
        let files = std::fs::read_dir(folder).expect("the pages");
        let names = files.map(|file| file.expect("a file").file_name());
        let names = names.map(|name| name.to_string_lossy().into_owned());
        let mut names: Vec<_> = names.filter(|name| name.starts_with("EVG-")).collect();
        names.sort();
        let known = PAGES.map(|(code, _)| format!("{code}.md"));
        assert_eq!(names, known);
        for (code, page) in PAGES {
            assert!(page.starts_with(&format!("# {code} ")), "{code}");
            let text = plain(parts(page).1);
            assert!(!text.is_empty() && !text.contains("]("), "{code}: {text}");
        }
    }

    #[test]
    fn a_code_is_found_as_people_write_it() {
        for asked in ["EVG-4003", "evg-4003", "4003", "EVG4003"] {
            assert_eq!(find(asked).map(|it| it.0).ok(), Some("EVG-4003"), "{asked}");
        }
        for asked in ["", "EVG-", "403", "EVG-9999999"] {
            assert_eq!(
                find(asked).err().map(|it| it.code),
                Some(everglade_cli::exit::NOT_FOUND)
            );
        }
        assert_eq!(plain("see [a](b.md) and [c](d)."), "see a and c.");
        assert!(list(false).contains("EVG-2001  not found\n"));
    }
}
