//! The aggregates as the store of the schedule's book: each keeps its part of the book in its
//! notes.

use std::sync::Arc;

use everglade_engine::{Engine, Unreadable, admin};

use crate::plane::control::{Control, Plane};
use crate::schedule::{Shelf, Unwritten};

/// See the module's documentation.
pub(crate) struct Pools {
    engine: Engine,
    plane: Arc<Plane>,
}

impl Pools {
    pub(crate) fn new(engine: Engine, plane: Arc<Plane>) -> Pools {
        Pools { engine, plane }
    }
}

impl Shelf for Pools {
    fn online(&self) -> Vec<u32> {
        self.engine.online()
    }

    fn name(&self, aggregate: u32) -> String {
        let all = self.engine.aggregates().into_iter();
        let mut found = all.filter(|known| known.id == aggregate);
        found.next().map(|known| known.name).unwrap_or_default()
    }

    fn read(&self, aggregate: u32) -> Result<String, Unreadable> {
        let notes = self.engine.notes(aggregate)?;
        let text = std::str::from_utf8(&notes);
        text.map(str::to_owned)
            .map_err(|error| Unreadable::Damaged(format!("they are no text: {error}")))
    }

    fn write(&self, aggregate: u32, text: &str) -> Result<(), Unwritten> {
        let change = admin::Change::SetNotes {
            text: text.as_bytes().to_vec(),
        };
        let home = self.engine.home_reactor(aggregate);
        let answer = self.plane.ask(home, Control::Change(aggregate, change));
        let answer = answer.ok_or_else(|| "the daemon is stopping".to_owned())?;
        answer.changed().map(drop).map_err(|error| Unwritten {
            is_unknown: matches!(error, admin::Error::Unknown(_)),
            text: error.to_string(),
        })
    }

    fn home(&self, volume: &str) -> Option<u32> {
        self.engine.home_of(volume)
    }
}
