//! All controllers, by number.

use std::collections::BTreeMap;
use std::sync::Arc;

use everglade_env::lock::Mutex;
use everglade_target::Export;

use super::controller::{Controller, Host};
use super::subsystem::Subsystem;

/// The highest number of a controller (base "Controller ID": higher ones are reserved).
const ID_MAX: u16 = 0xffef;

/// The controllers of a server, shared by the sessions of all reactors.
#[derive(Default)]
pub struct Registry {
    /// Held for the time of a look-up.
    controllers: Mutex<Controllers>,
    /// Held while two lists of names are compared.
    exports: Mutex<Exports>,
}

#[derive(Default)]
struct Controllers {
    by_id: BTreeMap<u16, Arc<Controller>>,
    last: u16,
}

/// The list of exports, as it was seen last, and how often it has changed.
#[derive(Default)]
struct Exports {
    names: Vec<String>,
    generation: u64,
}

impl Registry {
    /// Makes a registry without controllers.
    #[must_use]
    pub fn new() -> Registry {
        Registry::default()
    }

    /// Begins a controller for a host. `None` if all numbers are in use.
    pub(crate) fn begin(&self, subsystem: Subsystem, host: Host) -> Option<Arc<Controller>> {
        let mut controllers = self.controllers.lock();
        if controllers.by_id.len() >= usize::from(ID_MAX) {
            return None;
        }
        // A number is used again as late as possible, so that a late queue does not find the
        // controller of another host.
        let mut id = controllers.last;
        loop {
            id = if id == ID_MAX { 1 } else { id + 1 };
            if !controllers.by_id.contains_key(&id) {
                break;
            }
        }
        controllers.last = id;
        let controller = Arc::new(Controller::new(id, subsystem, host));
        controllers.by_id.insert(id, Arc::clone(&controller));
        Some(controller)
    }

    /// Returns the controller with this number.
    pub(crate) fn controller(&self, id: u16) -> Option<Arc<Controller>> {
        self.controllers.lock().by_id.get(&id).map(Arc::clone)
    }

    /// Forgets a controller that has ended.
    pub(crate) fn forget(&self, id: u16) {
        self.controllers.lock().by_id.remove(&id);
    }

    /// Returns the numbers of the controllers of a subsystem, in order.
    pub(crate) fn controllers_of(&self, subsystem: &str) -> Vec<u16> {
        let controllers = self.controllers.lock();
        let all = controllers.by_id.values();
        let of_it = all.filter(|controller| controller.subsystem().nqn == subsystem);
        of_it.map(|controller| controller.id()).collect()
    }

    /// Returns how often the list of exports has changed, now that it is this one.
    pub(crate) fn generation(&self, exports: &[Export]) -> u64 {
        let mut seen = self.exports.lock();
        let names = || exports.iter().map(|export| &export.name);
        if seen.generation == 0 || !seen.names.iter().eq(names()) {
            seen.names = names().cloned().collect();
            seen.generation += 1;
        }
        seen.generation
    }

    /// Returns the number of controllers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.controllers.lock().by_id.len()
    }

    /// Returns whether there are no controllers.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn export(name: &str) -> Export {
        everglade_target::model::Model::with_lun(name, 4096)
            .exports()
            .remove(0)
    }

    use everglade_target::Target as _;

    #[test]
    fn numbers_are_used_again_as_late_as_possible() {
        let registry = Registry::new();
        let begin = || {
            let begun = registry.begin(Subsystem::discovery(), Host::default());
            begun.expect("a number is free").id()
        };
        assert_eq!([begin(), begin()], [1, 2]);
        registry.forget(1);
        assert_eq!(begin(), 3);
        registry.controllers.lock().last = ID_MAX;
        assert_eq!(begin(), 1, "the one that is free");
        assert_eq!(begin(), 4);
    }

    #[test]
    fn the_generation_counts_changes_of_the_list() {
        let registry = Registry::new();
        let (one, two) = ([export("v/a")], [export("v/a"), export("v/b")]);
        assert_eq!(registry.generation(&one), 1);
        assert_eq!(registry.generation(&one), 1);
        assert_eq!(registry.generation(&two), 2);
        assert_eq!(registry.generation(&one), 3);
    }
}
