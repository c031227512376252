//! The pool: the state of aggregates, volumes, LUNs and snapshots that all reactors share.
//!
//! [`aggregate`] and [`volume`] are the objects that clients' operations find; [`overlay`] and
//! [`fragment`] hold the writes since the last consistency point. The consistency point's own state
//! is not here: it belongs to the aggregate's home reactor ([`crate::home`]).

pub(crate) mod aggregate;
pub(crate) mod bases;
pub(crate) mod cpu;
pub(crate) mod fragment;
pub(crate) mod garden;
pub(crate) mod image;
pub(crate) mod info;
pub(crate) mod limit;
pub(crate) mod log;
pub(crate) mod lost;
pub(crate) mod mended;
pub(crate) mod name;
pub(crate) mod overlay;
pub(crate) mod present;
pub(crate) mod refused;
pub(crate) mod removal;
pub(crate) mod scattered;
pub(crate) mod scrub;
pub(crate) mod segments;
pub(crate) mod shares;
pub(crate) mod space;
pub(crate) mod space_map;
pub(crate) mod standing;
pub(crate) mod trash;
pub(crate) mod trashed_snapshot;
pub(crate) mod trigger;
pub(crate) mod volume;
pub(crate) mod volume_info;
