//! The login phase: stages, refusals, CHAP, waiting for another session of the same host.

use std::sync::Arc;

use everglade_iscsi::login::chap::{Account, Accounts, Algorithm, Secret};
use everglade_iscsi::wire::request::{self, Request};
use everglade_iscsi::wire::{Response, text};
use everglade_iscsi::{Node, Settings, names};
use everglade_target::sessions::{AllowList, Caller};

use crate::held::Held;
use crate::initiator::{self, Answer, Initiator, KEYS, login};

fn fresh(settings: Settings) -> Initiator {
    Initiator::new(Held::with_lun(1 << 20), settings)
}

fn pairs(more: &[(&str, &str)]) -> Vec<u8> {
    let name = names::target_name("vol0/lun0").unwrap();
    let mut pairs = vec![("InitiatorName", "iqn.test:me"), ("TargetName", &*name)];
    pairs.extend(more);
    initiator::text(&pairs)
}

fn send(initiator: &mut Initiator, request: request::Login, text: &[u8]) -> Vec<Answer> {
    initiator.send(&Request::Login(request), true, text)
}

fn status(answers: &[Answer]) -> (u8, u8) {
    match answers {
        [
            Answer {
                response: Response::Login { status, .. },
                ..
            },
        ] => *status,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_mistake_has_its_status_and_ends_the_connection() {
    let fine = login(1, 3, true);
    let plain = pairs(&[]);
    let no_name = initiator::text(&[("TargetName", "iqn.2026-11.dev.everglade:vol0.lun0")]);
    let no_target = initiator::text(&[("InitiatorName", "iqn.x")]);
    let elsewhere = initiator::text(&[
        ("InitiatorName", "iqn.x"),
        ("TargetName", "iqn.2026-11.dev.everglade:vol0.lun1"),
    ]);
    let stranger = initiator::text(&[("InitiatorName", "iqn.x"), ("TargetName", "iqn.other")]);
    let long = vec![b'x'; 16 << 10];
    for (request, text, expected) in [
        (
            request::Login {
                version_min: 1,
                ..fine
            },
            &plain,
            (2, 5),
        ),
        (request::Login { current: 2, ..fine }, &plain, (2, 0)),
        (request::Login { next: 1, ..fine }, &plain, (2, 0)),
        (
            request::Login {
                continues: true,
                ..fine
            },
            &plain,
            (2, 0),
        ),
        (request::Login { tsih: 9, ..fine }, &plain, (2, 10)),
        (fine, &no_name, (2, 7)),
        (fine, &no_target, (2, 7)),
        (fine, &elsewhere, (2, 3)),
        (fine, &stranger, (2, 3)),
        (fine, &pairs(&[("SessionType", "Strange")]), (2, 9)),
        (
            fine,
            &pairs(&[("InitialR2T", "No"), ("InitialR2T", "No")]),
            (2, 0),
        ),
        (fine, &pairs(&[("a b", "c")]), (2, 0)),
        (fine, &long, (2, 0)),
    ] {
        let mut initiator = fresh(Settings::default());
        let answers = send(&mut initiator, request, text);
        assert_eq!(status(&answers), expected, "{request:?}");
        assert!(initiator.session.is_closed());
        assert_eq!(initiator.target.open, 0);
    }
}

#[test]
fn a_command_before_the_login_ends_the_connection() {
    let mut initiator = fresh(Settings::default());
    let command = initiator.next_command(&[0; 6], 0, 0);
    assert_eq!(
        initiator.send(&Request::Command(command), false, &[]).len(),
        0
    );
    assert!(initiator.session.is_closed());
}

#[test]
fn a_login_may_go_through_both_stages_in_pieces() {
    let mut initiator = fresh(Settings::default());
    let text = pairs(&[("AuthMethod", "CHAP,None")]);
    let (first, second) = text.split_at(40);
    let mut request = login(0, 1, false);
    request.continues = true;
    let answers = send(&mut initiator, request, first);
    assert_eq!((status(&answers), answers[0].data.len()), ((0, 0), 0));
    let answers = send(&mut initiator, login(0, 1, true), second);
    let told = String::from_utf8(answers[0].data.clone()).unwrap();
    assert!(told.contains("AuthMethod=None\0"), "{told}");
    assert!(told.contains("TargetPortalGroupTag=1\0"), "{told}");
    let answers = send(&mut initiator, login(1, 3, true), &initiator::text(KEYS));
    let told = String::from_utf8(answers[0].data.clone()).unwrap();
    assert!(
        told.contains("MaxRecvDataSegmentLength=1048576\0"),
        "{told}"
    );
    assert!(!initiator.session.is_in_handshake());
}

#[test]
fn a_session_asks_where_it_should_run_before_it_opens_its_lun() {
    let settings = Settings {
        asks_for_home: true,
        ..Settings::default()
    };
    let mut initiator = Initiator::logged_in(Held::with_lun(1 << 20), settings, KEYS);
    assert_eq!(initiator.read(&[0; 6], 0).0, 0);
    assert_eq!(initiator.target.open, 1);
}

fn account(name: &str, secret: &str) -> Account {
    Account {
        name: name.to_owned(),
        secret: Secret::new(secret.as_bytes()).unwrap(),
    }
}

fn guarded() -> Settings {
    Settings {
        accounts: Some(Arc::new(Accounts {
            initiators: vec![account("me", "my long secret")],
            target: Some(account("you", "your long secret")),
        })),
        random: Some(Arc::new(|| [9; 33])),
        ..Settings::default()
    }
}

/// Logs in with CHAP by this secret. Returns the last answer.
fn with_chap(algorithm: Algorithm, secret: &str) -> Answer {
    let mut initiator = fresh(guarded());
    let answers = send(
        &mut initiator,
        login(0, 1, false),
        &pairs(&[("AuthMethod", "CHAP")]),
    );
    assert_eq!(status(&answers), (0, 0));
    let offer = if algorithm == Algorithm::Md5 {
        "5"
    } else {
        "7,5"
    };
    let text = initiator::text(&[("CHAP_A", offer)]);
    let answers = send(&mut initiator, login(0, 1, false), &text);
    let told = text::parse(&answers[0].data).unwrap();
    assert_eq!(told[1], ("CHAP_I".to_owned(), "9".to_owned()));
    let secret = Secret::new(secret.as_bytes()).unwrap();
    let response = text::hexadecimal(&algorithm.response(9, &secret, &[9; 32]));
    let text = initiator::text(&[
        ("CHAP_N", "me"),
        ("CHAP_R", &response),
        ("CHAP_I", "5"),
        ("CHAP_C", "0x010203"),
    ]);
    let mut answers = send(&mut initiator, login(0, 3, true), &text);
    let is_right = matches!(
        answers[0].response,
        Response::Login {
            transits: true,
            status: (0, 0),
            ..
        }
    );
    assert_eq!(initiator.session.is_closed(), !is_right);
    answers.remove(0)
}

#[test]
fn who_knows_the_secret_gets_in_and_learns_who_we_are() {
    for algorithm in [Algorithm::Md5, Algorithm::Sha256] {
        let answer = with_chap(algorithm, "my long secret");
        let told = text::parse(&answer.data).unwrap();
        let ours = Secret::new(b"your long secret").unwrap();
        let expected = text::hexadecimal(&algorithm.response(5, &ours, &[1, 2, 3]));
        assert!(told.contains(&("CHAP_R".to_owned(), expected)), "{told:?}");
        let answer = with_chap(algorithm, "another secret");
        assert_eq!(status(&[answer]), (2, 1));
    }
}

#[test]
fn nobody_gets_around_the_secret() {
    // Straight to the second stage; without a method; a response without a challenge; leaving the
    // stage early.
    for (request, text, expected) in [
        (login(1, 3, true), pairs(&[]), (2, 1)),
        (login(0, 3, true), pairs(&[]), (2, 1)),
        (login(0, 3, true), pairs(&[("AuthMethod", "None")]), (2, 1)),
        (
            login(0, 3, true),
            pairs(&[("CHAP_N", "me"), ("CHAP_R", "0x00")]),
            (2, 0),
        ),
        (login(0, 1, false), pairs(&[("CHAP_A", "5")]), (2, 0)),
    ] {
        let mut initiator = fresh(guarded());
        let answers = send(&mut initiator, request, &text);
        assert_eq!(status(&answers), expected);
        assert!(initiator.session.is_closed());
    }
    let mut initiator = fresh(guarded());
    let text = pairs(&[("AuthMethod", "CHAP")]);
    let answers = send(&mut initiator, login(0, 3, true), &text);
    assert!(
        matches!(
            answers[0].response,
            Response::Login {
                transits: false,
                ..
            }
        ),
        "the exchange has not ended"
    );
    let answers = send(&mut initiator, login(1, 3, true), &[]);
    assert_eq!(status(&answers), (2, 0));
}

#[test]
fn a_new_session_of_a_host_waits_for_its_old_one() {
    let node: Arc<Node> = Arc::default();
    let settings = || Settings {
        node: Arc::clone(&node),
        ..Settings::default()
    };
    let mut old = Initiator::logged_in(Held::with_lun(1 << 20), settings(), KEYS);
    old.target.flowing = false;
    let write = old.next_command(&Initiator::write_16(0, 1), 0, 512);
    assert_eq!(
        old.send(&Request::Command(write), false, &[1; 512]).len(),
        0
    );
    assert_eq!(old.session.operations_in_flight(), 1);
    let mut new = fresh(settings());
    assert_eq!(send(&mut new, login(1, 3, true), &pairs(&[])).len(), 0);
    assert!(!new.session.wants_read());
    new.wait(1);
    assert_eq!(
        new.send_bytes(&[]).len(),
        0,
        "the old one does not know yet"
    );
    old.wait(1);
    assert!(old.session.is_draining());
    assert!(!old.session.wants_write(), "nobody reads it");
    new.wait(1);
    assert_eq!(new.send_bytes(&[]).len(), 0, "its write is under way");
    old.target.release_all();
    old.send_bytes(&[]);
    assert!(old.session.is_closed());
    new.wait(1);
    let answers = new.send_bytes(&[]);
    assert_eq!(status(&answers), (0, 0));
    assert!(!new.session.is_in_handshake());
}

#[test]
fn discovery_lists_targets_with_the_portal_of_the_caller() {
    let mut target = Held::with_lun(1 << 20);
    for number in 1..400 {
        target.model.add_lun(&format!("vol0/lun{number}"), 4096);
    }
    let mut initiator = Initiator::new(target, Settings::default());
    let text = initiator::text(&[("InitiatorName", "iqn.x"), ("SessionType", "Discovery")]);
    let answers = send(&mut initiator, login(1, 3, true), &text);
    assert_eq!(status(&answers), (0, 0));
    let mut told = Vec::new();
    let mut ttt = 0xffff_ffff;
    let mut parts = 0;
    loop {
        let request = Request::Text(request::Text {
            is_final: true,
            continues: false,
            lun: 0,
            itt: 2,
            ttt,
            cmd_sn: initiator.cmd_sn,
        });
        initiator.cmd_sn += 1;
        let text = match parts {
            0 => initiator::text(&[("SendTargets", "All")]),
            _ => Vec::new(),
        };
        let answers = initiator.send(&request, false, &text);
        let [
            Answer {
                response:
                    Response::Text {
                        is_final, ttt: tag, ..
                    },
                data,
                ..
            },
        ] = &answers[..]
        else {
            panic!("{answers:?}");
        };
        assert!(data.len() <= 8192, "what the initiator takes");
        told.extend_from_slice(data);
        parts += 1;
        ttt = *tag;
        if *is_final {
            break;
        }
    }
    assert!(parts > 2);
    let pairs = text::parse(&told[..100]).ok();
    assert_eq!(pairs, None, "cut in the middle of a pair");
    let told = String::from_utf8(told).unwrap();
    assert_eq!(
        told.matches("TargetName=iqn.2026-11.dev.everglade:vol0.lun")
            .count(),
        400
    );
    assert_eq!(told.matches("TargetAddress=10.0.0.1:3260,1\0").count(), 400);
    // A tag is good once.
    let command = initiator.next_command(&[0; 6], 0, 0);
    initiator.send(&Request::Command(command), false, &[]);
    assert!(initiator.session.is_closed(), "no commands in discovery");
}

/// Only exports of `vol0` exist for the caller.
struct OnlyVol0;

impl AllowList for OnlyVol0 {
    fn allows(&self, export: &str, _: &[u8; 16], _: &Caller) -> bool {
        export.starts_with("vol0/")
    }
}

#[test]
fn exports_of_others_are_neither_listed_nor_opened() {
    let caller = || Caller {
        local: Some("10.0.0.1:3260".parse().unwrap()),
        allow_list: Some(Arc::new(OnlyVol0)),
        ..Caller::default()
    };
    let connect = || {
        let mut target = Held::with_lun(1 << 20);
        target.model.add_lun("vol1/lun0", 4096);
        let mut initiator = Initiator::new(target, Settings::default());
        initiator.session = initiator.session.with_caller(caller());
        initiator
    };
    let mut initiator = connect();
    let text = initiator::text(&[("InitiatorName", "iqn.x"), ("SessionType", "Discovery")]);
    send(&mut initiator, login(1, 3, true), &text);
    let request = |cmd_sn| {
        Request::Text(request::Text {
            is_final: true,
            continues: false,
            lun: 0,
            itt: 2,
            ttt: 0xffff_ffff,
            cmd_sn,
        })
    };
    let theirs = names::target_name("vol1/lun0").unwrap();
    let text = initiator::text(&[("SendTargets", &theirs)]);
    assert_eq!(initiator.send(&request(1), false, &text)[0].data, b"");
    let text = initiator::text(&[("SendTargets", "All"), ("SendTargets", "All")]);
    let answers = initiator.send(&request(2), false, &text);
    let told = String::from_utf8(answers[0].data.clone()).unwrap();
    assert_eq!(told.matches("TargetName=").count(), 1, "{told}");
    assert!(told.contains("vol0.lun0"), "{told}");
    assert!(told.ends_with("SendTargets=Reject\0"), "one list: {told}");
    for (export, expected) in [("vol0/lun0", (0, 0)), ("vol1/lun0", (2, 3))] {
        let target = names::target_name(export).unwrap();
        let text = initiator::text(&[("InitiatorName", "iqn.x"), ("TargetName", &target)]);
        let answers = send(&mut connect(), login(1, 3, true), &text);
        assert_eq!(status(&answers), expected);
    }
}

#[test]
fn an_account_with_an_initiator_s_name_is_that_initiator_s_alone() {
    for (account_name, is_in) in [
        ("iqn.test:me", true),
        ("IQN.Test:Me", true),
        ("iqn.test:other", false),
    ] {
        let mut settings = guarded();
        settings.accounts = Some(Arc::new(Accounts {
            initiators: vec![account(account_name, "my long secret")],
            target: None,
        }));
        let mut initiator = fresh(settings);
        let text = pairs(&[("AuthMethod", "CHAP")]);
        send(&mut initiator, login(0, 1, false), &text);
        let text = initiator::text(&[("CHAP_A", "5")]);
        send(&mut initiator, login(0, 1, false), &text);
        let secret = Secret::new(b"my long secret").unwrap();
        let response = text::hexadecimal(&Algorithm::Md5.response(9, &secret, &[9; 32]));
        let text = initiator::text(&[("CHAP_N", account_name), ("CHAP_R", &response)]);
        let answers = send(&mut initiator, login(0, 3, true), &text);
        let expected = if is_in { (0, 0) } else { (2, 1) };
        assert_eq!(status(&answers), expected, "{account_name}");
    }
}
