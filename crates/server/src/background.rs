//! Threads of the control plane: they answer administrators, keep snapshot schedules and watch the
//! daemon.
//!
//! They share the processors with the reactors, and clients wait for the reactors. A burst of
//! changes would delay requests of clients by some hundred microseconds, for instance when sixteen
//! deletions are answered at a commit and the next sixteen arrive at once. So these threads, and
//! the threads that they start, have a third of a reactor's scheduling weight. The weight has no
//! effect while processors are idle.

use std::io;
use std::thread::JoinHandle;

/// Steps of `nice(2)` behind the reactors.
const BEHIND: i32 = 5;
/// The last step there is.
const NICE_MAX: i32 = 19;

/// Starts a thread that goes behind the data path.
///
/// # Errors
/// The system gives no thread.
pub(crate) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread.spawn(|| {
        step_back();
        run();
    })
}

/// Lowers the priority of the calling thread. If the host refuses, only latency suffers.
fn step_back() {
    // On Linux, the id 0 means the calling thread, not its process.
    if let Ok(nice) = rustix::process::getpriority_process(None) {
        let _ = rustix::process::setpriority_process(None, (nice + BEHIND).min(NICE_MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nice() -> i32 {
        rustix::process::getpriority_process(None).expect("everybody may ask")
    }

    #[test]
    fn a_thread_in_the_background_and_those_that_it_starts_are_behind_the_others() {
        let before = nice();
        let (tell, told) = std::sync::mpsc::channel();
        let run = move || {
            let child = std::thread::spawn(nice).join();
            tell.send((nice(), child.expect("it ends"))).expect("told");
        };
        spawn("behind", run)
            .expect("a thread")
            .join()
            .expect("it ends");
        let behind = (before + BEHIND).min(NICE_MAX);
        assert_eq!(told.recv(), Ok((behind, behind)));
        assert_eq!(nice(), before, "nobody else");
    }
}
