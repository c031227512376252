//! Commands: what they do to the LUN, what they answer, how they fail.

use everglade_iscsi::Settings;
use everglade_iscsi::wire::response::Residual;
use everglade_iscsi::wire::{Request, Response};
use everglade_target::Error;

use crate::held::Held;
use crate::initiator::{Answer, CHECK, CONFLICT, GOOD, Initiator, KEYS, ping};

fn lun(initiator: &Initiator, offset: u64, length: u32) -> Vec<u8> {
    initiator.target.model.bytes("vol0/lun0", offset, length)
}

#[test]
fn what_is_written_is_read_and_durable_if_asked() {
    let mut initiator = Initiator::standard(1 << 20);
    let bytes: Vec<u8> = (0..1536_u32)
        .map(|place| u8::try_from(place % 253).unwrap())
        .collect();
    assert_eq!(initiator.write(&Initiator::write_16(5, 3), &bytes).0, GOOD);
    assert_eq!(lun(&initiator, 5 * 512, 1536), bytes);
    assert_eq!(
        initiator.read(&Initiator::read_16(5, 3), 1536),
        (GOOD, bytes.clone())
    );
    let durable = Initiator::cdb_16(0x8a, 0x08, 5, 3);
    assert_eq!(initiator.write(&durable, &bytes).0, GOOD);
    assert_eq!(initiator.read(&[0x91], 0).0, GOOD);
    let log = &initiator.target.log;
    assert_eq!(
        log[..],
        [
            "write 2560+1536",
            "read 2560+1536",
            "write 2560+1536 durable",
            "flush"
        ]
    );
}

#[test]
fn every_error_of_the_target_has_its_sense() {
    let mut initiator = Initiator::standard(1 << 20);
    for (error, write, read) in [
        (Error::NoSpace, (7, 0x27, 7), (7, 0x27, 7)),
        (Error::ReadOnly, (7, 0x27, 0), (7, 0x27, 0)),
        (Error::Io("broken".to_owned()), (3, 0x0c, 0), (3, 0x11, 0)),
        (Error::Invalid("beyond"), (5, 0x21, 0), (5, 0x21, 0)),
    ] {
        initiator.target.errors = vec![error.clone()];
        let (status, data) = initiator.write(&Initiator::write_16(0, 1), &[1; 512]);
        assert_eq!(Initiator::codes(status, &data), write);
        initiator.target.errors = vec![error];
        let (status, data) = initiator.read(&Initiator::read_16(0, 1), 512);
        assert_eq!(Initiator::codes(status, &data), read);
    }
}

#[test]
fn a_lun_that_is_gone_ends_the_session() {
    let mut initiator = Initiator::standard(1 << 20);
    initiator.target.model.remove_lun("vol0/lun0");
    let (status, data) = initiator.read(&Initiator::read_16(0, 1), 512);
    assert_eq!(Initiator::codes(status, &data), (5, 0x25, 0));
    initiator.target.errors = vec![Error::Gone];
    initiator.wait(1);
    initiator.session.stop(&mut initiator.target);
    let last = initiator.send_bytes(&[]);
    assert!(matches!(last[0].response, Response::Async { event: 3, .. }));
    assert!(initiator.session.is_closed());
    assert_eq!(initiator.target.open, 0);
}

#[test]
fn ranges_and_protection_are_checked_before_anything_is_done() {
    let mut initiator = Initiator::standard(1 << 20);
    let (beyond, field) = ((5, 0x21, 0), (5, 0x24, 0));
    for (cdb, expected) in [
        (Initiator::read_16(2047, 2), beyond),
        (Initiator::read_16(u64::MAX, 2), beyond),
        (Initiator::read_16(2049, 0), beyond),
        (Initiator::read_16(0, 2049), field),
        (Initiator::cdb_16(0x88, 0x20, 0, 1), field),
        (vec![0xee], (5, 0x20, 0)),
        (vec![0x9e, 0x1f], field),
    ] {
        assert_eq!(initiator.sense(&cdb), expected, "{cdb:x?}");
    }
    initiator.target.model.set_read_only("vol0/lun0", true);
    assert_eq!(
        initiator.read(&Initiator::read_16(2048, 0), 0).0,
        GOOD,
        "no blocks"
    );
    assert_eq!(initiator.target.log, Vec::<String>::new());
}

#[test]
fn a_compare_and_write_writes_only_what_it_expects() {
    let mut initiator = Initiator::standard(1 << 20);
    let cdb = [0x89, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 1];
    let both = [[0; 512], [7; 512]].concat();
    assert_eq!(initiator.write(&cdb, &both).0, GOOD);
    assert_eq!(lun(&initiator, 4096, 512), [7; 512]);
    let (status, data) = initiator.write(&cdb, &both);
    assert_eq!(Initiator::codes(status, &data), (14, 0x1d, 0));
    assert_eq!(
        data[2..9],
        [0xf0, 0, 14, 0, 0, 0, 0],
        "the first byte differs"
    );
    let late = [[7; 512], [8; 512]].concat();
    let mut other = late.clone();
    other[300] = 0;
    let (_, data) = initiator.write(&cdb, &other);
    assert_eq!(data[5..9], 300_u32.to_be_bytes());
    assert_eq!(initiator.write(&cdb, &late).0, GOOD);
    let (status, data) = initiator.write(&cdb, &[0; 512]);
    assert_eq!(
        Initiator::codes(status, &data),
        (5, 0x24, 0),
        "half of the data"
    );
}

#[test]
fn an_orwrite_keeps_what_others_write_meanwhile() {
    let mut initiator = Initiator::standard(1 << 20);
    initiator.target.model.write("vol0/lun0", 0, &[1; 512]);
    initiator.target.flowing = false;
    let cdb = Initiator::cdb_16(0x8b, 0, 0, 1);
    let command = initiator.next_command(&cdb, 0, 512);
    initiator.send(&Request::Command(command), false, &[4; 512]);
    // It has read; now somebody else writes.
    initiator.target.model.write("vol0/lun0", 0, &[2; 512]);
    initiator.target.flowing = true;
    let answers = initiator.send_bytes(&[]);
    assert_eq!(Initiator::outcome(&answers).0, GOOD);
    assert_eq!(lun(&initiator, 0, 512), [6; 512]);
    let expected = [
        "read 0+512",
        "compare and write 0+512",
        "read 0+512",
        "compare and write 0+512",
    ];
    assert_eq!(initiator.target.log, expected);
}

#[test]
fn verification_compares_every_byte() {
    let mut initiator = Initiator::standard(4 << 20);
    let bytes: Vec<u8> = (0..600 * 1024_u32)
        .map(|place| u8::try_from(place / 7 % 251).unwrap())
        .collect();
    let write = [0x8e, 2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 4, 0xb0];
    assert_eq!(initiator.write(&write, &bytes).0, GOOD);
    assert!(
        initiator
            .target
            .log
            .iter()
            .all(|op| !op.starts_with("write") || op.ends_with("durable"))
    );
    let verify = Initiator::cdb_16(0x8f, 2, 1, 1200);
    assert_eq!(initiator.write(&verify, &bytes).0, GOOD);
    let mut wrong = bytes.clone();
    wrong[500_000] ^= 0x80;
    let (status, data) = initiator.write(&verify, &wrong);
    assert_eq!(Initiator::codes(status, &data), (14, 0x1d, 0));
    assert_eq!(data[5..9], 500_000_u32.to_be_bytes());
    assert_eq!(
        initiator.read(&Initiator::cdb_16(0x8f, 0, 1, 1200), 0).0,
        GOOD
    );
}

#[test]
fn the_same_block_again_and_again_and_zeroes_that_take_no_space() {
    let mut initiator = Initiator::standard(8 << 20);
    let pattern: Vec<u8> = (0..512_u32)
        .map(|place| u8::try_from(place % 255).unwrap())
        .collect();
    assert_eq!(
        initiator
            .write(&Initiator::cdb_16(0x93, 0, 3, 5000), &pattern)
            .0,
        GOOD
    );
    assert_eq!(lun(&initiator, 3 * 512, 512), pattern);
    assert_eq!(lun(&initiator, 5002 * 512, 512), pattern);
    assert_eq!(lun(&initiator, 5003 * 512, 512), [0; 512]);
    let to_the_end = Initiator::cdb_16(0x93, 8, 0, 0);
    assert_eq!(initiator.write(&to_the_end, &[0; 512]).0, GOOD);
    assert_eq!(initiator.target.model.blocks_in_use("vol0/lun0"), 0);
    let no_data = Initiator::cdb_16(0x93, 9, 0, 100);
    assert_eq!(initiator.read(&no_data, 0).0, GOOD);
}

#[test]
fn unmapped_blocks_read_as_zeroes_to_the_byte() {
    let mut initiator = Initiator::standard(1 << 20);
    initiator.target.model.write("vol0/lun0", 0, &[9; 65536]);
    let mut list = vec![0, 38, 0, 32, 0, 0, 0, 0];
    for (lba, blocks) in [(1_u64, 3_u32), (16, 16)] {
        list.extend(lba.to_be_bytes());
        list.extend(blocks.to_be_bytes());
        list.extend([0; 4]);
    }
    let cdb = [0x42, 0, 0, 0, 0, 0, 0, 0, 40];
    assert_eq!(initiator.write(&cdb, &list).0, GOOD);
    let bytes = lun(&initiator, 0, 65536);
    for block in 0..128 {
        let is_zero = (1..4).contains(&block) || (16..32).contains(&block);
        let expected = if is_zero { 0 } else { 9 };
        assert!(
            bytes[block * 512..][..512]
                .iter()
                .all(|byte| *byte == expected)
        );
    }
    let (status, answer) = initiator.read(&Initiator::cdb_16(0x9e, 0x12, 8, 64 << 8), 1024);
    assert_eq!(status, GOOD);
    assert_eq!(
        answer[8..24],
        [0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 8, 0, 0, 0, 0],
        "mapped"
    );
    assert_eq!(
        (answer[31], answer[35], answer[36]),
        (16, 16, 1),
        "not mapped"
    );
}

#[test]
fn a_host_without_reservation_is_kept_out() {
    let node = std::sync::Arc::default();
    let settings = || Settings {
        node: std::sync::Arc::clone(&node),
        ..Settings::default()
    };
    let mut holder = Initiator::logged_in(Held::with_lun(1 << 20), settings(), KEYS);
    let mut other = Initiator::new(Held::with_lun(1 << 20), settings());
    let name = everglade_iscsi::names::target_name("vol0/lun0").unwrap();
    let text =
        crate::initiator::text(&[("InitiatorName", "iqn.test:other"), ("TargetName", &name)]);
    other.send(
        &Request::Login(crate::initiator::login(1, 3, true)),
        true,
        &text,
    );
    other.sense(&[0; 6]);
    let parameters = |key: u8, new: u8| {
        let mut bytes = [0; 24];
        (bytes[7], bytes[15]) = (key, new);
        bytes
    };
    let out = |action: u8, kind: u8| [0x5f, action, kind, 0, 0, 0, 0, 0, 24];
    assert_eq!(holder.write(&out(0, 0), &parameters(0, 1)).0, GOOD);
    assert_eq!(holder.write(&out(1, 1), &parameters(1, 0)).0, GOOD);
    assert_eq!(
        other.write(&Initiator::write_16(0, 1), &[1; 512]).0,
        CONFLICT
    );
    assert_eq!(
        other.read(&Initiator::read_16(0, 1), 512).0,
        GOOD,
        "all may read"
    );
    assert_eq!(other.write(&out(1, 1), &parameters(0, 0)).0, CONFLICT);
    assert_eq!(holder.write(&Initiator::write_16(0, 1), &[1; 512]).0, GOOD);
    // The other takes the reservation away, and the holder is told.
    assert_eq!(other.write(&out(6, 0), &parameters(0, 2)).0, GOOD);
    assert_eq!(other.write(&out(4, 1), &parameters(2, 1)).0, GOOD);
    assert_eq!(holder.sense(&[0; 6]), (6, 0x2a, 5));
    assert_eq!(
        holder.write(&Initiator::write_16(0, 1), &[1; 512]).0,
        CONFLICT
    );
    assert_eq!(other.write(&Initiator::write_16(0, 1), &[1; 512]).0, GOOD);
}

#[test]
fn hosts_are_told_of_a_new_size_and_of_a_reset() {
    let mut initiator = Initiator::standard(1 << 20);
    initiator.target.model.resize("vol0/lun0", 2 << 20);
    assert_eq!(initiator.sense(&[0; 6]), (6, 0x2a, 9));
    let (_, capacity) = initiator.read(&[0x25], 8);
    assert_eq!(capacity[..4], 4095_u32.to_be_bytes());
    // REQUEST SENSE tells, too, and INQUIRY does not wait for it.
    initiator.target.model.resize("vol0/lun0", 1 << 20);
    assert_eq!(initiator.read(&[0x12, 0, 0, 0, 96], 96).0, GOOD);
    let (status, sense) = initiator.read(&[3, 0, 0, 0, 18], 18);
    assert_eq!((status, sense[2], sense[12], sense[13]), (GOOD, 6, 0x2a, 9));
    assert_eq!(initiator.read(&[0; 6], 0).0, GOOD);
}

#[test]
fn another_logical_unit_does_not_exist() {
    let mut initiator = Initiator::standard(1 << 20);
    for (cdb, expected) in [
        (&[0x12, 0, 0, 0, 96][..], GOOD),
        (&[0xa0, 0, 0, 0, 0, 0, 0, 0, 0, 16], GOOD),
        (&[0; 6], CHECK),
    ] {
        let mut command = initiator.next_command(cdb, 96, 0);
        command.lun = 1 << 48;
        let answers = initiator.send(&Request::Command(command), false, &[]);
        let (status, data) = Initiator::outcome(&answers);
        assert_eq!(status, expected);
        if cdb[0] == 0x12 {
            assert_eq!(data[0], 0x7f);
        }
    }
}

#[test]
fn residuals_say_how_much_room_was_wrong() {
    let mut initiator = Initiator::standard(1 << 20);
    for (room, residual, length) in [
        (0, Residual::Overflow(512), 0),
        (200, Residual::Overflow(312), 200),
        (512, Residual::None, 512),
        (10_000, Residual::Underflow(9488), 512),
    ] {
        let mut command = initiator.next_command(&Initiator::read_16(0, 1), room, 0);
        command.reads = true;
        let answers = initiator.send(&Request::Command(command), false, &[]);
        let found = match &answers[0].response {
            Response::DataIn { status, .. } => status.unwrap().1,
            Response::Status { residual, .. } => *residual,
            other => panic!("{other:?}"),
        };
        assert_eq!((found, answers[0].data.len()), (residual, length));
    }
    // The command names two blocks and has data for one and a half: only the first is written.
    let mut command = initiator.next_command(&Initiator::write_16(0, 2), 0, 768);
    command.expected_bytes = 768;
    let answers = initiator.send(&Request::Command(command), false, &[5; 768]);
    assert!(matches!(
        answers[0].response,
        Response::Status {
            status: GOOD,
            residual: Residual::Overflow(256),
            ..
        }
    ));
    assert_eq!(lun(&initiator, 0, 1024), [[5; 512], [0; 512]].concat());
}

#[test]
fn pings_come_back_and_silence_ends_the_session() {
    let mut initiator = Initiator::standard(1 << 20);
    let answers = initiator.send(&ping(77, initiator.cmd_sn), true, b"hello");
    assert!(matches!(
        answers[0].response,
        Response::NopIn { itt: 77, .. }
    ));
    assert_eq!(answers[0].data, b"hello");
    initiator.wait(31);
    let [
        Answer {
            response: Response::NopIn { ttt, .. },
            numbers,
            ..
        },
    ] = initiator.send_bytes(&[])[..]
    else {
        panic!("a ping of ours");
    };
    assert_ne!(ttt, 0xffff_ffff);
    let next = initiator.send(&ping(78, initiator.cmd_sn), true, &[]);
    assert_eq!(
        next[0].numbers.stat_sn, numbers.stat_sn,
        "our ping uses no number"
    );
    initiator.wait(31);
    initiator.send_bytes(&[]);
    initiator.wait(60);
    assert!(!initiator.session.is_closed());
    initiator.wait(60);
    assert!(initiator.session.is_closed());
    assert_eq!(initiator.target.open, 0);
}

#[test]
fn a_read_only_lun_says_so_and_is_not_written() {
    let mut target = Held::with_lun(1 << 20);
    target.model.set_read_only("vol0/lun0", true);
    let mut initiator = Initiator::logged_in(target, Settings::default(), KEYS);
    for cdb in [
        Initiator::write_16(0, 1),
        Initiator::cdb_16(0x8e, 0, 0, 1),
        Initiator::cdb_16(0x93, 0, 0, 1),
        Initiator::cdb_16(0x8b, 0, 0, 1),
    ] {
        let (status, data) = initiator.write(&cdb, &[1; 512]);
        assert_eq!(Initiator::codes(status, &data), (7, 0x27, 0));
    }
    assert_eq!(initiator.target.log, Vec::<String>::new());
    let (_, modes) = initiator.read(&[0x1a, 8, 0x3f, 0, 255], 255);
    assert_eq!(modes[2], 0x90, "write protected");
}
