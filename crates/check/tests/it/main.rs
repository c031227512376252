//! The verifier against images that are written here, byte by byte, without the engine.

mod damage;
mod description;
mod garbage;
mod image;
mod memory;
mod planned;
mod sound;
