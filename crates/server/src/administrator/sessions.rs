//! Sessions, as administrators see them: who uses which LUN.

use std::collections::HashMap;
use std::sync::Arc;

use everglade_api::{Code, Problem, Session, counted};

use everglade_target::sessions::{AllowList, Tally};

use super::administrator::Administrator;
use crate::access::{Gate, Table, Terms};
use crate::plane::control::{Answer, Control, Described};

/// The parameter of a request that disconnects clients.
pub(crate) const DISCONNECT: &str = "disconnect";
/// Clients that a message names.
const NAMED_MAX: usize = 5;

/// The place of the LUNs that a change takes away.
pub(crate) enum Within<'a> {
    /// A LUN of a volume.
    Lun(&'a str, &'a str),
    /// A volume.
    Volume(&'a str),
    /// An aggregate.
    Aggregate(&'a str),
}

impl Administrator {
    /// Refuses to take LUNs away from clients that have them open.
    ///
    /// # Errors
    /// The clients.
    pub(crate) fn refuse_connected(&self, within: &Within<'_>) -> Result<(), Problem> {
        let volumes: Vec<String> = match within {
            Within::Aggregate(name) => {
                let volumes = self.volumes().volumes.into_iter();
                let of_it = volumes.filter(|volume| volume.aggregate == *name);
                of_it.map(|volume| volume.name).collect()
            }
            Within::Lun(volume, _) | Within::Volume(volume) => vec![(*volume).to_owned()],
        };
        let is_in = |session: &Session| {
            let (volume, lun) = session.lun.split_once('/').unwrap_or_default();
            let is_wanted = match within {
                Within::Lun(_, name) => lun == *name,
                Within::Volume(_) | Within::Aggregate(_) => true,
            };
            is_wanted && volumes.iter().any(|known| known == volume)
        };
        let mut using = self.sessions();
        using.retain(is_in);
        if using.is_empty() {
            return Ok(());
        }
        let mut named: Vec<String> = using.iter().take(NAMED_MAX).map(said).collect();
        if using.len() > NAMED_MAX {
            named.push(format!("{} more", using.len() - NAMED_MAX));
        }
        let text = format!(
            "{} in use: {}; disconnect the clients first",
            counted(using.len() as u64, "connection"),
            named.join(", ")
        );
        Err(Problem::of_field(Code::InUse, DISCONNECT, text))
    }

    /// Returns the sessions that end with other mappings, by LUN and client, and the number of
    /// those that stay.
    pub(super) fn sessions_without(&self, mappings: Table) -> (Vec<Session>, u64) {
        let gate = Arc::new(Gate::of(mappings));
        let names = self.names_of_luns();
        let (mut ending, mut staying) = (Vec::new(), 0);
        for described in self.described() {
            let facts = &described.facts;
            let mut of_protocol = self.allow.iter();
            let allow = of_protocol.find(|allow| allow.title == described.protocol);
            let terms = Terms {
                rules: allow.map(|allow| allow.rules.clone()).unwrap_or_default(),
                gate: Arc::clone(&gate),
            };
            let stays = terms.allows(&facts.export, &facts.lun, &facts.caller);
            match view(described, &names) {
                Some(_) if stays => staying += 1,
                Some(session) => ending.push(session),
                None => {}
            }
        }
        ending.sort_by(|a, b| (&a.lun, &a.client).cmp(&(&b.lun, &b.client)));
        (ending, staying)
    }

    /// Returns the sessions that have a LUN open, or an image of one, by LUN and client.
    #[must_use]
    pub fn sessions(&self) -> Vec<Session> {
        let names = self.names_of_luns();
        let described = self.described().into_iter();
        let mut sessions: Vec<Session> = described.filter_map(|it| view(it, &names)).collect();
        sessions.sort_by(|a, b| (&a.lun, &a.client).cmp(&(&b.lun, &b.client)));
        sessions
    }

    /// Returns what the clients of each LUN were answered since the daemon started, by the names of
    /// LUNs. What is beyond the LUNs that have counters of their own has no name.
    pub(crate) fn tallies(&self) -> Vec<(Option<String>, Tally)> {
        let names = self.names_of_luns();
        let all = self.plane.tallies().into_iter();
        let named = |(lun, tally): ([u8; 16], Tally)| match lun {
            lun if lun == [0; 16] => Some((None, tally)),
            // A deleted LUN has no name any more.
            lun => Some((Some(names.get(&lun)?.clone()), tally)),
        };
        let mut all: Vec<_> = all.filter_map(named).collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }

    /// Returns the names of all LUNs by their UUIDs.
    pub(super) fn names_of_luns(&self) -> HashMap<[u8; 16], String> {
        let luns = self.engine.luns().into_iter();
        luns.map(|lun| (lun.uuid, lun.name)).collect()
    }

    fn described(&self) -> Vec<Described> {
        let everywhere = (0..self.plane.reactors()).map(|reactor| (reactor, Control::Sessions));
        let answers = self.plane.ask_all(everywhere).into_iter().flatten();
        answers.flat_map(Answer::sessions).collect()
    }
}

/// Names a client in a message.
fn said(session: &Session) -> String {
    let Session {
        lun,
        protocol,
        client,
        idle_seconds,
        ..
    } = session;
    let host = session.host.as_ref();
    let host = host.map_or_else(String::new, |host| format!(" ({host:.80})"));
    format!("{lun} by {client}{host} over {protocol}, idle for {idle_seconds} s")
}

/// Describes a session; `None` if its LUN is gone, so that it ends within a second.
fn view(described: Described, names: &HashMap<[u8; 16], String>) -> Option<Session> {
    const SECOND: u64 = 1_000_000_000;
    const MICROSECOND: u64 = 1_000;
    let Described {
        reactor,
        protocol,
        facts,
    } = described;
    // A LUN may have another name than when it was opened. An image is called after its snapshot.
    let lun = match facts.export.contains('@') {
        true => facts.export,
        false => names.get(&facts.lun)?.clone(),
    };
    let certificate = facts.caller.names.get().and_then(|names| names.first());
    let address = facts.caller.address.map(|address| address.to_canonical());
    Some(Session {
        lun,
        protocol: protocol.to_owned(),
        client: address.map_or_else(|| "local".to_owned(), |address| address.to_string()),
        host: facts.caller.host.as_ref().or(certificate).cloned(),
        age_seconds: facts.age / SECOND,
        idle_seconds: facts.silence / SECOND,
        operation_count: facts.operations as u64,
        sent_bytes: facts.bytes_sent,
        read_count: facts.tally.reads.count,
        read_bytes: facts.tally.reads.bytes,
        read_us: facts.tally.reads.duration / MICROSECOND,
        write_count: facts.tally.writes.count,
        written_bytes: facts.tally.writes.bytes,
        write_us: facts.tally.writes.duration / MICROSECOND,
        reactor: reactor as u64,
    })
}
