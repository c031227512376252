//! Tokens: the callers that are allowed over TCP, and their roles.
//!
//! ```text
//! # NAME      ROLE        TOKEN
//! monitoring  read-only   mZ4…
//! backup      operator    9fQ…
//! ```
//!
//! Only the owner may read the file; otherwise the daemon refuses to start. The memory has only
//! hashes of tokens, and they are compared in constant time, so neither a core dump nor the time of
//! an answer reveals a token. The file is read at the start.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use everglade_api::Name;
use everglade_api::openapi::Role;

/// Shorter ones can be guessed.
const TOKEN_BYTES_MIN: usize = 20;
const TOKEN_BYTES_MAX: usize = 256;
/// Limit of tokens. Each request is compared with all of them.
const TOKENS_MAX: usize = 256;
const FILE_BYTES_MAX: u64 = 1 << 20;

/// All known tokens.
#[derive(Debug, Default)]
pub struct Tokens {
    tokens: Vec<(Name, Role, blake3::Hash)>,
}

impl Tokens {
    /// Reads the file.
    ///
    /// # Errors
    /// One line: unreadable, open to others, or the first line that is wrong. Never a token.
    pub fn read(path: &Path) -> Result<Tokens, String> {
        let shown = path.display();
        let unreadable = |error| format!("cannot read the tokens in {shown}: {error}");
        let metadata = fs::metadata(path).map_err(unreadable)?;
        if metadata.mode() & 0o077 != 0 {
            return Err(format!(
                "{shown} can be read by others (mode {:o}); its tokens are secrets: chmod 600",
                metadata.mode() & 0o777
            ));
        }
        let mut text = String::new();
        File::open(path)
            .and_then(|file| file.take(FILE_BYTES_MAX).read_to_string(&mut text))
            .map_err(unreadable)?;
        Tokens::parse(&text).map_err(|(line, problem)| format!("{shown}:{line}: {problem}"))
    }

    fn parse(text: &str) -> Result<Tokens, (usize, String)> {
        let mut tokens: Vec<(Name, Role, blake3::Hash)> = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let refuse = |problem: String| Err((number, problem));
            let words: Vec<_> = line.split_whitespace().collect();
            let [name, role, token] = words.as_slice() else {
                return refuse("a line is NAME ROLE TOKEN".to_owned());
            };
            let name: Name = match name.parse() {
                Ok(name) => name,
                Err(error) => return refuse(error.to_string()),
            };
            let role: Role = match role.parse() {
                Ok(role) => role,
                Err(error) => return refuse(error),
            };
            if !(TOKEN_BYTES_MIN..=TOKEN_BYTES_MAX).contains(&token.len()) {
                return refuse(format!(
                    "the token of {name} has {} characters; use {TOKEN_BYTES_MIN} to \
                    {TOKEN_BYTES_MAX}, such as the output of 'openssl rand -hex 32'",
                    token.len()
                ));
            }
            if tokens.iter().any(|(known, _, _)| *known == name) {
                return refuse(format!("{name} is there twice"));
            }
            if tokens.len() == TOKENS_MAX {
                return refuse(format!("more than {TOKENS_MAX} tokens"));
            }
            tokens.push((name, role, blake3::hash(token.as_bytes())));
        }
        if tokens.is_empty() {
            return Err((1, "no token in it, so nobody could ask".to_owned()));
        }
        Ok(Tokens { tokens })
    }

    /// Returns the name and role of a token's caller. The time taken does not depend on the token.
    pub(super) fn find(&self, token: &[u8]) -> Option<(&str, Role)> {
        if token.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let hash = blake3::hash(token);
        let mut found = None;
        for (name, role, known) in &self.tokens {
            // Hashes compare in constant time.
            if *known == hash {
                found = Some((name.as_str(), *role));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const GOOD: &str = "# who\n\na read-only 0123456789abcdefghij\nb admin ABCDEFGHIJ0123456789\n";

    #[test]
    fn a_token_has_a_name_and_a_role() {
        let tokens = Tokens::parse(GOOD).expect("good");
        assert_eq!(
            tokens.find(b"0123456789abcdefghij"),
            Some(("a", Role::ReadOnly))
        );
        assert_eq!(
            tokens.find(b"ABCDEFGHIJ0123456789"),
            Some(("b", Role::Admin))
        );
        for other in [
            &b""[..],
            b"0123456789abcdefghi",
            b"0123456789abcdefghij ",
            &[0; 300],
        ] {
            assert_eq!(tokens.find(other), None);
        }
        assert!(!format!("{tokens:?}").contains("0123456789"), "hashes only");
    }

    #[test]
    fn a_bad_file_is_refused_without_showing_tokens() {
        for (text, line, part) in [
            ("", 1, "no token"),
            ("a read-only", 1, "NAME ROLE TOKEN"),
            ("a root 0123456789abcdefghij", 1, "is not a role"),
            ("\n../a admin 0123456789abcdefghij", 2, "is not a name"),
            ("a admin short", 1, "5 characters"),
            (
                "a admin 0123456789abcdefghij\na admin 0123456789abcdefghij",
                2,
                "twice",
            ),
        ] {
            let (found, problem) = Tokens::parse(text).expect_err(text);
            assert_eq!(found, line, "{text}");
            assert!(problem.contains(part), "{text}: {problem}");
            assert!(!problem.contains("0123456789"), "{problem}");
        }
    }

    #[test]
    fn a_file_that_others_can_read_is_refused() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let path = place.path().join("tokens");
        fs::write(&path, GOOD).expect("write");
        for (mode, is_good) in [(0o600, true), (0o640, false), (0o604, false), (0o400, true)] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("chmod");
            assert_eq!(Tokens::read(&path).is_ok(), is_good, "{mode:o}");
        }
        assert!(Tokens::read(&place.path().join("nix")).is_err());
    }
}
