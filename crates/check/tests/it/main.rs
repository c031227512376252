//! The verifier against images that are written here, byte by byte, without the engine.

#![allow(clippy::unwrap_used, reason = "tests")]

mod corrupter;
mod corruption;
mod damage;
mod description;
mod example;
mod garbage;
mod grown;
mod image;
mod journal;
mod lived;
mod memory;
mod mirror;
mod notes;
mod planned;
mod reading;
mod reopened;
mod snapped;
mod sound;
mod theorems;
