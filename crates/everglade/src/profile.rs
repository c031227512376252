//! Profiles: daemons on other machines, by name.
//!
//! ```toml
//! [store]
//! endpoint = "https://store:9811"
//! token_file = "/home/me/.store.token"
//! ca = "/home/me/store-ca.pem"
//! ```
//!
//! The file is `profiles.toml` in `$XDG_CONFIG_HOME/everglade`, else in `~/.config/everglade`. What
//! the command line or the environment says goes before what the profile says.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use everglade_cli::Endpoint;
use toml::Table;

use crate::args::Global;
use crate::exit::{self, Failure};

const KEYS: [&str; 3] = ["endpoint", "token_file", "ca"];

/// What a profile says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Profile {
    endpoint: Option<String>,
    token_file: Option<PathBuf>,
    ca: Option<PathBuf>,
}

/// The endpoint to ask; `None` for the daemon of this machine.
pub(crate) fn endpoint(global: &Global) -> Result<Option<Endpoint>, Failure> {
    let usage = |text: String| Failure::new(exit::USAGE, text);
    let profile = match &global.profile {
        Some(name) => read(&place().map_err(usage)?, name).map_err(usage)?,
        None => Profile::default(),
    };
    let address = global.endpoint.clone().or(profile.endpoint);
    let token_file = global.token_file.clone().or(profile.token_file);
    let ca = global.ca.clone().or(profile.ca);
    let Some(address) = address else {
        return match token_file.or(ca) {
            None => Ok(None),
            Some(_) => Err(usage(
                "--token-file and --ca are for --endpoint, which is missing".to_owned(),
            )),
        };
    };
    if let Some(socket) = &global.socket {
        return Err(usage(format!(
            "two daemons are named: the socket {} and the endpoint {address}; leave one out",
            socket.display()
        )));
    }
    let Some(token_file) = token_file else {
        return Err(usage(format!(
            "{address} needs --token-file, a file with the token and nothing else"
        )));
    };
    let opened = Endpoint::open(&address, &token_file, ca.as_deref());
    opened.map(Some).map_err(Failure::from)
}

/// The file of the profiles.
fn place() -> Result<PathBuf, String> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    let home = || Some(PathBuf::from(set("HOME")?).join(".config"));
    let folder = set("XDG_CONFIG_HOME").map(PathBuf::from).or_else(home);
    let folder = folder.ok_or("profiles.toml is below HOME, which is not set")?;
    Ok(folder.join("everglade/profiles.toml"))
}

fn read(path: &Path, name: &str) -> Result<Profile, String> {
    let shown = path.display();
    let text = fs::read_to_string(path).map_err(|error| format!("cannot read {shown}: {error}"))?;
    parse(&text, name).map_err(|problem| format!("{shown}: {problem}"))
}

fn parse(text: &str, name: &str) -> Result<Profile, String> {
    let table: Table = text.parse().map_err(|error: toml::de::Error| {
        let message = error.message().lines().next().unwrap_or("not TOML");
        format!("not TOML: {message}")
    })?;
    let Some(found) = table.get(name) else {
        let known: Vec<&str> = table.keys().map(String::as_str).collect();
        let known = match known.is_empty() {
            true => "it has none".to_owned(),
            false => format!("it has {}", known.join(", ")),
        };
        return Err(format!("there is no profile '{name}'; {known}"));
    };
    let found = found.as_table().ok_or(format!("'{name}' is not a table"))?;
    if let Some(key) = found.keys().find(|key| !KEYS.contains(&key.as_str())) {
        return Err(format!(
            "'{name}' has an unknown key '{key}'; known keys are {}",
            KEYS.join(", ")
        ));
    }
    let text = |key: &str| match found.get(key) {
        None => Ok(None),
        Some(value) => match value.as_str() {
            Some(text) => Ok(Some(text.to_owned())),
            None => Err(format!("'{name}.{key}' is not a text")),
        },
    };
    let endpoint = text("endpoint")?;
    if endpoint.is_none() {
        return Err(format!("'{name}' has no endpoint"));
    }
    Ok(Profile {
        endpoint,
        token_file: text("token_file")?.map(PathBuf::from),
        ca: text("ca")?.map(PathBuf::from),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_found_by_its_name() {
        let text = "[a]\nendpoint = 'https://a'\n[b]\nendpoint = 'https://b'\nca = '/c'\n";
        let found = parse(text, "b").expect("good");
        assert_eq!(found.endpoint.as_deref(), Some("https://b"));
        assert_eq!(found.ca, Some(PathBuf::from("/c")));
        for (text, part) in [
            (text, "no profile 'x'; it has a, b"),
            ("", "it has none"),
            ("x = 1", "not a table"),
            ("[x]\ntoken = 's'", "unknown key 'token'"),
            ("[x]\nca = '/c'", "no endpoint"),
            ("[x]\nendpoint = 1", "'x.endpoint' is not a text"),
            ("[x", "not TOML"),
        ] {
            let problem = parse(text, "x").expect_err(part);
            assert!(problem.contains(part), "{problem}");
        }
    }
}
