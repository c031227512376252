//! Checks of a configuration without a start: the files that it names, the data directory, and
//! settings that have no effect.
//!
//! `serve` refuses what is refused here, because it takes the same steps. It also needs free
//! addresses and its devices, which a daemon that runs has at the moment.

use std::sync::Arc;

use crate::config::{ConfigError, FirstStart, machine};
use crate::datadir::{AggregateState, DeviceKind, Phase, State};
use crate::fronts::{self, Admission};
use crate::rest::tokens::Tokens;
use crate::signal::Again;
use crate::tls::Certificates;
use crate::{Config, DataDir, Descriptors, Size, StartError, administrator, descriptors};

impl Config {
    /// Checks the files that the configuration names, as a start would.
    ///
    /// # Errors
    /// A description of the first unusable file, in one line.
    pub fn check_files(&self) -> Result<(), String> {
        for protocol in fronts::all(self) {
            Admission::open(protocol.callers(), &Arc::default(), &Again::default())
                .map_err(|error| error.to_string())?;
            protocol.open().map_err(|error| error.to_string())?;
        }
        let Some(api) = &self.api_tcp else {
            return Ok(());
        };
        api.tokens.as_deref().map(Tokens::check).transpose()?;
        match &api.tls_certificates {
            Some(folder) => Certificates::open(folder, false)
                .map(drop)
                .map_err(|error| error.to_string()),
            None => Ok(()),
        }
    }

    /// Checks the data directory and the limit of open files, as a start would. Changes nothing.
    ///
    /// # Errors
    /// The refusal of a start.
    pub fn check_place(&self) -> Result<(), StartError> {
        check_memory(self.memory, machine::memory())?;
        let (limit, open) = (descriptors::raise_limit(), descriptors::open_now());
        let clients = fronts::clients(&fronts::all(self));
        Descriptors::share_out(limit, open, (self, clients), None)?;
        DataDir::examine(&self.data_dir)?;
        administrator::refuse_full_host(self)
    }

    /// Returns the settings that do not do what they seem to do, one line for each.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let state = State::read(&self.data_dir).unwrap_or_default();
        let size = self.first_start.unused_size(&state);
        let beyond = memory_beyond(self.memory, machine::memory());
        let warnings = size.into_iter().chain(beyond);
        warnings.chain(self.memory_beyond_group()).collect()
    }

    fn memory_beyond_group(&self) -> Option<String> {
        let most = machine::group_memory().filter(|most| self.memory > *most)?;
        Some(format!(
            "memory is {}, and the control group of this process may use {most}: the kernel may \
            kill the daemon; set memory lower, or the limit of the group higher (MemoryMax= of the \
            unit)",
            self.memory
        ))
    }
}

/// Refuses a limit of memory that was meant for another machine. A machine has a little less memory
/// than its name says, so an eighth more than there is passes, with a warning.
fn check_memory(limit: Size, machine: Option<Size>) -> Result<(), ConfigError> {
    let Some(most) = machine.filter(|most| limit.bytes() > most.bytes() + most.bytes() / 8) else {
        return Ok(());
    };
    Err(ConfigError::OutOfRange {
        key: "memory".into(),
        found: limit.to_string(),
        expected: format!("at most {most}, the memory of this machine"),
    })
}

fn memory_beyond(limit: Size, machine: Option<Size>) -> Option<String> {
    let most = machine.filter(|most| limit > *most)?;
    Some(format!(
        "memory is {limit}, and this machine has {most}: the kernel may kill the daemon; set \
        memory lower"
    ))
}

impl FirstStart {
    /// Returns a warning if somebody chose the size of an aggregate that exists with another size.
    fn unused_size(&self, state: &State) -> Option<String> {
        // A first start that was cut is repeated.
        let is_first = |known: &AggregateState| known.phase == Phase::Creating;
        if !self.is_size_chosen || state.aggregates.iter().all(is_first) {
            return None;
        }
        let (chosen, name) = (self.aggregate_size, &self.aggregate);
        let device = state
            .aggregate(name)
            .and_then(|known| known.devices.first());
        let directory = device.filter(|device| device.kind == DeviceKind::Directory);
        let (exists, larger) = match directory {
            Some(device) if device.size_bytes == chosen.bytes() => return None,
            Some(device) => (
                format!(
                    "aggregate {name} exists on a directory of {}",
                    Size(device.size_bytes)
                ),
                format!(
                    ", and use 'everglade aggregate resize {name} --size SIZE' to make the \
                    aggregate larger"
                ),
            ),
            None => (
                "the data directory has aggregates already".to_owned(),
                String::new(),
            ),
        };
        Some(format!(
            "--aggregate-size {chosen} has no effect, because it is for the first start only, and \
            {exists}; leave it out{larger}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;

    fn first_start(aggregate_size: Option<Size>) -> FirstStart {
        let settings = Settings {
            data_dir: Some("/srv/e".into()),
            aggregate_size,
            ..Settings::default()
        };
        let none = std::path::Path::new("/dev/null");
        Config::resolve(settings, Some(none))
            .expect("good")
            .first_start
    }

    #[test]
    fn a_size_for_the_first_start_is_told_when_it_has_no_effect() {
        let device = DataDir::directory_device("aggr0", 0, 2 << 30);
        let aggregate = |name: &str| AggregateState {
            name: name.to_owned(),
            phase: Phase::Ready,
            read_only: false,
            garden_paused: false,
            epoch: 1,
            uuid: None,
            devices: vec![device.clone()],
        };
        let state = |name: &str| State {
            aggregates: vec![aggregate(name)],
            spares: Vec::new(),
        };
        let chosen = |gib| first_start(Some(Size::gib(gib)));
        assert_eq!(chosen(4).unused_size(&State::default()), None, "it is used");
        assert_eq!(chosen(2).unused_size(&state("aggr0")), None, "it is right");
        let mut cut = state("aggr0");
        cut.aggregates[0].phase = Phase::Creating;
        assert_eq!(chosen(4).unused_size(&cut), None, "it will be used");
        assert_eq!(first_start(None).unused_size(&state("aggr0")), None);
        let other = chosen(4).unused_size(&state("aggr0")).expect("told");
        for part in [
            "--aggregate-size 4.0 GiB",
            "a directory of 2.0 GiB",
            "resize aggr0",
        ] {
            assert!(other.contains(part), "{part}: {other}");
        }
        let renamed = chosen(2).unused_size(&state("b")).expect("told");
        assert!(
            renamed.ends_with("has aggregates already; leave it out"),
            "{renamed}"
        );
    }

    #[test]
    fn memory_that_the_machine_nearly_has_is_a_warning_and_much_more_is_refused() {
        let machine = Some(Size::mib(31_900));
        let both = |gib| {
            let limit = Size::gib(gib);
            let refused = check_memory(limit, machine).map_err(|error| error.to_string());
            (refused.err(), memory_beyond(limit, machine))
        };
        assert_eq!(both(31), (None, None));
        let (refused, warning) = both(32);
        assert_eq!(refused, None);
        assert!(
            warning
                .expect("a warning")
                .contains("this machine has 31.2 GiB")
        );
        let refused = both(36).0.expect("refused");
        for part in ["memory is 36.0 GiB", "at most 31.2 GiB, the memory of this"] {
            assert!(refused.contains(part), "{part}: {refused}");
        }
    }
}
