//! The whole configuration in the form of a configuration file.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::Config;

/// The keys whose values are no texts.
const ALLOW: [&str; 3] = ["nbd.allow", "iscsi.allow", "nvme.allow"];

impl Config {
    /// Returns every key that a file can have, with its value; `None` if it is not set.
    fn keys(&self) -> Vec<(&'static str, Option<String>)> {
        let off = || Some("off".to_owned());
        let path = |path: &Path| Some(path.display().to_string());
        let unix = |socket: &Option<std::path::PathBuf>| socket.as_deref().map_or_else(off, path);
        let journal = &self.first_start.journal;
        let callers = &self.nbd.callers;
        let initiators = &self.iscsi.callers;
        let hosts = &self.nvme.callers;
        vec![
            ("data_dir", path(&self.data_dir)),
            ("memory", Some(self.memory.bytes().to_string())),
            ("reactors", Some(self.reactors.to_string())),
            (
                "nbd.tcp",
                self.nbd.tcp.map_or_else(off, |at| Some(at.to_string())),
            ),
            ("nbd.unix", unix(&self.nbd.unix)),
            (
                "nbd.connections_max",
                Some(self.nbd.connections_max.to_string()),
            ),
            ("nbd.tls", callers.tls.map(|tls| tls.to_string())),
            (
                "nbd.tls_certificates",
                callers.tls_certificates.as_deref().and_then(path),
            ),
            (
                "nbd.tls_clients",
                callers.tls_clients.map(|who| who.to_string()),
            ),
            (
                "nbd.idle_timeout",
                callers.idle_timeout.map(|time| time.to_string()),
            ),
            (
                ALLOW[0],
                (!callers.allow.is_empty()).then(|| callers.allow.to_string()),
            ),
            (
                "iscsi.tcp",
                self.iscsi.tcp.map_or_else(off, |at| Some(at.to_string())),
            ),
            (
                "iscsi.connections_max",
                Some(self.iscsi.connections_max.to_string()),
            ),
            (
                "iscsi.secrets",
                self.iscsi.secrets.as_deref().and_then(path),
            ),
            (
                "iscsi.idle_timeout",
                initiators.idle_timeout.map(|time| time.to_string()),
            ),
            (
                ALLOW[1],
                (!initiators.allow.is_empty()).then(|| initiators.allow.to_string()),
            ),
            (
                "nvme.tcp",
                self.nvme.tcp.map_or_else(off, |at| Some(at.to_string())),
            ),
            (
                "nvme.discovery_tcp",
                self.nvme
                    .discovery_tcp
                    .map_or_else(off, |at| Some(at.to_string())),
            ),
            (
                "nvme.connections_max",
                Some(self.nvme.connections_max.to_string()),
            ),
            (
                ALLOW[2],
                (!hosts.allow.is_empty()).then(|| hosts.allow.to_string()),
            ),
            ("api.unix", unix(&self.api_unix)),
            (
                "api.tcp",
                self.api_tcp
                    .as_ref()
                    .map_or_else(off, |api| Some(api.address.to_string())),
            ),
            (
                "api.tokens",
                self.api_tcp
                    .as_ref()
                    .and_then(|api| path(api.tokens.as_deref()?)),
            ),
            (
                "api.tls_certificates",
                self.api_tcp
                    .as_ref()
                    .and_then(|api| path(api.tls_certificates.as_deref()?)),
            ),
            (
                "api.console_loopback",
                self.api_tcp
                    .as_ref()
                    .and_then(|api| Some(api.console_loopback?.to_string())),
            ),
            (
                "metrics.tcp",
                self.metrics.tcp.map_or_else(off, |at| Some(at.to_string())),
            ),
            ("journal.device", journal.device.clone()),
            (
                "journal.half_size",
                journal.half_size.map(|half| half.bytes().to_string()),
            ),
            ("cp.interval", Some(self.cp_interval.to_string())),
            ("drive.timeout", Some(self.drive_timeout.to_string())),
            ("scrub.interval", Some(self.scrub_interval.to_string())),
            ("trash.keep", Some(self.trash_keep.to_string())),
            ("garden.on_demand", Some(self.garden_on_demand.to_string())),
            (
                "garden.write_after_read",
                Some(self.garden_write_after_read.to_string()),
            ),
            ("garden.window", Some(self.garden_window.to_string())),
            ("snapshot.policy", Some(self.snapshot_policy.clone())),
        ]
    }

    /// Returns a file with the same settings.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        let mut section = "";
        for (key, value) in self.keys() {
            let (table, name) = key.split_once('.').unwrap_or(("", key));
            if table != section {
                // Writing to a String cannot fail.
                let _ = write!(text, "\n[{table}]\n");
                section = table;
            }
            let _ = match value {
                // An allow-list is written as a table.
                Some(value) if ALLOW.contains(&key) => writeln!(text, "{name} = {value}"),
                Some(value) => writeln!(text, "{name} = {}", toml::Value::String(value)),
                None => writeln!(text, "# {name} is not set"),
            };
        }
        text
    }

    /// Returns the settings as JSON for programs, with null for settings that are not set.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let keys = self.keys().into_iter();
        let mut all: Map<String, Value> = keys
            .map(|(key, value)| (key.to_owned(), json!(value)))
            .collect();
        all.insert("schema_version".to_owned(), json!(1));
        Value::Object(all)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Settings, file};
    use super::*;

    #[test]
    fn what_is_shown_can_be_served() {
        let settings = Settings {
            data_dir: Some("/srv/e".into()),
            metrics_tcp: Some("off".parse().expect("off")),
            nbd: file::parse(
                Path::new("some.toml"),
                "nbd.tls = 'offered'\nnbd.tls_certificates = '/tls'\nnbd.tls_clients = \
                'certified'\n\
                nbd.idle_timeout = '5m'\nnbd.allow.'v/*' = ['10.0.0.0/8', 'local']\n\
                nbd.allow.'v/l' = []",
            )
            .expect("good")
            .nbd,
            iscsi: file::parse(
                Path::new("some.toml"),
                "iscsi.tcp = ':0'\niscsi.secrets = '/secrets'\niscsi.allow.'v/*' = '10.0.0.1'\n\
                iscsi.connections_max = 7\niscsi.idle_timeout = '1h'",
            )
            .expect("good")
            .iscsi,
            nvme: file::parse(
                Path::new("some.toml"),
                "nvme.tcp = ':4420'\nnvme.discovery_tcp = ':8009'\n\
                nvme.allow.'v/l' = ['10.0.0.0/8']",
            )
            .expect("good")
            .nvme,
            journal_half_size: Some("64MiB".parse().expect("a size")),
            ..Settings::default()
        };
        let config = Config::complete(settings).expect("good");
        let text = config.to_toml();
        let again = file::parse(Path::new("shown.toml"), &text).expect(&text);
        assert_eq!(Config::complete(again).expect("good"), config);
        for key in file::KEYS {
            let name = key.rsplit('.').next().expect("a name");
            assert!(text.contains(name), "{key}: {text}");
            assert!(config.to_json().get(key).is_some(), "{key}");
        }
    }
}
