//! Plain threads for calls that may block: opening and making files, reserving and punching, and
//! all I/O where io_uring is forbidden. A reactor never waits for them; they report to it through a
//! channel and wake it.
//!
//! The queue is unbounded on purpose: its entries belong to operations that reactors have accepted,
//! and the callers bound the number of these.

use std::thread::JoinHandle;

use crossbeam_channel::Sender;

type Task = Box<dyn FnOnce() + Send>;

/// A pool of threads. When it is dropped, it finishes its queue and ends.
pub(crate) struct Workers {
    tasks: Option<Sender<Task>>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// # Errors
    /// If the host gives no thread at all; fewer than wanted are enough.
    pub(crate) fn spawn(name: &str, count: usize) -> std::io::Result<Workers> {
        assert!(count > 0, "a pool has at least one thread");
        let (sender, receiver) = crossbeam_channel::unbounded::<Task>();
        let mut threads = Vec::with_capacity(count);
        for _ in 0..count {
            let receiver = receiver.clone();
            let work = move || receiver.iter().for_each(|task| task());
            match std::thread::Builder::new()
                .name(name.to_owned())
                .spawn(work)
            {
                Ok(thread) => threads.push(thread),
                Err(error) if threads.is_empty() => return Err(error),
                Err(_) => break,
            }
        }
        Ok(Workers {
            tasks: Some(sender),
            threads,
        })
    }

    pub(crate) fn run(&self, task: impl FnOnce() + Send + 'static) {
        let tasks = self
            .tasks
            .as_ref()
            .expect("the queue is open until the drop");
        assert!(
            tasks.send(Box::new(task)).is_ok(),
            "a worker thread has panicked"
        );
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.tasks = None;
        for thread in self.threads.drain(..) {
            // A panic was reported when it happened.
            let _ = thread.join();
        }
    }
}
