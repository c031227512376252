//! How fast parity is computed, beside a copy of the same data: `cargo xtask bench parity`.
//!
//! In each round, one core copies the data of all stripes, and then computes row parity, row and
//! diagonal parity, and all three parities of them. The rate is bytes of data for each second; a
//! ratio compares the two rates of one round. *In memory* the data is larger than all caches; *in
//! cache* it is one stripe.

use std::fmt::Write as _;
use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use everglade_raid::code::BLOCK_BYTES;
use everglade_raid::{Block, Code};

/// Data columns of a stripe.
const DATA: usize = 8;
/// Stripes whose data is 256 MiB.
const IN_MEMORY: usize = (256 << 20) / (DATA * BLOCK_BYTES);
const ROUNDS: usize = 9;
/// Least time of a measurement.
const TURN: Duration = Duration::from_millis(200);
/// Name, parity columns, and the least part of a copy's rate that issue 25 asks for.
const KERNELS: [(&str, usize, f64); 3] = [
    ("row", 1, 0.9),
    ("row and diagonal", 2, 0.4),
    ("row, diagonal and antidiagonal", 3, 0.25),
];

/// Data of stripes, and room for one copy of it and for parity.
struct Stripes {
    data: Vec<Block>,
    copy: Vec<Block>,
    parity: [Block; 3],
}

impl Stripes {
    fn new(stripes: usize) -> Stripes {
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let mut block = || {
            let mut block = [0; BLOCK_BYTES];
            for byte in &mut block {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                *byte = state.to_le_bytes()[0];
            }
            block
        };
        let data: Vec<Block> = (0..stripes * DATA).map(|_| block()).collect();
        Stripes {
            copy: data.clone(),
            data,
            parity: [[0; BLOCK_BYTES]; 3],
        }
    }

    fn copy(&mut self) {
        for (from, to) in self.data.iter().zip(&mut self.copy) {
            to.copy_from_slice(black_box(from));
        }
        black_box(&mut self.copy);
    }

    fn encode(&mut self, code: Code) {
        for stripe in self.data.chunks_exact(DATA) {
            let data: [&Block; DATA] = std::array::from_fn(|column| &stripe[column]);
            let mut parity = self.parity.each_mut();
            code.encode(black_box(&data), &mut parity[..code.parity()]);
            black_box(&mut self.parity);
        }
    }

    /// Bytes of data for each second, in GB.
    fn rate(&mut self, mut work: impl FnMut(&mut Stripes)) -> f64 {
        let begin = Instant::now();
        let mut times = 0;
        while begin.elapsed() < TURN {
            work(self);
            times += 1;
        }
        let bytes = times * self.data.len() * BLOCK_BYTES;
        bytes as f64 / begin.elapsed().as_secs_f64() / 1e9
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Rows of the table, for data of this many stripes.
fn rows(place: &str, stripes: usize, out: &mut String) {
    let mut stripes = Stripes::new(stripes);
    let mut copies = Vec::new();
    let mut rates = vec![Vec::new(); KERNELS.len()];
    let mut ratios = vec![Vec::new(); KERNELS.len()];
    for _ in 0..ROUNDS {
        let copy = stripes.rate(Stripes::copy);
        copies.push(copy);
        for (at, (_, parity, _)) in KERNELS.into_iter().enumerate() {
            let code = Code::new(DATA, parity).expect("in range");
            let rate = stripes.rate(|it| it.encode(code));
            rates[at].push(rate);
            ratios[at].push(rate / copy);
        }
    }
    let copy = median(&mut copies);
    let line = writeln!(out, "| {place}: copy | {copy:.1} | | |");
    line.expect("memory");
    for (at, (name, _, goal)) in KERNELS.into_iter().enumerate() {
        let (rate, ratio) = (median(&mut rates[at]), median(&mut ratios[at]));
        let (least, most) = (ratios[at][0], ratios[at][ROUNDS - 1]);
        let line = writeln!(
            out,
            "| {place}: {name} | {rate:.1} | {ratio:.2} ({least:.2}–{most:.2}) | {goal} |"
        );
        line.expect("memory");
    }
}

fn main() -> ExitCode {
    let mut table =
        String::from("| | GB/s of data | part of a copy | goal |\n| --- | --- | --- | --- |\n");
    rows("in memory", IN_MEMORY, &mut table);
    rows("in cache", 1, &mut table);
    let page = format!(
        "# Parity\n\n<!-- Written by `cargo xtask bench parity --write docs/benchmarks/parity.md`. \
        -->\n\n\
         One core computes parity of stripes of {DATA} data blocks of 4 KiB, and copies the same \
         data \
         for\ncomparison. {ROUNDS} rounds; medians, with the range of the ratios.\n\n{table}"
    );
    print!("{page}");
    let words: Vec<String> = std::env::args().collect();
    let target = words.iter().position(|word| word == "--write");
    let Some(target) = target.and_then(|at| words.get(at + 1)) else {
        return ExitCode::SUCCESS;
    };
    match std::fs::write(target, page) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{target}: {error}");
            ExitCode::FAILURE
        }
    }
}
