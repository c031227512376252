//! The built binary as a real process: usage, exit codes, and real clients against a real server.

mod clients;
mod console;
mod crashes;
mod damage;
mod full_host;
mod guest;
mod host_space;
mod manage;
mod newcomer;
mod operate;
mod power;
mod refusals;
mod running;
mod sessions;
mod snapshots;
mod thrift;
mod tools;
mod usage;
mod verifying;
mod waiting;
mod wire;
mod wire_iscsi;
