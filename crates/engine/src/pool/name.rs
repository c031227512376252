//! A name that people may change: of an aggregate, a volume or a LUN.
//!
//! Clients need an object's name only to open the object. So a name is a key only in the maps that
//! look-ups use. These maps change together with the name, in the freeze or when a consistency
//! point is published.

use everglade_env::lock::Mutex;
use std::fmt;
use std::sync::Arc;

/// See the module's documentation. The lock is a leaf: it is held for a copy of the pointer only.
pub(crate) struct Name(Mutex<Arc<str>>);

impl Name {
    pub(crate) fn new(name: &str) -> Name {
        Name(Mutex::new(name.into()))
    }

    pub(crate) fn get(&self) -> Arc<str> {
        self.0.lock().clone()
    }

    /// Sets the name. In the Aggregate affinity only.
    pub(crate) fn set(&self, name: &str) {
        *self.0.lock() = name.into();
    }

    pub(crate) fn is(&self, name: &str) -> bool {
        *self.get() == *name
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.get())
    }
}
