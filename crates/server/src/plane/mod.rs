//! The data plane: one thread per core that runs the engine and the sessions of clients.
//!
//! | file | what |
//! | --- | --- |
//! | [`turn`] | one reactor's loop: the engine, the clients, one place to wait for both |
//! | [`clients`] | the connections of a reactor, and the fronts that speak with them |
//! | [`gate`] | where clients come in, and when nobody more does |
//! | [`placement`] | which reactor has a connection |
//! | [`control`] | what other threads ask of reactors, and what reactors share |
//! | [`processors`] | the processor that each reactor keeps to |
//! | [`comparison`] | operations of administrators among those of clients |
//!
//! It knows no protocol: sessions are behind [`crate::fronts::Front`].

mod clients;
mod comparison;
pub(crate) mod control;
mod gate;
mod placement;
pub(crate) mod processors;
pub(crate) mod turn;
