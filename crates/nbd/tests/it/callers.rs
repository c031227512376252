//! Allow-lists: exports that a caller may not use do not exist for it.

use std::sync::Arc;

use everglade_nbd::{AllowList, Caller};
use everglade_target::model::Model;

use crate::held::Held;
use crate::peer::{Peer, READ, context_data, info_data, option, request};

const MIB: u64 = 1 << 20;
const UNKNOWN: u32 = (1 << 31) + 6;

/// The second LUN is for one machine only.
struct OneMachine;

impl AllowList for OneMachine {
    fn allows(&self, export: &str, _: &[u8; 16], caller: &Caller) -> bool {
        export != "vol0/secret" || caller.address == Some("10.0.0.7".parse().unwrap())
    }
}

fn called_from(address: Option<&str>) -> Peer {
    let mut model = Model::with_lun("vol0/lun0", MIB);
    model.add_lun("vol0/secret", 2 * MIB);
    let caller = Caller {
        address: address.map(|address| address.parse().unwrap()),
        allow_list: Some(Arc::new(OneMachine)),
        ..Caller::default()
    };
    Peer::called_by(Held::new(model), caller)
}

fn kind(answer: &[u8]) -> u32 {
    u32::from_be_bytes(*answer[12..].first_chunk().unwrap())
}

#[test]
fn exports_for_others_do_not_exist() {
    for address in [None, Some("10.0.0.8"), Some("::1")] {
        let mut peer = called_from(address);
        let list = peer.exchange(&option(3, b""));
        assert!(!list.windows(6).any(|bytes| bytes == b"secret"));
        for number in [6, 7] {
            let answer = peer.exchange(&option(number, &info_data("vol0/secret", &[])));
            assert_eq!(kind(&answer), UNKNOWN);
            let text = String::from_utf8(answer[20..].to_vec()).unwrap();
            assert_eq!(text, "no export \"vol0/secret\"; there is vol0/lun0");
        }
        peer.exchange(&option(8, b""));
        let answer = peer.exchange(&option(10, &context_data("vol0/secret", &[])));
        assert_eq!(kind(&answer), UNKNOWN);
        // The only one it may have is the one without a name.
        peer.exchange(&option(7, &info_data("", &[])));
        assert!(!peer.session.is_in_handshake());
        assert_eq!(peer.target.open, 1);
        assert!(!peer.exchange(&request(READ, 0, 1, 0, 1)).is_empty());
    }
    let mut peer = called_from(None);
    assert!(peer.exchange(&option(1, b"vol0/secret")).is_empty());
    assert!(peer.session.is_closed());
}

#[test]
fn who_may_use_an_export_finds_it() {
    let mut peer = called_from(Some("10.0.0.7"));
    let list = peer.exchange(&option(3, b""));
    assert!(list.windows(6).any(|bytes| bytes == b"secret"));
    peer.exchange(&option(7, &info_data("vol0/secret", &[])));
    assert!(!peer.session.is_in_handshake());
}
