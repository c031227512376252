//! Controllers: what the connections of one host share.
//!
//! A host connects to a *subsystem* and gets a *controller* of its own. Each queue of a controller
//! is one connection: first the admin queue, then queues for input and output, perhaps on several
//! reactors.
//!
//! ```text
//! Connect, queue 0 --> disabled --CC.EN--> ready <---> disabled --+
//!                         |                  |                    |  the admin connection ends,
//!                         +------------------+--------------------+  keep-alive runs out, a
//!                                            v                       namespace is gone
//!                                          ended: no command is carried out any more
//! ```
//!
//! The admin queue's session owns the controller: features, events and properties are its own. What
//! other sessions need is in a `Controller`: atomics that they read with each command, and a lock
//! for what happens when queues come and go. Nothing waits under a lock, and no session holds two.
//!
//! The [`Registry`] finds a controller by its number. All reactors share it.
//!
//! | file | what |
//! | --- | --- |
//! | `registry` | all controllers |
//! | `controller` | what the queues of one share |
//! | `subsystem` | which LUNs are namespaces of which subsystem |
//! | `events` | what a host wants to hear of, and has heard |
//! | `features` | settings of a controller |

pub(crate) mod controller;
pub(crate) mod events;
pub(crate) mod features;
mod registry;
pub(crate) mod subsystem;

pub use registry::Registry;
