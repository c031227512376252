//! A host that forbids io_uring, as container runtimes do: a filter on one thread's system calls.
#![expect(unsafe_code, reason = "installs a system call filter")]

use everglade_env::{Geometry, IoMode, IoReport, Storage, World, WorldError, WorldOptions};

use crate::rig::{one_reactor, pattern};

/// Makes `io_uring_setup` fail with EPERM from now on, on this thread and those that it starts.
fn forbid_uring() {
    const LOAD_NUMBER: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
    const JUMP_IF_EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
    const RETURN: u16 = 0x06; // BPF_RET | BPF_K
    let number = u32::try_from(libc::SYS_io_uring_setup).unwrap();
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut steps = [
        step(LOAD_NUMBER, 0, 0, 0),
        step(JUMP_IF_EQUAL, 0, 1, number),
        step(
            RETURN,
            0,
            0,
            libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned(),
        ),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog {
        len: 4,
        filter: steps.as_mut_ptr(),
    };
    // SAFETY: both calls only read their arguments, which live until after them.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::SECCOMP_MODE_FILTER;
        assert_eq!(
            libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const filter),
            0
        );
    }
}

#[test]
fn without_io_uring_threads_do_it_and_the_reason_is_reported() {
    let run = || {
        forbid_uring();
        let demanded = World::new(&WorldOptions {
            io: IoMode::Uring,
            ..one_reactor()
        });
        assert!(matches!(demanded, Err(WorldError::Uring(_))));
        let world = World::new(&one_reactor()).unwrap();
        let IoReport::Threads { because: Some(why) } = world.io() else {
            panic!("{}", world.io());
        };
        assert!(why.contains("not permitted"), "{why}");
        let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let geometry = Geometry {
            size_bytes: 1 << 20,
            segment_bytes: 1 << 20,
        };
        let device = world
            .create_directory(&scratch.path().join("device"), geometry)
            .unwrap();
        world.write(device, 0, &pattern(1, 4096)).unwrap();
        let mut real = world.reactor(0).unwrap();
        use everglade_env::{Op, Outside, Page};
        real.submit(
            Op::Read {
                device,
                offset: 0,
                pages: vec![Page::for_read()],
            },
            1,
        );
        let mut done = Vec::new();
        while done.is_empty() {
            real.wait(None, &mut Vec::new());
            real.poll(&mut done);
        }
        assert_eq!(done[0].pages[0][..], pattern(1, 4096));
    };
    std::thread::spawn(run).join().unwrap();
}
