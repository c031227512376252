//! Writers inside of one reactor: the next write begins as soon as one has ended.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

use everglade_engine::admin::Change;
use everglade_engine::{Core, Subsystem};
use everglade_env::lock::Mutex;
use everglade_env::reactor::Real;
use everglade_env::{BLOCK_SIZE, Outside};
use everglade_target::{Completion, LunHandle, Op, Target, WriteSpan};
use everglade_testing::rng::Rng;

use crate::arguments::Job;
use crate::rig::LUN;

const BLOCK: u64 = BLOCK_SIZE as u64;
const SEQUENTIAL_BYTES: u32 = 128 << 10;

/// What the first reactor is asked to do. The answer says why it failed.
pub(crate) struct Asked {
    /// Nothing: a consistency point.
    pub(crate) change: Option<Change>,
    pub(crate) answer: Sender<Result<(), String>>,
}

/// What the threads share.
#[derive(Default)]
pub(crate) struct Control {
    pub(crate) asked: Mutex<VecDeque<Asked>>,
    /// Writers may begin writes, in this order.
    pub(crate) job: Mutex<Option<Job>>,
    /// Sequential writers stop at the end of their part.
    pub(crate) is_once: AtomicBool,
    /// Threads end.
    pub(crate) is_over: AtomicBool,
    /// Writes that have begun and ended.
    pub(crate) begun: AtomicU64,
    pub(crate) ended: AtomicU64,
    /// Threads that have no more to write.
    pub(crate) at_end: AtomicU64,
    pub(crate) has_failed: AtomicBool,
}

/// One reactor with its writers.
pub(crate) struct Writers {
    pub(crate) core: Core<Real>,
    pub(crate) control: Arc<Control>,
    pub(crate) depth: usize,
    pub(crate) lun_bytes: u64,
    /// The part of the LUN that sequential writers write, in bytes.
    pub(crate) range: Range<u64>,
    pub(crate) random: Rng,
    pub(crate) is_first: bool,
}

impl Writers {
    /// Runs until it is told to end.
    pub(crate) fn run(mut self) {
        let mut ready = Vec::new();
        let mut done: Vec<Completion> = Vec::new();
        let mut answers = VecDeque::new();
        let mut lun = None;
        let mut under_way = 0;
        let mut next = self.range.start;
        loop {
            self.core.turn();
            self.core.poll(&mut done);
            under_way -= done.len();
            let ended = done.len() as u64;
            self.control.ended.fetch_add(ended, Ordering::AcqRel);
            if done.drain(..).any(|it| it.result.is_err()) {
                self.control.has_failed.store(true, Ordering::Release);
            }
            if self.control.is_over.load(Ordering::Acquire) {
                return;
            }
            if self.is_first {
                self.answer(&mut answers);
            }
            let mut has_begun = false;
            let job = *self.control.job.lock();
            match job {
                Some(job) => {
                    self.core.enter(Subsystem::Protocol);
                    let open = || self.core.open(LUN).expect("it was made").0;
                    let lun = *lun.get_or_insert_with(open);
                    while under_way < self.depth && self.begin(job, lun, &mut next) {
                        under_way += 1;
                        has_begun = true;
                    }
                    self.core.enter(Subsystem::Device);
                }
                None => next = self.range.start,
            }
            let now = self.core.outside().now();
            let timeout = match self.core.deadline() {
                // Most writes end where they begin.
                _ if has_begun || self.core.is_busy() => Some(Duration::ZERO),
                at => at.map(|at| Duration::from_nanos(at.saturating_sub(now))),
            };
            self.core.rest();
            ready.clear();
            self.core.outside().wait(timeout, &mut ready);
        }
    }

    /// Passes on what the first reactor is asked, and the answers.
    fn answer(&mut self, answers: &mut VecDeque<Sender<Result<(), String>>>) {
        // One at a time: answers have no other order.
        if answers.is_empty()
            && let Some(asked) = self.control.asked.lock().pop_front()
        {
            answers.push_back(asked.answer);
            match asked.change {
                Some(change) => self.core.change(0, change, 0),
                None => self.core.consistency_point(0, 0),
            }
        }
        let mut done = Vec::new();
        self.core.poll_admin(&mut done);
        for one in done {
            let answer = answers.pop_front().expect("one was asked");
            drop(answer.send(one.result.map_err(|error| error.to_string())));
        }
    }

    /// Begins a write. False at the end of a part that is written once.
    fn begin(&mut self, job: Job, lun: LunHandle, next: &mut u64) -> bool {
        let (offset, length) = match job {
            Job::Random => (self.random.below(self.lun_bytes / BLOCK) * BLOCK, 4096),
            Job::Sequential if *next >= self.range.end => {
                if self.control.is_once.load(Ordering::Acquire) {
                    if *next != u64::MAX {
                        *next = u64::MAX;
                        self.control.at_end.fetch_add(1, Ordering::AcqRel);
                    }
                    return false;
                }
                *next = self.range.start;
                return self.begin(job, lun, next);
            }
            Job::Sequential => {
                let offset = *next;
                *next += u64::from(SEQUENTIAL_BYTES);
                (offset, SEQUENTIAL_BYTES)
            }
        };
        let mut data = WriteSpan::to_receive(offset, length);
        for page in &mut data.pages {
            // As from a socket: all bytes arrive, and no two blocks are the same.
            page.fill(0x5a);
            page[..8].copy_from_slice(&self.random.draw().to_le_bytes());
        }
        let op = Op::Write {
            data,
            durable: false,
        };
        self.control.begun.fetch_add(1, Ordering::AcqRel);
        self.core.submit(lun, op, offset);
        true
    }
}
