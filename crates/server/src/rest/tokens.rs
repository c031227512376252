//! Tokens: the callers that are allowed over TCP, and their roles.
//!
//! There are tokens of a file that the configuration names, and tokens that administrators make
//! while the daemon runs. The file is read at the start:
//!
//! ```text
//! # NAME      ROLE        TOKEN
//! monitoring  read-only   mZ4…
//! backup      operator    9fQ…
//! ```
//!
//! 1. The daemon keeps only hashes of the tokens that it makes, in `tokens.toml` of the data
//!    directory. The memory has only hashes of all tokens, and they are compared in constant time,
//!    so neither the disk, nor a core dump, nor the time of an answer reveals a token.
//! 2. Only the owner may read the file of the configuration; otherwise the daemon refuses to start.
//! 3. `tokens.toml` is durable before an answer is sent. So a token works from the answer to
//!    `token create` on, and no longer after the answer to `token revoke`.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use everglade_api::openapi::Role;
use everglade_api::{Code, CreateToken, MadeToken, Moment, Name, Problem, Token};
use everglade_env::lock::Mutex;
use rustix::rand::{GetRandomFlags, getrandom};
use serde::{Deserialize, Serialize};

use crate::datadir::{atomic, modes};

/// Shorter ones can be guessed.
const TOKEN_BYTES_MIN: usize = 20;
const TOKEN_BYTES_MAX: usize = 256;
/// Limit of tokens. Each request is compared with all of them.
const TOKENS_MAX: usize = 256;
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Name of the file in the data directory.
const NAME: &str = "tokens.toml";
const VERSION: u64 = 0;
const HEADER: &str = "# Written by everglade: hashes of the tokens that 'token create' has made.\n";

/// A token of the file of the configuration.
type Given = (Name, Role, blake3::Hash);

/// All known tokens.
#[derive(Debug, Default)]
pub struct Tokens {
    /// Those of the file of the configuration.
    given: Vec<Given>,
    /// Those that were made, and where they are kept.
    made: Mutex<Made>,
    path: PathBuf,
}

#[derive(Debug, Default)]
struct Made {
    tokens: Vec<MadeEntry>,
    /// The reason why `tokens.toml` cannot be used.
    broken: Option<String>,
}

/// A token that was made.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct MadeEntry {
    name: String,
    role: String,
    hash: String,
    created: u64,
}

/// The file's contents for serde.
#[derive(Debug, Serialize, Deserialize)]
struct Document {
    version: u64,
    #[serde(default, rename = "token")]
    tokens: Vec<MadeEntry>,
}

impl MadeEntry {
    /// Role and hash, if both can be understood.
    fn understood(&self) -> Option<(Role, blake3::Hash)> {
        let hash = blake3::Hash::from_hex(&self.hash).ok()?;
        Some((self.role.parse().ok()?, hash))
    }
}

fn read_made(path: &Path) -> Result<Vec<MadeEntry>, String> {
    let unreadable = |error: String| format!("cannot read {}: {error}", path.display());
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unreadable(error.to_string())),
    };
    let document: Document =
        toml::from_str(&text).map_err(|error| unreadable(error.message().to_owned()))?;
    let is_good = |entry: &MadeEntry| entry.understood().is_some();
    if document.version != VERSION || !document.tokens.iter().all(is_good) {
        return Err(unreadable("it is not of this version".to_owned()));
    }
    Ok(document.tokens)
}

impl Tokens {
    /// Reads the tokens that were made, and those of the file of the configuration, if it names
    /// one. If the former cannot be read, they are not known, and none can be made.
    ///
    /// # Errors
    /// As [`Tokens::check`].
    pub fn open(data_dir: &Path, file: Option<&Path>) -> Result<Tokens, String> {
        let given = file.map(Tokens::read_given).transpose()?;
        let path = data_dir.join(NAME);
        let made = match read_made(&path) {
            Ok(tokens) => Made {
                tokens,
                broken: None,
            },
            Err(text) => {
                tracing::error!("{text}; tokens that were made are not known");
                Made {
                    tokens: Vec::new(),
                    broken: Some(text),
                }
            }
        };
        Ok(Tokens {
            given: given.unwrap_or_default(),
            made: Mutex::new(made),
            path,
        })
    }

    /// Checks the file of the configuration.
    ///
    /// # Errors
    /// One line: unreadable, open to others, or the first line that is wrong. Never a token.
    pub fn check(path: &Path) -> Result<(), String> {
        Tokens::read_given(path).map(drop)
    }

    /// True if nobody could ask.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.given.is_empty() && self.made.lock().tokens.is_empty()
    }

    /// Returns all tokens, by name.
    #[must_use]
    pub fn all(&self) -> Vec<Token> {
        let given = self.given.iter().map(|(name, role, _)| Token {
            name: name.to_string(),
            role: role.to_string(),
            created: None,
        });
        let made = self.made.lock();
        let made = made.tokens.iter().map(|entry| Token {
            name: entry.name.clone(),
            role: entry.role.clone(),
            created: Some(Moment(entry.created).to_string()),
        });
        let mut all: Vec<Token> = given.chain(made).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// Makes a token. Its secret is in the result alone.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn create(&self, request: &CreateToken, now: Moment) -> Result<MadeToken, Problem> {
        let name = request.name.to_string();
        let mut made = self.made.lock();
        if self.all_names(&made).any(|known| known == name) {
            let text = format!("token {name} exists already; choose another name");
            return Err(Problem::new(Code::Exists, text));
        }
        if made.tokens.len() >= TOKENS_MAX {
            let text = format!("there are {TOKENS_MAX} tokens, the most there can be; revoke one");
            return Err(Problem::new(Code::TooMany, text));
        }
        let token = blake3::Hash::from_bytes(random()).to_hex().to_string();
        let mut tokens = made.tokens.clone();
        tokens.push(MadeEntry {
            name: name.clone(),
            role: request.role.to_string(),
            hash: blake3::hash(token.as_bytes()).to_hex().to_string(),
            created: now.0,
        });
        self.keep(&mut made, tokens)?;
        Ok(MadeToken {
            name,
            role: request.role.to_string(),
            token,
        })
    }

    /// Revokes a token that was made.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn revoke(&self, name: &str) -> Result<(), Problem> {
        let mut made = self.made.lock();
        if !made.tokens.iter().any(|entry| entry.name == name) {
            return Err(
                match self.given.iter().any(|(known, ..)| known.as_str() == name) {
                    true => {
                        let text = format!(
                            "token {name} is in the file that 'api.tokens' of the configuration \
                        names; delete its line there, and start the daemon again"
                        );
                        Problem::new(Code::StillNeeded, text)
                    }
                    false => Problem::not_found("token", name),
                },
            );
        }
        let tokens = made.tokens.iter().filter(|entry| entry.name != name);
        let tokens = tokens.cloned().collect();
        self.keep(&mut made, tokens)
    }

    fn all_names<'a>(&'a self, made: &'a Made) -> impl Iterator<Item = &'a str> {
        let given = self.given.iter().map(|(name, ..)| name.as_str());
        given.chain(made.tokens.iter().map(|entry| entry.name.as_str()))
    }

    /// Writes the tokens that there are from now on.
    fn keep(&self, made: &mut Made, tokens: Vec<MadeEntry>) -> Result<(), Problem> {
        if let Some(reason) = &made.broken {
            let text = format!("{reason}; move the file away, and start the daemon again");
            return Err(Problem::new(Code::Unavailable, text));
        }
        let document = Document {
            version: VERSION,
            tokens,
        };
        let text = toml::to_string(&document).expect("names, words and numbers are TOML");
        let contents = format!("{HEADER}{text}");
        let kept = atomic::replace(&self.path, contents.as_bytes(), modes::FILE_PRIVATE);
        kept.map_err(|error| Problem::new(Code::Host, error.to_string()))?;
        made.tokens = document.tokens;
        Ok(())
    }

    /// Reads the file.
    ///
    /// # Errors
    /// One line: unreadable, open to others, or the first line that is wrong. Never a token.
    fn read_given(path: &Path) -> Result<Vec<Given>, String> {
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

    fn parse(text: &str) -> Result<Vec<Given>, (usize, String)> {
        let mut tokens: Vec<Given> = Vec::new();
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
        Ok(tokens)
    }

    /// Returns the name and role of a token's caller. The time taken does not depend on the token.
    pub(super) fn find(&self, token: &[u8]) -> Option<(String, Role)> {
        if token.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let hash = blake3::hash(token);
        let mut found = None;
        for (name, role, known) in &self.given {
            // Hashes compare in constant time.
            if *known == hash {
                found = Some((name.to_string(), *role));
            }
        }
        for entry in &self.made.lock().tokens {
            if let Some((role, known)) = entry.understood()
                && known == hash
            {
                found = Some((entry.name.clone(), role));
            }
        }
        found
    }

    /// True if there still is a token of this name with this role.
    pub(super) fn has(&self, name: &str, role: Role) -> bool {
        let is_given = |(known, of, _): &(Name, Role, _)| known.as_str() == name && *of == role;
        let role_text = role.to_string();
        self.given.iter().any(is_given)
            || self
                .made
                .lock()
                .tokens
                .iter()
                .any(|entry| entry.name == name && entry.role == role_text)
    }
}

/// Random bytes of the kernel.
pub(super) fn random() -> [u8; 32] {
    let mut bytes = [0; 32];
    let filled = getrandom(&mut bytes[..], GetRandomFlags::empty());
    assert_eq!(
        filled,
        Ok(bytes.len()),
        "the kernel gives 256 bytes at a time without fail, once it has started"
    );
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const GOOD: &str = "# who\n\na read-only 0123456789abcdefghij\nb admin ABCDEFGHIJ0123456789\n";

    #[test]
    fn a_token_has_a_name_and_a_role() {
        let tokens = Tokens {
            given: Tokens::parse(GOOD).expect("good"),
            ..Tokens::default()
        };
        assert_eq!(
            tokens.find(b"0123456789abcdefghij"),
            Some(("a".to_owned(), Role::ReadOnly))
        );
        assert_eq!(
            tokens.find(b"ABCDEFGHIJ0123456789"),
            Some(("b".to_owned(), Role::Admin))
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
            assert_eq!(Tokens::check(&path).is_ok(), is_good, "{mode:o}");
        }
        assert!(Tokens::check(&place.path().join("nix")).is_err());
    }

    #[test]
    fn a_token_that_was_made_is_known_until_it_is_revoked_and_only_its_hash_is_kept() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let open = || Tokens::open(place.path(), None).expect("good");
        let tokens = open();
        assert!(tokens.is_empty());
        let request = CreateToken {
            name: "backup".parse().expect("a name"),
            role: Role::Operator,
        };
        let made = tokens.create(&request, Moment(60)).expect("a new name");
        let twice = tokens.create(&request, Moment(61)).expect_err("taken");
        assert_eq!(twice.code, Code::Exists);
        let path = place.path().join(NAME);
        let text = fs::read_to_string(&path).expect("kept");
        assert!(!text.contains(&made.token), "{text}");
        assert_eq!(fs::metadata(&path).expect("kept").mode() & 0o777, 0o600);
        // Also after a restart.
        let tokens = open();
        let known = Some(("backup".to_owned(), Role::Operator));
        assert_eq!(tokens.find(made.token.as_bytes()), known);
        assert!(tokens.has("backup", Role::Operator) && !tokens.has("backup", Role::Admin));
        let listed = tokens.all().swap_remove(0);
        assert_eq!(listed.created.as_deref(), Some("1970-01-01T00:01:00Z"));
        tokens.revoke("backup").expect("it is there");
        assert_eq!(tokens.find(made.token.as_bytes()), None);
        assert_eq!(open().find(made.token.as_bytes()), None);
        let gone = tokens.revoke("backup").expect_err("gone");
        assert_eq!(gone.code, Code::NotFound);
    }

    #[test]
    fn a_damaged_file_is_kept_and_lets_nobody_in() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let path = place.path().join(NAME);
        for text in [
            "not TOML [",
            "version = 7\n",
            "version = 0\n[[token]]\nname = 'a'\nrole = 'root'\nhash = '00'\ncreated = 1\n",
        ] {
            fs::write(&path, text).expect("written");
            let tokens = Tokens::open(place.path(), None).expect("it serves");
            assert!(tokens.is_empty());
            let request = CreateToken {
                name: "a".parse().expect("a name"),
                role: Role::Admin,
            };
            let refused = tokens.create(&request, Moment(0)).expect_err("broken");
            assert_eq!(refused.code, Code::Unavailable, "{refused}");
            assert_eq!(fs::read_to_string(&path).expect("kept"), text);
        }
    }
}
