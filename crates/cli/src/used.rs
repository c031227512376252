//! Who keeps a daemon busy: clients of LUNs, and how many of their operations limits hold back.

use std::collections::BTreeMap;

use everglade_api::{Limits, Session as Client, Sessions, Size, Work};

use crate::failure::Failure;
use crate::rate::{mean, per_second};
use crate::session::Session;
use crate::table::heading;
use crate::verb::TopBy;

/// Lines of the table.
const BUSIEST: usize = 10;

/// LUN, client and protocol.
type Who = (String, String, String);

/// Counters of all clients at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Used {
    clients: BTreeMap<Who, Work>,
    /// Operations that had to wait, by LUN with a limit.
    held: BTreeMap<String, u64>,
}

impl Used {
    /// Asks the daemon, unless the devices are shown instead.
    pub(crate) fn ask(session: &Session, by: TopBy) -> Result<Used, Failure> {
        if by == TopBy::Device {
            return Ok(Used::default());
        }
        let sessions = session.get::<Sessions>("/v1/sessions")?.meant.sessions;
        let limits = session.get::<Limits>("/v1/limits")?.meant.limits;
        let held = limits
            .into_iter()
            .map(|limit| (limit.name, limit.held_count));
        Ok(Used {
            held: held.collect(),
            ..Used::of(sessions, by)
        })
    }

    /// Connections of one client are one line; those of a LUN, or of a client to all LUNs, if that
    /// is wanted.
    fn of(sessions: Vec<Client>, by: TopBy) -> Used {
        let mut used = Used::default();
        for session in sessions {
            let work = session.work();
            let client = session.host.unwrap_or(session.client);
            let all = || "-".to_owned();
            let who = match by {
                TopBy::Both | TopBy::Device => (session.lun, client, session.protocol),
                TopBy::Lun => (session.lun, all(), all()),
                TopBy::Client => (all(), client, all()),
            };
            *used.clients.entry(who).or_default() += work;
        }
        used
    }

    /// The table of what happened since another moment, `ms` milliseconds ago; empty if nothing
    /// did.
    pub(crate) fn since(&self, before: &Used, ms: u64) -> String {
        let mut rows: Vec<(u64, Vec<String>)> = Vec::new();
        for (who, now) in &self.clients {
            let done = now.since(&before.clients.get(who).copied().unwrap_or_default());
            let rates = done.counts.map(|count| per_second(0, count, ms));
            let through = per_second(0, done.bytes[0] + done.bytes[1], ms);
            let mean = |index: usize| mean(done.us[index], done.counts[index]);
            let (lun, client, protocol) = who;
            // One without a limit may be held for that of its volume.
            let volume = lun.split_once('/').map(|(volume, _)| volume);
            let limited = [Some(lun.as_str()), volume].into_iter().flatten();
            let mut limited = limited.filter_map(|name| self.held.get_key_value(name));
            let held = limited.next().map_or_else(
                || "-".to_owned(),
                |(name, now)| {
                    let earlier = before.held.get(name).copied().unwrap_or(*now);
                    per_second(earlier, *now, ms).to_string()
                },
            );
            if rates != [0, 0] {
                rows.push((
                    rates[0] + rates[1],
                    vec![
                        lun.clone(),
                        client.clone(),
                        protocol.clone(),
                        rates[0].to_string(),
                        rates[1].to_string(),
                        format!("{}/s", Size(through)),
                        mean(0),
                        mean(1),
                        held,
                    ],
                ));
            }
        }
        if rows.is_empty() {
            return String::new();
        }
        rows.sort_by_key(|row| std::cmp::Reverse(row.0));
        let mut table = heading(&[
            "LUN",
            "CLIENT",
            "PROTOCOL",
            "READS/S",
            "WRITES/S",
            "THROUGHPUT",
            "READ",
            "WRITE",
            "HELD/S",
        ]);
        for (_, row) in rows.into_iter().take(BUSIEST) {
            table.row(row);
        }
        format!("\n{}", table.text(true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(lun: &str, client: &str, reads: u64, writes: u64) -> Client {
        Client {
            lun: lun.to_owned(),
            protocol: "NBD".to_owned(),
            client: client.to_owned(),
            read_count: reads,
            read_bytes: reads * 4096,
            read_us: reads * 100,
            write_count: writes,
            written_bytes: writes * 4096,
            write_us: writes * 50,
            ..Client::default()
        }
    }

    #[test]
    fn the_busiest_clients_are_first_and_idle_ones_are_left_out() {
        let before = Used::of(
            vec![client("v/a", "local", 10, 0), client("v/b", "local", 5, 5)],
            TopBy::Both,
        );
        let mut now = Used::of(
            vec![
                client("v/a", "local", 10, 0),
                client("v/b", "local", 205, 5),
                // Two connections of one client.
                client("v/c", "10.0.0.1", 0, 300),
                client("v/c", "10.0.0.1", 0, 500),
            ],
            TopBy::Both,
        );
        now.held.insert("v/c".to_owned(), 7);
        let text = now.since(&before, 2_000);
        let lines: Vec<Vec<&str>> = text
            .lines()
            .filter(|line| line.starts_with("v/"))
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(
            lines,
            [
                [
                    "v/c", "10.0.0.1", "NBD", "0", "400", "1.6", "MiB/s", "-", "50", "us", "0"
                ]
                .to_vec(),
                [
                    "v/b", "local", "NBD", "100", "0", "400.0", "KiB/s", "100", "us", "-", "-"
                ]
                .to_vec(),
            ],
            "{text}"
        );
        assert_eq!(now.since(&now, 2_000), "");
    }

    #[test]
    fn lines_of_luns_have_all_clients_and_those_of_clients_all_luns() {
        let sessions = || {
            vec![
                client("v/a", "local", 100, 0),
                client("v/a", "10.0.0.1", 100, 0),
                client("v/b", "10.0.0.1", 300, 0),
            ]
        };
        let none = Used::default();
        let firsts = |by| {
            let mut used = Used::of(sessions(), by);
            used.held.insert("v".to_owned(), 7);
            let text = used.since(&none, 1_000);
            let lines = text.lines().skip(2).map(|line| {
                let words: Vec<&str> = line.split_whitespace().collect();
                [words[0], words[1], words[3], words[words.len() - 1]].map(str::to_owned)
            });
            lines.collect::<Vec<_>>()
        };
        let of_luns = [["v/b", "-", "300", "0"], ["v/a", "-", "200", "0"]];
        assert_eq!(firsts(TopBy::Lun), of_luns.map(|it| it.map(str::to_owned)));
        let of_clients = [["-", "10.0.0.1", "400", "-"], ["-", "local", "100", "-"]];
        assert_eq!(
            firsts(TopBy::Client),
            of_clients.map(|it| it.map(str::to_owned))
        );
    }
}
