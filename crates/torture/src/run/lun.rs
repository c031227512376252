//! A LUN under torture: its name and what a crash may leave in it.

use std::sync::{Arc, Mutex};

use crate::client::Address;
use crate::history::{History, Violation};
use crate::load::{Load, Options, Shared, lock};
use crate::rig::Daemon;
use crate::stamp::SECTOR;
use crate::verify::read_all;
use crate::{Failure, Random};

/// The most violations that are printed, because there may be thousands.
const SHOWN: usize = 12;

pub(super) struct Lun {
    export: String,
    history: Shared,
}

impl Lun {
    /// A new, empty LUN. `forced` is true if its volume acknowledges only durable changes.
    pub(super) fn new(export: &str, bytes: u64, forced: bool) -> Lun {
        let history = History::new(bytes / SECTOR as u64, forced);
        Lun {
            export: export.to_owned(),
            history: Arc::new(Mutex::new(history)),
        }
    }

    /// Starts a load whose connections take turns with the protocols.
    pub(super) fn load(
        &self,
        daemon: &Daemon,
        connections: usize,
        random: &mut Random,
    ) -> Result<Load, Failure> {
        let mut addresses = daemon.addresses();
        // With few connections, other protocols meet in every round.
        let first = random.below(addresses.len() as u64);
        addresses.rotate_left(usize::try_from(first).expect("small"));
        let options = Options {
            connections,
            window: 1 + usize::try_from(random.below(24)).expect("small"),
            sectors_max: (1 << 20) / SECTOR as u64,
            seed: random.number(),
        };
        Load::start(&addresses, &self.export, &self.history, options)
            .map_err(|error| Failure::Broken(format!("cannot open {}: {error}", self.export)))
    }

    pub(super) fn undecided(&self) -> u64 {
        lock(&self.history).undecided()
    }

    /// Reads the whole LUN from a restarted server, and compares it with the history. Returns the
    /// number of sectors read.
    pub(super) fn verify(&self, address: &Address) -> Result<u64, Failure> {
        let found = read_all(address, &self.export)
            .map_err(|error| Failure::Broken(format!("cannot read {}: {error}", self.export)))?;
        let mut history = lock(&self.history);
        if found.len() as u64 != history.len() {
            let text = format!(
                "{} has {} sectors, not {}",
                self.export,
                found.len(),
                history.len()
            );
            return Err(Failure::Broken(text));
        }
        let violations = history.settle(&found);
        broken(&self.export, &violations)?;
        Ok(found.len() as u64)
    }
}

/// Returns an error if there are any violations.
pub(super) fn broken(what: &str, violations: &[Violation]) -> Result<(), Failure> {
    if violations.is_empty() {
        return Ok(());
    }
    let mut lines = vec![format!("{what}: {} sectors are wrong", violations.len())];
    lines.extend(violations.iter().take(SHOWN).map(Violation::to_string));
    Err(Failure::Broken(lines.join("\n  ")))
}
