//! Operating a running daemon (issue 4): what it shows, what it remembers, what it counts, who may
//! ask it.

mod afar;
mod completing;
mod configuration;
mod descriptors;
pub(crate) mod http;
mod listing;
pub(crate) mod metrics;
mod modes;
mod outcomes;
mod patterns;
mod processors;
mod remembering;
pub(crate) mod remote;
mod scripting;
mod service;
mod serving;
mod silent;
mod starting;
mod tags;
