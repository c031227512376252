//! The data plane: one thread per core that runs the engine and the sessions of clients.
//!
//! | file | what |
//! | --- | --- |
//! | [`turn`] | one reactor's loop: the engine, the sessions, one place to wait for both |
//! | [`control`] | what other threads ask of reactors, and what reactors share |
//! | [`gate`] | where clients come in, and when nobody more does |
//! | [`processors`] | the processor that each reactor keeps to |
//! | [`comparison`] | operations of administrators among those of clients |

mod comparison;
mod connection;
pub(crate) mod control;
mod door;
mod encryption;
mod gate;
pub(crate) mod processors;
pub(crate) mod turn;

pub(crate) use door::Door;
