//! Bytes nobody should send. The session answers or closes; it does not panic, and holds little.

use everglade_nbd::Settings;
use everglade_target::conformance::Dice;

use crate::fragments::conversation;
use crate::held::Held;
use crate::peer::{Peer, context_data, info_data, option, pattern};

const MIB: u64 = 1 << 20;

fn feed(peer: &mut Peer, bytes: &[u8]) {
    let mut rest = bytes;
    while !rest.is_empty() && !peer.session.is_closed() {
        let sent = peer.send(rest);
        rest = &rest[sent..];
        let worked = peer.work();
        let taken = peer.take();
        assert!(
            sent > 0 || worked || !taken.is_empty() || peer.session.is_closed(),
            "stuck"
        );
        assert!(peer.session.payload_in_flight() <= 64 << 20);
    }
    peer.session.received_end(&mut peer.target);
    peer.work();
    peer.take();
    assert!(
        peer.session.is_closed(),
        "nothing keeps a session whose peer has left"
    );
    assert_eq!(peer.target.open, 0);
}

fn few_pages() -> Settings {
    Settings {
        staging_bytes: 16 << 10,
        asks_for_home: true,
        ..Settings::default()
    }
}

#[test]
fn random_bytes_from_the_first_on() {
    for seed in 0..20_000 {
        let mut dice = Dice::new(seed);
        let mut bytes = pattern(seed, usize::try_from(dice.below(300)).unwrap());
        if dice.once_in(2) {
            bytes.splice(0..0, [0, 0, 0, 3]);
        }
        feed(&mut Peer::new(Held::with_lun(MIB), few_pages()), &bytes);
    }
}

#[test]
fn random_options_and_requests() {
    for seed in 0..60_000 {
        let mut dice = Dice::new(seed);
        let mut bytes = vec![0, 0, 0, 3];
        let mut model = Held::with_lun(MIB);
        for _ in 0..dice.below(4) {
            bytes.extend(b"IHAVEOPT");
            bytes.extend(u32::try_from(dice.below(12)).unwrap().to_be_bytes());
            let length = dice.below(40);
            let claimed = if dice.once_in(4) {
                dice.below(1 << 32)
            } else {
                length
            };
            bytes.extend(u32::try_from(claimed).unwrap().to_be_bytes());
            bytes.extend(dice.bytes(usize::try_from(length).unwrap()));
        }
        let is_extended = dice.once_in(4);
        if is_extended {
            bytes.extend(option(11, b""));
            bytes.extend(option(7, &info_data("", &[])));
        } else {
            if dice.once_in(2) {
                bytes.extend(option(8, b""));
                bytes.extend(option(10, &context_data("", &["base:allocation"])));
            }
            bytes.extend(option(1, b""));
        }
        for _ in 0..dice.below(8) {
            let magic = if is_extended {
                0x21e4_1c71
            } else {
                0x2560_9513_u32
            };
            bytes.extend(magic.to_be_bytes());
            let flags = dice.pick(&[0, 0, 1, 2, 4, 8, 16, 32, 33, 48]);
            bytes.extend(u16::to_be_bytes(flags));
            bytes.extend(u16::try_from(dice.below(9)).unwrap().to_be_bytes());
            bytes.extend(dice.number().to_be_bytes());
            let offset = if dice.once_in(5) {
                dice.number()
            } else {
                dice.below(2 * MIB)
            };
            bytes.extend(offset.to_be_bytes());
            let length_max = if dice.once_in(10) { 1 << 32 } else { 3000 };
            let length = dice.below(length_max);
            if is_extended {
                bytes.extend(if dice.once_in(20) { [255; 4] } else { [0; 4] });
            }
            bytes.extend(u32::try_from(length).unwrap().to_be_bytes());
            if dice.once_in(2) {
                bytes.extend(dice.bytes(usize::try_from(length.min(3000)).unwrap()));
            }
        }
        model.flowing = true;
        feed(&mut Peer::new(model, few_pages()), &bytes);
    }
}

#[test]
fn valid_conversations_with_bytes_changed() {
    let conversations: Vec<Vec<u8>> = (0..10)
        .map(|seed| {
            let bytes = conversation(seed);
            // The beginning, where the messages are; long payloads prove nothing here.
            bytes[..bytes.len().min(4000)].to_vec()
        })
        .collect();
    for seed in 0..30_000 {
        let mut dice = Dice::new(seed);
        let mut bytes = conversations[usize::try_from(dice.below(10)).unwrap()].clone();
        for _ in 0..1 + dice.below(8) {
            let at = usize::try_from(dice.below(bytes.len() as u64)).unwrap();
            match dice.below(4) {
                0 => bytes[at] ^= 1 << dice.below(8),
                1 => bytes[at] = dice.pick(&[0, 1, 0x7f, 0x80, 0xff]),
                2 => {
                    bytes.remove(at);
                }
                _ => bytes.insert(at, dice.pick(&[0, 0xff])),
            }
        }
        feed(&mut Peer::new(Held::with_lun(3 * MIB), few_pages()), &bytes);
    }
}
