//! The TOML file: the keys of docs/operating/configuration.md. An unknown key is refused.
//!
//! A key that does not exist is an error with a suggestion, because a mistyped `memory` that is
//! silently ignored would be noticed only under load. A documented key that this version does not
//! implement is an error, too. Errors name the line.

use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::callers::{Callers, Rules};
use super::{ConfigError, Settings, suggest};

/// Limit of a configuration, so that a path given by mistake (a disk image) is not read whole.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Keys this version honours.
pub const KEYS: [&str; 36] = [
    "data_dir",
    "memory",
    "reactors",
    "nbd.tcp",
    "nbd.unix",
    "nbd.connections_max",
    "nbd.tls",
    "nbd.tls_certificates",
    "nbd.tls_clients",
    "nbd.idle_timeout",
    "nbd.allow",
    "iscsi.tcp",
    "iscsi.connections_max",
    "iscsi.secrets",
    "iscsi.idle_timeout",
    "iscsi.allow",
    "nvme.tcp",
    "nvme.discovery_tcp",
    "nvme.connections_max",
    "nvme.allow",
    "api.unix",
    "api.tcp",
    "api.tokens",
    "api.tls_certificates",
    "api.console_loopback",
    "metrics.tcp",
    "journal.device",
    "journal.half_size",
    "cp.interval",
    "drive.timeout",
    "scrub.interval",
    "trash.keep",
    "garden.on_demand",
    "garden.write_after_read",
    "garden.window",
    "snapshot.policy",
];

/// Reads and understands the file.
///
/// # Errors
/// Unreadable, not TOML, or the first key or value that is wrong.
pub fn read(path: &Path) -> Result<Settings, ConfigError> {
    let unreadable = |source| ConfigError::Unreadable {
        path: path.to_owned(),
        source,
    };
    let mut text = String::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(FILE_BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(unreadable)?;
    parse(path, &text)
}

/// Understands `text`; `path` is for messages.
///
/// # Errors
/// As [`read`].
pub fn parse(path: &Path, text: &str) -> Result<Settings, ConfigError> {
    let source = Source { path, text };
    let table = DeTable::parse(text).map_err(|error| ConfigError::NotToml {
        path: path.to_owned(),
        line: source.line(&error.span().unwrap_or_default()),
        message: error.message().replace('\n', ", "),
    })?;
    let mut settings = Settings::default();
    for (key, value) in table.get_ref() {
        match value.get_ref() {
            DeValue::Table(inner) => {
                for (inner_key, value) in inner {
                    let full = format!("{}.{}", key.get_ref(), inner_key.get_ref());
                    source.take(&mut settings, &full, inner_key, value)?;
                }
            }
            _ => source.take(&mut settings, key.get_ref(), key, value)?,
        }
    }
    Ok(settings)
}

/// The file's text, for finding lines.
struct Source<'a> {
    path: &'a Path,
    text: &'a str,
}

impl Source<'_> {
    /// Stores one key's value.
    fn take(
        &self,
        settings: &mut Settings,
        key: &str,
        at: &Spanned<DeString<'_>>,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<(), ConfigError> {
        match key {
            "data_dir" => settings.data_dir = Some(PathBuf::from(self.string(key, value)?)),
            "memory" => settings.memory = Some(self.parsed(key, value)?),
            "reactors" => settings.reactors = Some(self.parsed(key, value)?),
            "nbd.tcp" => settings.nbd.tcp = Some(self.parsed(key, value)?),
            "nbd.unix" => settings.nbd.unix = Some(self.parsed(key, value)?),
            "nbd.connections_max" => settings.nbd.connections_max = Some(self.parsed(key, value)?),
            "nbd.tls"
            | "nbd.tls_certificates"
            | "nbd.tls_clients"
            | "nbd.idle_timeout"
            | "nbd.allow" => self.take_callers(&mut settings.nbd.callers, key, value)?,
            "iscsi.tcp" => settings.iscsi.tcp = Some(self.parsed(key, value)?),
            "iscsi.connections_max" => {
                settings.iscsi.connections_max = Some(self.parsed(key, value)?);
            }
            "iscsi.secrets" => {
                settings.iscsi.secrets = Some(PathBuf::from(self.string(key, value)?));
            }
            "iscsi.idle_timeout" | "iscsi.allow" => {
                self.take_callers(&mut settings.iscsi.callers, key, value)?;
            }
            "nvme.tcp" => settings.nvme.tcp = Some(self.parsed(key, value)?),
            "nvme.discovery_tcp" => settings.nvme.discovery_tcp = Some(self.parsed(key, value)?),
            "nvme.connections_max" => {
                settings.nvme.connections_max = Some(self.parsed(key, value)?);
            }
            "nvme.allow" => {
                self.take_callers(&mut settings.nvme.callers, key, value)?;
            }
            "api.unix" => settings.api_unix = Some(self.parsed(key, value)?),
            "api.tcp" => settings.api_tcp = Some(self.parsed(key, value)?),
            "api.tokens" => settings.api_tokens = Some(PathBuf::from(self.string(key, value)?)),
            "api.tls_certificates" => {
                let folder = PathBuf::from(self.string(key, value)?);
                settings.api_tls_certificates = Some(folder);
            }
            "api.console_loopback" => {
                settings.console_loopback = Some(self.parsed(key, value)?);
            }
            "metrics.tcp" => settings.metrics_tcp = Some(self.parsed(key, value)?),
            "journal.device" => {
                settings.journal_device = Some(PathBuf::from(self.string(key, value)?));
            }
            "journal.half_size" => settings.journal_half_size = Some(self.parsed(key, value)?),
            "cp.interval" => settings.cp_interval = Some(self.parsed(key, value)?),
            "trash.keep" => settings.trash_keep = Some(self.parsed(key, value)?),
            "drive.timeout" => settings.drive_timeout = Some(self.parsed(key, value)?),
            "scrub.interval" => settings.scrub_interval = Some(self.parsed(key, value)?),
            "garden.on_demand" => settings.garden_on_demand = Some(self.parsed(key, value)?),
            "garden.write_after_read" => {
                settings.garden_write_after_read = Some(self.parsed(key, value)?);
            }
            "garden.window" => settings.garden_window = Some(self.parsed(key, value)?),
            "snapshot.policy" => settings.snapshot_policy = Some(self.parsed(key, value)?),
            _ => return Err(self.refuse(key, at)),
        }
        Ok(())
    }

    /// Stores one key's value that the table of each protocol may have.
    fn take_callers(
        &self,
        callers: &mut Callers,
        key: &str,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<(), ConfigError> {
        let (_, name) = key.split_once('.').unwrap_or(("", key));
        match name {
            "tls" => callers.tls = Some(self.parsed(key, value)?),
            "tls_certificates" => {
                callers.tls_certificates = Some(PathBuf::from(self.string(key, value)?));
            }
            "tls_clients" => callers.tls_clients = Some(self.parsed(key, value)?),
            "idle_timeout" => callers.idle_timeout = Some(self.parsed(key, value)?),
            "allow" => callers.allow = self.rules(key, value)?,
            _ => unreachable!("a key of callers"),
        }
        Ok(())
    }

    /// Returns the refusal of an unknown key.
    fn refuse(&self, key: &str, at: &Spanned<DeString<'_>>) -> ConfigError {
        let (path, line, key) = (self.path.to_owned(), self.line(&at.span()), key.to_owned());
        let suggestion = match suggest::nearest(&key, KEYS) {
            Some(known) => format!("did you mean '{known}'?"),
            None => format!("known keys are {}", KEYS.join(", ")),
        };
        ConfigError::UnknownKey {
            path,
            line,
            key,
            suggestion,
        }
    }

    /// Returns a string, or the text of a bare number.
    fn string(&self, key: &str, value: &Spanned<DeValue<'_>>) -> Result<String, ConfigError> {
        match value.get_ref() {
            DeValue::String(text) => Ok(text.clone().into_owned()),
            DeValue::Integer(number) if number.radix() == 10 => Ok(number.as_str().to_owned()),
            other => Err(ConfigError::BadValue {
                path: self.path.to_owned(),
                line: self.line(&value.span()),
                key: key.to_owned(),
                problem: format!("found {}, expected a string or a whole number", kind(other)),
            }),
        }
    }

    /// Parses a value in the same way as flags and environment.
    fn parsed<T: FromStr>(&self, key: &str, value: &Spanned<DeValue<'_>>) -> Result<T, ConfigError>
    where
        T::Err: std::fmt::Display,
    {
        self.string(key, value)?
            .parse()
            .map_err(|error: T::Err| ConfigError::BadValue {
                path: self.path.to_owned(),
                line: self.line(&value.span()),
                key: key.to_owned(),
                problem: error.to_string(),
            })
    }

    /// Parses a table of rules: each has an export's name or a pattern, and the addresses of its
    /// users.
    fn rules(&self, key: &str, value: &Spanned<DeValue<'_>>) -> Result<Rules, ConfigError> {
        let wrong =
            |key: String, at: &Spanned<DeValue<'_>>, problem: String| ConfigError::BadValue {
                path: self.path.to_owned(),
                line: self.line(&at.span()),
                key,
                problem,
            };
        let DeValue::Table(lines) = value.get_ref() else {
            let problem = format!("found {}, expected a table", kind(value.get_ref()));
            return Err(wrong(key.to_owned(), value, problem));
        };
        let mut rules = Rules::default();
        for (pattern, value) in lines {
            let key = format!("{key}.{}", pattern.get_ref());
            let origins = match value.get_ref() {
                DeValue::Array(values) => values
                    .iter()
                    .map(|value| self.parsed(&key, value))
                    .collect::<Result<_, _>>()?,
                _ => vec![self.parsed(&key, value)?],
            };
            let added = rules.add(pattern.get_ref(), origins);
            added.map_err(|problem| wrong(key, value, problem))?;
        }
        Ok(rules)
    }

    /// Returns the 1-based line of a span's start.
    fn line(&self, span: &Range<usize>) -> usize {
        let before = self.text.as_bytes().iter().take(span.start);
        1 + before.filter(|byte| **byte == b'\n').count()
    }
}

/// Returns the name of this kind of value for people.
fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a number that is not decimal",
        DeValue::Float(_) => "a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
