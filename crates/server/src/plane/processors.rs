//! Pinning reactors to processors (decision 0025).
//!
//! If there is a reactor for each processor of this process, a reactor that the kernel moves shares
//! a processor with another one. The kernel does this: it runs a woken thread near the thread that
//! woke it, and does not search for an idle processor when processors are busy for more than half
//! of the time. Then two reactors, or a reactor and its client, take turns on one processor while
//! another processor is idle. So each reactor is pinned to its own processor. With fewer reactors
//! than processors, reactors are not pinned, because there is room to move. They are not pinned
//! either if there are more reactors than processors, or if the process has a limit of CPU time.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::config::Pinning;

/// Returns a processor for each of `reactors`, in order, or none if the system is to choose.
pub(crate) fn own(pinning: Pinning, reactors: usize) -> Vec<usize> {
    let usable = sched_getaffinity(None).map_or_else(|_| Vec::new(), |set| members(&set));
    // Less than the processors that may be used where a control group limits the time.
    let worth = std::thread::available_parallelism().map_or(1, usize::from);
    choose(pinning, reactors, usable, worth)
}

/// Returns `usable` if it has one processor for each of `reactors`, with all of its time.
fn choose(pinning: Pinning, reactors: usize, usable: Vec<usize>, worth: usize) -> Vec<usize> {
    let is_one_each = usable.len() == reactors && worth == reactors;
    match pinning {
        Pinning::Auto if is_one_each => usable,
        Pinning::Auto | Pinning::Off => Vec::new(),
    }
}

fn members(set: &CpuSet) -> Vec<usize> {
    (0..CpuSet::MAX_CPU)
        .filter(|cpu| set.is_set(*cpu))
        .collect()
}

/// Pins the calling thread to `processor`. If the host refuses, only speed suffers.
pub(crate) fn keep_to(processor: usize) {
    let mut set = CpuSet::new();
    set.set(processor);
    if let Err(error) = sched_setaffinity(None, &set) {
        tracing::debug!("a reactor cannot keep to processor {processor}: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_each_or_none_at_all() {
        let auto = |reactors, usable: &[usize], worth| {
            choose(Pinning::Auto, reactors, usable.to_vec(), worth)
        };
        assert_eq!(auto(2, &[0, 1], 2), [0, 1]);
        assert_eq!(auto(2, &[3, 7], 2), [3, 7], "those that were given");
        assert!(auto(2, &[0, 1, 2], 3).is_empty(), "room to move to");
        assert!(auto(3, &[0, 1], 2).is_empty(), "too few");
        assert!(auto(2, &[0, 1], 1).is_empty(), "half of the time of each");
        assert!(auto(2, &[], 2).is_empty(), "nobody said which");
        assert!(choose(Pinning::Off, 2, vec![0, 1], 2).is_empty());
    }

    #[test]
    fn who_keeps_to_a_processor_stays_there_and_nobody_else() {
        let all = members(&sched_getaffinity(None).expect("everybody may ask"));
        let last = *all.last().expect("one at least");
        let kept = std::thread::spawn(move || {
            keep_to(last);
            members(&sched_getaffinity(None).expect("everybody may ask"))
        });
        assert_eq!(kept.join().expect("it ends"), [last]);
        let others = members(&sched_getaffinity(None).expect("everybody may ask"));
        assert_eq!(others, all);
    }
}
