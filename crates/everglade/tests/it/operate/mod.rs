//! Operating a running daemon (issue 4): what it shows, what it remembers, what it counts, who may ask it.

mod configuration;
mod http;
mod listing;
mod metrics;
mod remembering;
mod remote;
mod service;
mod serving;
mod tags;
