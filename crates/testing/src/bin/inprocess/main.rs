//! `inprocess`: the engine on real devices and real threads, with the load inside of the reactors,
//! so that no client takes processors from the server. For `cargo xtask bench paper s001`.
//!
//! ```text
//! thread 0: [Core + writers] ─┐
//!     …                       ├─ one aggregate on one directory ─▶ a table of `name value` lines
//! thread n: [Core + writers] ─┘
//! ```
//!
//! Each reactor keeps `--depth` writes under way on one LUN that all reactors share. The sequential
//! load writes the LUN once, and its time includes the consistency point that makes it durable. The
//! random load runs for `--seconds`, and its rate is measured after a warm-up.

mod arguments;
mod load;
mod rig;

use std::process::ExitCode;

use arguments::Arguments;

fn main() -> ExitCode {
    let arguments = match Arguments::read(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(reason) => {
            eprintln!("{reason}\n{}", arguments::USAGE);
            return ExitCode::from(2);
        }
    };
    match rig::run(&arguments) {
        Ok(report) => {
            print!("{report}");
            ExitCode::SUCCESS
        }
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}
