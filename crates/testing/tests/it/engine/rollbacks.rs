//! Restores after which nothing newer is left: all of it happens, or nothing.

use everglade_engine::admin::{Change, Error};

use super::clones::{Rig, own};

fn roll_back(snapshot: &str, discards: &[&str]) -> Change {
    Change::RollBackVolume {
        volume: own("v"),
        snapshot: own(snapshot),
        discards: discards.iter().map(|name| own(name)).collect(),
    }
}

fn create(name: &str) -> Change {
    Change::CreateSnapshot {
        volume: own("v"),
        name: own(name),
    }
}

/// Snapshots b and c, each of other contents than the one before.
fn two_newer(rig: &mut Rig) {
    for (name, fill) in [("b", 2_000), ("c", 3_000)] {
        rig.write("v/l", 0, 300, fill);
        rig.snapshot("v", name);
    }
}

fn is_whole(rig: &mut Rig) {
    assert_eq!(rig.snapshot_names("v"), ["a", "b", "c"]);
    rig.expect("v/l", 100, 300, 4_000);
    for (name, fill) in [("a", 1_000), ("b", 2_000), ("c", 3_000)] {
        rig.expect(&format!("v/l@{name}"), 0, 300, fill);
    }
}

#[test]
fn what_is_newer_goes_with_what_was_active_and_gives_its_space_back() {
    let mut rig = Rig::new();
    rig.write("v/l", 0, 300, 1_000);
    rig.snapshot("v", "a");
    rig.rest();
    let before = rig.used();
    two_newer(&mut rig);
    rig.write("v/l", 300, 200, 4_000);
    // An unknown name is allowed: the snapshot may have been deleted since.
    rig.change(roll_back("a", &["b", "c", "gone"]))
        .expect("nobody needs them");
    assert_eq!(rig.snapshot_names("v"), ["a"]);
    rig.expect("v/l", 0, 300, 1_000);
    rig.expect_zero("v/l", 300, 200);
    assert!(rig.read("v/l@a", 0).is_ok() && rig.read("v/l@b", 0).is_err());
    let mut rig = rig.restart();
    assert_eq!(rig.snapshot_names("v"), ["a"]);
    rig.write("v/l", 0, 10, 5_000);
    rig.rest();
    rig.expect("v/l@a", 0, 300, 1_000);
    rig.expect("v/l", 0, 10, 5_000);
    let after = rig.used();
    assert!(after < before + 60, "{before} → {after}");
    assert_eq!(rig.problems(), Vec::<String>::new());
}

#[test]
fn nothing_happens_if_one_has_to_stay_or_nobody_said_it_may_go() {
    let mut rig = Rig::new();
    rig.write("v/l", 0, 300, 1_000);
    rig.snapshot("v", "a");
    two_newer(&mut rig);
    rig.write("v/l", 100, 300, 4_000);
    let refused = |rig: &mut Rig, change: Change, part: &str| {
        let error = rig.change(change).expect_err(part);
        assert!(matches!(error, Error::Busy(_)), "{error}");
        assert!(error.to_string().contains(part), "{part}: {error}");
        is_whole(rig);
    };
    refused(&mut rig, roll_back("a", &["b"]), "v@c is newer");
    refused(&mut rig, roll_back("a", &[]), "v@b is newer");
    let hold = Change::HoldSnapshot {
        volume: own("v"),
        name: own("c"),
        tag: own("x"),
    };
    rig.change(hold).expect("it is there");
    refused(&mut rig, roll_back("a", &["b", "c"]), "v@c is held by x");
    let release = Change::ReleaseSnapshot {
        volume: own("v"),
        name: own("c"),
        tag: own("x"),
    };
    rig.change(release).expect("it was held");
    rig.clone_of("w", "v", "b").expect("a new name");
    refused(
        &mut rig,
        roll_back("a", &["b", "c"]),
        "v@b is the base of w",
    );
    rig.delete_volume("w").expect("nobody needs it");
    rig.rest();
    // Taken in the same consistency point, before.
    let answers = rig.change_at_once([create("d"), roll_back("a", &["b", "c", "d"])]);
    assert!(
        matches!(&answers[..], [Ok(()), Err(Error::Busy(text))] if text.contains("v@d is just \
            being taken")),
        "{answers:?}"
    );
    rig.delete_snapshot("v", "d").expect("nobody needs it");
    is_whole(&mut rig);
    let missing = rig.change(roll_back("nix", &[]));
    assert!(matches!(missing, Err(Error::NotFound(_))), "{missing:?}");
    let mut rig = rig.restart();
    is_whole(&mut rig);
    rig.change(roll_back("c", &[])).expect("nothing is newer");
    rig.expect("v/l", 0, 300, 3_000);
    assert_eq!(rig.snapshot_names("v"), ["a", "b", "c"]);
}

#[test]
fn if_the_target_cannot_be_read_clients_have_all_snapshots_again() {
    let mut rig = Rig::slow();
    rig.write("v/l", 0, 300, 1_000);
    rig.snapshot_of_a_deletion("a");
    two_newer(&mut rig);
    rig.write("v/l", 100, 300, 4_000);
    let mut refusals = 0;
    for mut rig in rig.with_damaged_hidden_names() {
        let Err(error) = rig.change(roll_back("a", &["b", "c"])) else {
            continue;
        };
        assert!(error.to_string().contains("cannot be read"), "{error}");
        refusals += 1;
        is_whole(&mut rig);
        rig.write("v/l", 0, 50, 6_000);
        rig.delete_snapshot("v", "b").expect("as before");
        rig.rest();
        assert_eq!(rig.snapshot_names("v"), ["a", "c"]);
        rig.expect("v/l@c", 0, 300, 3_000);
    }
    assert!(refusals > 0, "no block was the one that a restore reads");
}
