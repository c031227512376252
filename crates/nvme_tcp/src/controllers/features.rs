//! Settings of a controller (base "Feature Identifiers"). Those that the host sets and that change
//! nothing here are kept and returned.

use std::collections::BTreeMap;

use super::controller::QUEUES_MAX;
use crate::wire::Status;
use crate::wire::feature::id;
use crate::wire::identify::WARNING_KELVIN;

/// Bit that asks for a feature to be saved, which we do not support.
const SAVE: u32 = 1 << 31;

/// Features that are only kept, and the bits of them that may be set.
const KEPT: [(u8, u32); 4] = [
    (id::ARBITRATION, u32::MAX),
    (id::TEMPERATURE, 0x003f_ffff),
    (id::ERROR_RECOVERY, 0x0001_ffff),
    (id::WRITE_ATOMICITY, 1),
];

/// What follows from a feature that was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Nothing; the result of the command.
    Result(u32),
    /// Writes are durable, or not.
    WriteCache { is_on: bool },
    /// The host wants to hear of these events.
    Events(u32),
    /// Time after which a silent host is gone, in milliseconds.
    KeepAlive(u32),
}

/// The settings of one controller.
#[derive(Debug, Default)]
pub(crate) struct Features {
    kept: BTreeMap<u8, u32>,
}

/// The values of features that other parts keep.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) writes_through: bool,
    pub(crate) events: u32,
    pub(crate) keep_alive_ms: u32,
    pub(crate) is_discovery: bool,
}

impl Features {
    /// Sets a feature without data. `word` is word 10 of the command, `value` word 11.
    pub(crate) fn set(&mut self, word: u32, value: u32, known: &Known) -> Result<Change, Status> {
        let feature = word.to_le_bytes()[0];
        if word & SAVE != 0 {
            return Err(Status::NOT_SAVEABLE);
        }
        let is_input_and_output = matches!(
            feature,
            id::WRITE_CACHE | id::QUEUES | id::WRITE_ATOMICITY | id::ERROR_RECOVERY
        );
        if known.is_discovery && is_input_and_output {
            return Err(Status::INVALID_FIELD);
        }
        match feature {
            id::POWER if value & 0x1f != 0 => Err(Status::INVALID_FIELD),
            id::POWER => Ok(Change::Result(0)),
            id::WRITE_CACHE => Ok(Change::WriteCache {
                is_on: value & 1 != 0,
            }),
            id::QUEUES => queues(value).map(Change::Result),
            id::EVENTS => Ok(Change::Events(value)),
            id::KEEP_ALIVE => Ok(Change::KeepAlive(value)),
            id::HOST_ID => Err(Status::NOT_CHANGEABLE),
            _ => match KEPT.iter().find(|(kept, _)| *kept == feature) {
                Some((_, bits)) => {
                    self.kept.insert(feature, value & bits);
                    Ok(Change::Result(0))
                }
                None => Err(Status::INVALID_FIELD),
            },
        }
    }

    /// Returns the value of a feature without data.
    pub(crate) fn get(&self, feature: u8, known: &Known) -> Result<u32, Status> {
        match feature {
            id::POWER => Ok(0),
            id::WRITE_CACHE => Ok(u32::from(!known.writes_through)),
            id::QUEUES => Ok(both(QUEUES_MAX)),
            id::EVENTS => Ok(known.events),
            id::KEEP_ALIVE => Ok(known.keep_alive_ms),
            _ if KEPT.iter().any(|(kept, _)| *kept == feature) => {
                let default = match feature {
                    id::TEMPERATURE => u32::from(WARNING_KELVIN),
                    _ => 0,
                };
                Ok(self.kept.get(&feature).copied().unwrap_or(default))
            }
            _ => Err(Status::INVALID_FIELD),
        }
    }
}

/// Returns how many queues the host gets, of each kind, less one each.
fn queues(asked: u32) -> Result<u32, Status> {
    let [a, b, c, d] = asked.to_le_bytes();
    let submission = u16::from_le_bytes([a, b]);
    let completion = u16::from_le_bytes([c, d]);
    if submission == u16::MAX || completion == u16::MAX {
        return Err(Status::INVALID_FIELD);
    }
    // A submission queue has its completion queue here.
    let granted = (submission.min(completion) + 1).min(QUEUES_MAX);
    Ok(both(granted))
}

fn both(queues: u16) -> u32 {
    let less_one = u32::from(queues) - 1;
    less_one | less_one << 16
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: Known = Known {
        writes_through: false,
        events: 5,
        keep_alive_ms: 6,
        is_discovery: false,
    };

    #[test]
    fn queues_are_granted_up_to_a_limit() {
        let mut features = Features::default();
        let mut set = |value| features.set(u32::from(id::QUEUES), value, &KNOWN);
        assert_eq!(set(0x0003_0007), Ok(Change::Result(0x0003_0003)));
        assert_eq!(set(0x0fff_0fff), Ok(Change::Result(0x003f_003f)));
        assert_eq!(set(0xffff_0000), Err(Status::INVALID_FIELD));
    }

    #[test]
    fn what_changes_nothing_is_kept() {
        let mut features = Features::default();
        assert_eq!(features.get(id::TEMPERATURE, &KNOWN), Ok(343));
        let set = features.set(u32::from(id::TEMPERATURE), 300, &KNOWN);
        assert_eq!(set, Ok(Change::Result(0)));
        assert_eq!(features.get(id::TEMPERATURE, &KNOWN), Ok(300));
        assert_eq!(features.get(id::WRITE_CACHE, &KNOWN), Ok(1));
        assert_eq!(features.get(0x77, &KNOWN), Err(Status::INVALID_FIELD));
        let saved = features.set(1 << 31 | u32::from(id::TEMPERATURE), 1, &KNOWN);
        assert_eq!(saved, Err(Status::NOT_SAVEABLE));
        assert_eq!(features.get(id::EVENTS, &KNOWN), Ok(5));
        let discovery = Known {
            is_discovery: true,
            ..KNOWN
        };
        let refused = features.set(u32::from(id::QUEUES), 1, &discovery);
        assert_eq!(refused, Err(Status::INVALID_FIELD));
    }
}
