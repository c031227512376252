//! Messages there and back, and bytes that are none.

use everglade_iscsi::login::{Login, Outside};
use everglade_iscsi::scsi::Command;
use everglade_iscsi::wire::request::{self, Request};
use everglade_iscsi::wire::response::Residual;
use everglade_iscsi::wire::{Header, Numbers, Response, text};
use proptest::prelude::*;

/// Clears the bytes of a header that say nothing at this level: an encoder leaves them zero.
fn requests_agree(bytes: &[u8; 48]) {
    if let Some(request) = Request::parse(bytes) {
        let header = Header::parse(bytes);
        let again = request.encode(header.is_immediate);
        assert_eq!(Request::parse(&again), Some(request));
    }
}

proptest! {
    #[test]
    fn what_is_read_is_what_is_written(
        opcode in 0..0x40u8, immediate: bool, mut bytes: [u8; 48],
    ) {
        bytes[0] = opcode | if immediate { 0x40 } else { 0 };
        requests_agree(&bytes);
        if let Some((response, numbers)) = Response::parse(&bytes) {
            // Residuals have one of two flags.
            let again = response.encode(numbers);
            let (parsed, _) = Response::parse(&again).unwrap();
            prop_assert_eq!(parsed, normal(response));
        }
    }

    #[test]
    fn no_command_block_makes_trouble(cdb: [u8; 16]) {
        if let Ok(command) = Command::decode(&cdb) {
            prop_assert!(command.bytes_out() <= 1 << 32);
        }
    }

    #[test]
    fn no_login_makes_trouble(
        requests in proptest::collection::vec(
            (any::<[u8; 48]>(), "[A-Za-z0-9=,:.\\x00]{0,200}"), 1..6
        ),
    ) {
        let mut login = Login::default();
        let random = || [3; 33];
        let outside = Outside { accounts: None, random: &random, asks_for_home: None };
        for (mut bytes, text) in requests {
            bytes[0] = 0x43;
            let Some(Request::Login(request)) = Request::parse(&bytes) else {
                panic!("a login");
            };
            login.step(&request, text.as_bytes(), &outside);
        }
    }

    #[test]
    fn no_text_makes_trouble(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(pairs) = text::parse(&bytes) {
            for (key, value) in pairs {
                prop_assert!(!key.is_empty());
                let _ = (text::number(&value), text::binary(&value, 16));
            }
        }
    }
}

/// A message of a target with what an encoder makes of contradictions.
fn normal(response: Response) -> Response {
    match response {
        Response::Login {
            transits: false,
            continues,
            current,
            isid,
            tsih,
            itt,
            status,
            ..
        } => Response::Login {
            transits: false,
            continues,
            current,
            next: 0,
            isid,
            tsih,
            itt,
            status,
        },
        other => other,
    }
}

/// The bytes of one message, by the figures of RFC 7143.
#[test]
fn a_write_command_looks_as_the_standard_draws_it() {
    let mut cdb = [0; 16];
    cdb[0] = 0x2a;
    let command = Request::Command(request::Command {
        is_final: true,
        reads: false,
        writes: true,
        attribute: 1,
        lun: 0,
        itt: 0x0102_0304,
        expected_bytes: 512,
        cmd_sn: 9,
        cdb,
    });
    let mut expected = [0; 48];
    expected[..2].copy_from_slice(&[0x01, 0xa1]);
    expected[16..28].copy_from_slice(&[1, 2, 3, 4, 0, 0, 2, 0, 0, 0, 0, 9]);
    expected[32] = 0x2a;
    assert_eq!(command.encode(false), expected);
    assert_eq!(command.encode(true)[0], 0x41);
}

#[test]
fn a_status_looks_as_the_standard_draws_it() {
    let numbers = Numbers {
        stat_sn: 1,
        exp_cmd_sn: 2,
        max_cmd_sn: 3,
    };
    let status = Response::Status {
        itt: 0xaabb_ccdd,
        status: 2,
        residual: Residual::Underflow(7),
        exp_data_sn: 4,
    };
    let bytes = status.encode(numbers);
    assert_eq!(bytes[..4], [0x21, 0x82, 0, 2]);
    assert_eq!(bytes[16..20], [0xaa, 0xbb, 0xcc, 0xdd]);
    assert_eq!(
        bytes[24..40],
        [0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4]
    );
    assert_eq!(bytes[44..], [0, 0, 0, 7]);
    let data = Response::DataIn {
        is_final: true,
        status: None,
        itt: 1,
        data_sn: 2,
        offset: 3,
    };
    assert_eq!(data.encode(numbers)[24..28], [0; 4], "no status, no number");
    assert!(!data.advances());
}
