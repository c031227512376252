//! The time that the kernel lets a reactor's thread run before it considers other threads that are
//! ready.
//!
//! Linux' fair scheduler gives every thread turns of some milliseconds: about three on two
//! processors. If a client, the reactor of its session and the reactor that runs a consistency
//! point share two processors, one of the three sometimes waits for such a turn, and a request
//! waits with it. These waits were most of the latency tail. A thread that asks for shorter turns
//! gets the same time in total, but sooner (`sched_setattr(2)`; since Linux 6.12, before that it is
//! accepted and ignored).

/// The requested length. The kernel takes a tenth of a millisecond at least.
const SLICE_NANOS: u64 = 500_000;

/// Asks for short turns for the calling thread. If the kernel refuses, the reactor continues
/// without it: only latency is affected.
#[expect(unsafe_code, reason = "rustix does not wrap sched_setattr")]
pub(super) fn ask_for_short_turns() {
    let Ok(nice) = rustix::process::getpriority_process(None) else {
        return;
    };
    let attributes = libc::sched_attr {
        size: 48,
        sched_policy: 0,
        sched_flags: u64::from(libc::SCHED_FLAG_KEEP_POLICY.unsigned_abs()),
        sched_nice: nice,
        sched_priority: 0,
        sched_runtime: SLICE_NANOS,
        sched_deadline: 0,
        sched_period: 0,
    };
    let address = std::ptr::from_ref(&attributes);
    // SAFETY: thread 0 is the calling one; the kernel reads the 48 bytes that `size` says, and they
    // live until it returns.
    let _ = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, address, 0) };
}
