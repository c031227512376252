//! The pool: what all reactors share about aggregates, volumes, LUNs and snapshots.
//!
//! [`aggregate`] and [`volume`] are the objects that clients' operations find; [`overlay`] and
//! [`fragment`] hold what was written since the last consistency point. The consistency point's own
//! state is not here: it belongs to the aggregate's home reactor ([`crate::home`]).

pub(crate) mod aggregate;
pub(crate) mod bases;
pub(crate) mod fragment;
pub(crate) mod image;
pub(crate) mod info;
pub(crate) mod log;
pub(crate) mod look;
pub(crate) mod lost;
pub(crate) mod mended;
pub(crate) mod name;
pub(crate) mod overlay;
pub(crate) mod space;
pub(crate) mod standing;
pub(crate) mod trigger;
pub(crate) mod volume;
