//! `hotpath PATH COUNT`: one hot path of the server, again and again, for
//! `cargo xtask bench instructions` to count the instructions of under callgrind. What noise of a
//! shared machine cannot change.
//!
//! A request goes in as bytes of NBD and its reply comes out as bytes; the engine under it is the
//! real one, on one reactor; only the kernel is left out: sockets are byte queues and the device is
//! memory ([`ram`]). Everything before [`measured`] is set-up; callgrind counts inside that
//! function only.

mod client;
mod path;
mod ram;
mod rig;

use std::process::ExitCode;

use path::Path;
use rig::Rig;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let parsed = match &words[..] {
        [path, count] => Path::named(path).zip(count.parse().ok()),
        _ => None,
    };
    let Some((path, count)) = parsed else {
        let names: Vec<&str> = Path::ALL.iter().map(|path| path.name()).collect();
        eprintln!("usage: hotpath PATH COUNT; paths are {}", names.join(", "));
        return ExitCode::from(2);
    };
    let mut rig = Rig::new(path.memory_bytes());
    path.prepare(&mut rig, count);
    let operations = measured(&mut rig, path, count);
    println!("operations {operations}");
    ExitCode::SUCCESS
}

/// Runs the counted part. Callgrind finds the function by its name, so it must stay a function.
#[inline(never)]
fn measured(rig: &mut Rig, path: Path, count: u64) -> u64 {
    path.run(rig, count)
}
