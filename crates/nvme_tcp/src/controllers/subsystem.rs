//! Subsystems: which LUNs are namespaces of which name.
//!
//! Today each LUN is a subsystem with one namespace, number 1, and a host sees those that its
//! caller may see. Nothing else here or in sessions depends on that.

use everglade_target::{Export, Target};

use crate::wire::nqn;

/// A subsystem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subsystem {
    pub(crate) nqn: String,
    /// Empty for the discovery service.
    pub(crate) namespaces: Vec<Namespace>,
}

/// A namespace of a subsystem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Namespace {
    /// At least 1; namespaces are sorted by it.
    pub(crate) id: u32,
    /// Name of the LUN.
    pub(crate) export: String,
}

impl Subsystem {
    /// The discovery service.
    pub(crate) fn discovery() -> Subsystem {
        Subsystem {
            nqn: nqn::DISCOVERY.to_owned(),
            namespaces: Vec::new(),
        }
    }

    /// Finds the subsystem of this name in what the target shows.
    pub(crate) fn find(nqn: &str, target: &dyn Target) -> Option<Subsystem> {
        if nqn == nqn::DISCOVERY {
            return Some(Subsystem::discovery());
        }
        let lun = nqn::lun_of(nqn)?;
        let exports = target.exports();
        let export = exports.into_iter().find(|export| export.name == lun)?;
        // A LUN of this name on another server has another subsystem.
        Subsystem::of(&export).filter(|subsystem| subsystem.nqn == nqn)
    }

    /// Returns the subsystem of an export; `None` if its name is too long for one.
    pub(crate) fn of(export: &Export) -> Option<Subsystem> {
        let namespace = Namespace {
            id: 1,
            export: export.name.clone(),
        };
        Some(Subsystem {
            nqn: nqn::of_lun(&export.name, &export.uuid)?,
            namespaces: vec![namespace],
        })
    }

    pub(crate) fn is_discovery(&self) -> bool {
        self.nqn == nqn::DISCOVERY
    }

    /// Returns the highest number of a namespace.
    pub(crate) fn namespaces_max(&self) -> u32 {
        self.namespaces.last().map_or(0, |last| last.id)
    }
}
