//! Tests of the schedule, with a clock that the tests set, and lists instead of volumes.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;

use everglade_api::{Code, CreatePolicy, ModifyPolicy, Moment, Problem};
use everglade_engine::Unreadable;
use everglade_env::lock::Mutex;

use super::{RoundEvent, Schedule, Shelf, SnapshotEntry, Unwritten, Volumes};

const HOUR: u64 = 3_600;
const DAY: u64 = 24 * HOUR;
/// 2026-11-22 00:00 UTC, a Sunday.
const SUNDAY: u64 = 1_795_305_600;

/// An aggregate that has every volume and can be made to refuse changes.
#[derive(Clone, Default)]
struct Paper(std::sync::Arc<Mutex<(String, bool)>>);

impl Shelf for Paper {
    fn online(&self) -> Vec<u32> {
        vec![1]
    }

    fn name(&self, _: u32) -> String {
        "paper".to_owned()
    }

    fn read(&self, _: u32) -> Result<String, Unreadable> {
        Ok(self.0.lock().0.clone())
    }

    fn write(&self, _: u32, text: &str) -> Result<(), Unwritten> {
        let mut inner = self.0.lock();
        if inner.1 {
            return Err("the disk is full".to_owned().into());
        }
        text.clone_into(&mut inner.0);
        Ok(())
    }

    fn home(&self, _: &str) -> Option<u32> {
        Some(1)
    }
}

/// A daemon that begins.
fn start(paper: Paper) -> Schedule {
    Schedule::open(Box::new(paper), Path::new("/nonexistent"))
}

/// One volume, called `v` unless it was renamed.
#[derive(Default)]
struct Fake {
    renamed: RefCell<Option<String>>,
    present: RefCell<Vec<SnapshotEntry>>,
    next: RefCell<u64>,
    refusal: RefCell<Option<String>>,
    is_away: RefCell<bool>,
}

impl Volumes for Fake {
    fn snapshots(&self, volume: &str) -> Option<Vec<SnapshotEntry>> {
        let name = self.renamed.borrow().clone();
        let is_it = volume == name.as_deref().unwrap_or("v");
        (is_it && !*self.is_away.borrow()).then(|| self.present.borrow().clone())
    }

    fn take(&self, wanted: &[(String, String)]) -> Vec<Result<u64, String>> {
        let take = |(_, name): &(String, String)| {
            if let Some(text) = self.refusal.borrow().clone() {
                return Err(text);
            }
            *self.next.borrow_mut() += 1;
            let id = *self.next.borrow();
            self.present.borrow_mut().push(SnapshotEntry {
                id,
                name: name.clone(),
                obstacle: None,
            });
            Ok(id)
        };
        wanted.iter().map(take).collect()
    }

    fn delete(&self, doomed: &[(String, String)]) -> Vec<Result<(), String>> {
        let delete = |(_, name): &(String, String)| {
            self.present.borrow_mut().retain(|seen| seen.name != *name);
            Ok(())
        };
        doomed.iter().map(delete).collect()
    }
}

impl Fake {
    fn names(&self) -> Vec<String> {
        let present = self.present.borrow();
        present.iter().map(|seen| seen.name.clone()).collect()
    }

    fn hold(&self, name: &str, why: Option<&str>) {
        let mut present = self.present.borrow_mut();
        let found = present.iter_mut().find(|seen| seen.name == name);
        found.expect("it is there").obstacle = why.map(str::to_owned);
    }
}

fn policy(text: &str) -> CreatePolicy {
    CreatePolicy::parse(text.as_bytes()).expect("a policy")
}

/// A volume whose policy was given to it at `now`.
fn with(paper: &Paper, now: u64, text: &str) -> Schedule {
    let schedule = start(paper.clone());
    let request = policy(text);
    schedule.create(&request).expect("made");
    let name = request.name.as_str();
    schedule.assign(Moment(now), "v", name).expect("given");
    schedule
}

fn taken(outcomes: &[RoundEvent]) -> Vec<(String, i64)> {
    let taken = |outcome: &RoundEvent| match outcome {
        RoundEvent::Taken { name, missed, .. } => Some((name.clone(), *missed)),
        _ => None,
    };
    outcomes.iter().filter_map(taken).collect()
}

#[test]
fn a_week_of_the_usual_policy_keeps_six_two_and_two() {
    let (paper, volumes) = (Paper::default(), Fake::default());
    let schedule = start(paper);
    schedule
        .assign(Moment(SUNDAY + 60), "v", "default")
        .expect("given");
    assert!(
        schedule.round(Moment(SUNDAY + 61), &volumes).is_empty(),
        "nothing at once"
    );
    for minute in 1..=8 * 24 * 60 {
        schedule.round(Moment(SUNDAY + 60 + minute * 60), &volumes);
    }
    assert_eq!(
        volumes.names(),
        [
            "daily.2026-11-29_0000",
            "weekly.2026-11-29_0000",
            "hourly.2026-11-29_1900",
            "hourly.2026-11-29_2000",
            "hourly.2026-11-29_2100",
            "hourly.2026-11-29_2200",
            "hourly.2026-11-29_2300",
            "hourly.2026-11-30_0000",
            "daily.2026-11-30_0000",
        ]
    );
    let view = schedule.view(
        Moment(SUNDAY + 8 * DAY + 60),
        "v",
        &volumes.present.borrow(),
    );
    assert_eq!((view.policy.as_str(), view.snapshots.len()), ("default", 9));
    assert_eq!(view.next.as_deref(), Some("2026-11-30T01:00:00Z"));
    assert!(schedule.conditions().is_empty());
}

#[test]
fn who_was_away_catches_up_once_and_the_name_says_when() {
    let (paper, volumes) = (Paper::default(), Fake::default());
    let schedule = with(
        &paper,
        SUNDAY,
        "{\"name\": \"p\", \"hourly\": 6, \"daily\": 2}",
    );
    drop(schedule);
    // Three days and 20 minutes later.
    let schedule = start(paper);
    let now = SUNDAY + 3 * DAY + 1200;
    let outcomes = schedule.round(Moment(now), &volumes);
    assert_eq!(
        taken(&outcomes),
        [
            ("hourly.2026-11-25_0020".to_owned(), 71),
            ("daily.2026-11-25_0020".to_owned(), 2)
        ]
    );
    for second in 1..3000 {
        let outcomes = schedule.round(Moment(now + second), &volumes);
        let late = now + second >= SUNDAY + 3 * DAY + HOUR;
        assert!(outcomes.is_empty() || late, "{outcomes:?}");
    }
    assert_eq!(volumes.names().len(), 3);
}

#[test]
fn a_clock_that_jumps_makes_no_burst_no_gap_and_deletes_nothing() {
    let (paper, volumes) = (Paper::default(), Fake::default());
    let schedule = with(&paper, SUNDAY, "{\"name\": \"p\", \"hourly\": 100}");
    let round = |at: u64| taken(&schedule.round(Moment(at), &volumes));
    assert_eq!(round(SUNDAY + HOUR).len(), 1);
    // The clock is set back a little, to before the due time, and passes the due time again.
    assert!(round(SUNDAY + HOUR - 5).is_empty());
    assert!(round(SUNDAY + HOUR).is_empty(), "it was seen to");
    // The clock is set forward by years, and back to the right time.
    assert_eq!(round(SUNDAY + 1000 * DAY).len(), 1);
    assert!(round(SUNDAY + 1000 * DAY + 7).is_empty());
    let outcomes = schedule.round(Moment(SUNDAY + HOUR + 600), &volumes);
    assert!(
        matches!(outcomes[..], [RoundEvent::ClockBack { .. }]),
        "{outcomes:?}"
    );
    assert_eq!(round(SUNDAY + 2 * HOUR).len(), 1, "it goes on from there");
    // The clock is set back by three hours: the same names occur again, with a number.
    assert_eq!(round(SUNDAY + 3 * HOUR).len(), 1);
    assert_eq!(round(SUNDAY + 4 * HOUR).len(), 1);
    assert!(round(SUNDAY + 2 * HOUR - 60).is_empty());
    assert_eq!(
        round(SUNDAY + 2 * HOUR),
        [("hourly.2026-11-22_0200-2".to_owned(), 0)]
    );
    assert_eq!(volumes.names().len(), 6, "none was deleted");
}

#[test]
fn what_is_held_or_in_use_stays_and_goes_when_it_is_let_go() {
    let (paper, volumes) = (Paper::default(), Fake::default());
    let schedule = with(&paper, SUNDAY, "{\"name\": \"p\", \"hourly\": 2}");
    let round = |hour: u64| schedule.round(Moment(SUNDAY + hour * HOUR), &volumes);
    round(1);
    volumes.hold("hourly.2026-11-22_0100", Some("held by backup"));
    (2..=5).for_each(|hour| _ = round(hour));
    assert_eq!(
        volumes.names(),
        [
            "hourly.2026-11-22_0100",
            "hourly.2026-11-22_0400",
            "hourly.2026-11-22_0500"
        ]
    );
    let conditions = schedule.conditions();
    assert_eq!(conditions.len(), 1);
    assert_eq!(conditions[0].code, Code::SnapshotsKept.to_string());
    assert!(
        conditions[0]
            .what
            .contains("hourly.2026-11-22_0100 (held by backup)"),
        "{}",
        conditions[0].what
    );
    assert_eq!(conditions[0].health, everglade_api::Health::Healthy);
    volumes.hold("hourly.2026-11-22_0100", None);
    let outcomes = schedule.round(Moment(SUNDAY + 5 * HOUR + 5), &volumes);
    assert!(
        matches!(&outcomes[..], [RoundEvent::Deleted { .. }]),
        "{outcomes:?}"
    );
    assert!(schedule.conditions().is_empty());
}

#[test]
fn only_what_the_policy_took_counts_and_goes() {
    let (paper, volumes) = (Paper::default(), Fake::default());
    // An administrator's own snapshot, with a name like a policy's.
    volumes.take(&[("v".to_owned(), "hourly.2026-11-21_0000".to_owned())])[0]
        .as_ref()
        .expect("taken");
    let schedule = with(&paper, SUNDAY, "{\"name\": \"p\", \"hourly\": 1}");
    let round = |hour: u64| schedule.round(Moment(SUNDAY + hour * HOUR), &volumes);
    round(1);
    // A renamed snapshot does not belong to the policy any more.
    volumes.present.borrow_mut()[1].name = "precious".to_owned();
    (2..=4).for_each(|hour| _ = round(hour));
    let left = [
        "hourly.2026-11-21_0000",
        "precious",
        "hourly.2026-11-22_0400",
    ];
    assert_eq!(volumes.names(), left);
    // Without a policy no snapshot is deleted any more, and a later volume of this name has nothing
    // to do with this one.
    schedule
        .assign(Moment(SUNDAY + 5 * HOUR), "v", "none")
        .expect("given");
    (5..=9).for_each(|hour| _ = round(hour));
    assert_eq!(volumes.names(), left);
    schedule.forget("v").expect("forgotten");
    assert_eq!(schedule.policy_of("v"), "none");
}

#[test]
fn a_policy_that_changes_goes_on_with_what_it_took() {
    let (paper, volumes) = (Paper::default(), Fake::default());
    let schedule = with(&paper, SUNDAY, "{\"name\": \"p\", \"hourly\": 5}");
    let round = |at: u64| schedule.round(Moment(SUNDAY + at), &volumes);
    (1..=4).for_each(|hour| _ = round(hour * HOUR));
    assert_eq!(volumes.names().len(), 4);
    let modify = |at: u64, text: &str| {
        let request = ModifyPolicy::parse(text.as_bytes()).expect("a change");
        schedule.modify(Moment(SUNDAY + at), "p", &request)
    };
    let changed = modify(
        4 * HOUR + 60,
        "{\"hourly\": 2, \"daily\": 1, \"at\": \"03:30\"}",
    );
    assert_eq!(changed.expect("changed").daily, 1);
    // The due time 03:30 of this day was before the change, and so is that of this hour.
    let outcomes = round(4 * HOUR + 65);
    assert_eq!(taken(&outcomes), []);
    let kept = ["hourly.2026-11-22_0300", "hourly.2026-11-22_0400"];
    assert_eq!(volumes.names(), kept, "fewer are kept");
    assert_eq!(taken(&round(4 * HOUR + 1800)).len(), 1, "at half past");
    // What is not taken any more stays. Also after a restart.
    modify(5 * HOUR, "{\"hourly\": 0}").expect("changed");
    let schedule = start(paper.clone());
    let round = |at: u64| taken(&schedule.round(Moment(SUNDAY + at), &volumes));
    assert_eq!(round(9 * HOUR), []);
    assert_eq!(volumes.names().len(), 2);
    assert_eq!(round(DAY + 4 * HOUR).len(), 1, "daily");
    assert_eq!(schedule.policy("p").expect("there").hourly, 0);
    for (name, code) in [("default", Code::StillNeeded), ("nix", Code::NotFound)] {
        let request = ModifyPolicy::parse(b"{\"daily\": 9}").expect("a change");
        let refused = schedule.modify(Moment(SUNDAY), name, &request);
        assert_eq!(refused.expect_err(name).code, code);
    }
}

#[test]
fn a_refusal_is_told_and_tried_again_and_a_volume_that_is_away_waits() {
    let (paper, volumes) = (Paper::default(), Fake::default());
    let schedule = with(&paper, SUNDAY, "{\"name\": \"p\", \"hourly\": 3}");
    *volumes.refusal.borrow_mut() = Some("no space left".to_owned());
    let round = |at: u64| schedule.round(Moment(SUNDAY + at), &volumes);
    assert!(round(HOUR).is_empty());
    let conditions = schedule.conditions();
    assert_eq!(conditions[0].code, Code::ScheduleFailed.to_string());
    assert!(conditions[0].what.contains("no space left"));
    *volumes.refusal.borrow_mut() = None;
    assert!(round(HOUR + 30).is_empty(), "not every second");
    assert_eq!(taken(&round(HOUR + 60)).len(), 1);
    assert!(schedule.conditions().is_empty());
    *volumes.is_away.borrow_mut() = true;
    assert!(round(3 * HOUR).is_empty());
    assert!(
        schedule.conditions().is_empty(),
        "its aggregate says more about that"
    );
    *volumes.is_away.borrow_mut() = false;
    assert_eq!(taken(&round(3 * HOUR + 1)).len(), 1);
}

#[test]
fn a_crash_between_taking_and_writing_it_down_loses_no_snapshot_and_takes_none_twice() {
    let (paper, volumes) = (Paper::default(), Fake::default());
    let schedule = with(&paper, SUNDAY, "{\"name\": \"p\", \"hourly\": 1}");
    // Fails as if power were cut right after the snapshot.
    struct Cut<'a>(&'a Fake, &'a Paper);
    impl Volumes for Cut<'_> {
        fn snapshots(&self, volume: &str) -> Option<Vec<SnapshotEntry>> {
            self.0.snapshots(volume)
        }
        fn take(&self, wanted: &[(String, String)]) -> Vec<Result<u64, String>> {
            let result = self.0.take(wanted);
            self.1.0.lock().1 = true;
            result
        }
        fn delete(&self, doomed: &[(String, String)]) -> Vec<Result<(), String>> {
            self.0.delete(doomed)
        }
    }
    schedule.round(Moment(SUNDAY + HOUR), &Cut(&volumes, &paper));
    paper.0.lock().1 = false;
    let schedule = start(paper);
    assert!(
        schedule
            .round(Moment(SUNDAY + HOUR + 9), &volumes)
            .is_empty()
    );
    assert_eq!(volumes.names(), ["hourly.2026-11-22_0100"]);
    schedule.round(Moment(SUNDAY + 2 * HOUR), &volumes);
    assert_eq!(
        volumes.names(),
        ["hourly.2026-11-22_0200"],
        "it was the policy's"
    );
}

#[test]
fn where_the_book_cannot_be_written_nothing_is_taken() {
    let (paper, volumes) = (Paper::default(), Fake::default());
    let schedule = with(&paper, SUNDAY, "{\"name\": \"p\", \"hourly\": 1}");
    paper.0.lock().1 = true;
    assert!(schedule.round(Moment(SUNDAY + HOUR), &volumes).is_empty());
    assert!(volumes.names().is_empty());
    assert!(schedule.conditions()[0].what.contains("the disk is full"));
    let problem = schedule.create(&policy("{\"name\": \"q\", \"daily\": 1}"));
    assert_eq!(problem.expect_err("refused").code, Code::Unavailable);
    assert_eq!(schedule.policies().len(), 2, "default and p");
}

#[test]
fn a_policy_that_volumes_have_is_not_deleted() {
    let paper = Paper::default();
    let schedule = with(&paper, SUNDAY, "{\"name\": \"p\", \"hourly\": 1}");
    for (name, code) in [
        ("p", Code::InUse),
        ("default", Code::StillNeeded),
        ("nix", Code::NotFound),
    ] {
        assert_eq!(schedule.delete(name).expect_err(name).code, code, "{name}");
    }
    let again = schedule.create(&policy("{\"name\": \"p\", \"daily\": 1}"));
    assert_eq!(again.expect_err("taken").code, Code::Exists);
    let nowhere = policy("{\"name\": \"q\", \"daily\": 1, \"time_zone\": \"Mars/Olympus\"}");
    let problem = schedule.create(&nowhere).expect_err("no such zone");
    assert_eq!(problem.field.as_deref(), Some("time_zone"));
    let problem = schedule
        .assign(Moment(SUNDAY), "v", "nix")
        .expect_err("none");
    assert_eq!(problem.code, Code::NotFound);
    schedule
        .assign(Moment(SUNDAY), "v", "default")
        .expect("given");
    schedule.delete("p").expect("nobody has it");
    assert_eq!(schedule.policies().len(), 1);
}

#[test]
fn a_policy_follows_its_volume_wherever_the_daemon_ends() {
    let text = "{\"name\": \"p\", \"hourly\": 2}";
    let refused = || Problem::new(Code::Unavailable, "no");
    // Written down after the change, or not, because the daemon ended before.
    for is_written in [true, false] {
        let (paper, volumes) = (Paper::default(), Fake::default());
        let schedule = with(&paper, SUNDAY, text);
        assert_eq!(schedule.round(Moment(SUNDAY + HOUR), &volumes).len(), 1);
        let kept = schedule.rename("v", "w", || Err(refused()));
        assert_eq!(kept, Err(refused()));
        assert_eq!(
            [schedule.policy_of("v"), schedule.policy_of("w")],
            ["p", "none"]
        );
        let change = || {
            *volumes.renamed.borrow_mut() = Some("w".to_owned());
            paper.0.lock().1 = !is_written;
            Ok(())
        };
        schedule.rename("v", "w", change).expect("renamed");
        paper.0.lock().1 = false;
        let schedule = start(paper.clone());
        *volumes.is_away.borrow_mut() = true;
        schedule.round(Moment(SUNDAY + HOUR + 60), &volumes);
        *volumes.is_away.borrow_mut() = false;
        schedule.round(Moment(SUNDAY + HOUR + 120), &volumes);
        assert_eq!(
            [schedule.policy_of("v"), schedule.policy_of("w")],
            ["none", "p"]
        );
        // A snapshot taken under the old name is still the policy's, which deletes it after two
        // newer snapshots.
        for hour in 2..=4 {
            schedule.round(Moment(SUNDAY + hour * HOUR), &volumes);
        }
        assert_eq!(volumes.names().len(), 2, "{:?}", volumes.names());
    }
}

#[test]
fn a_rename_that_never_happened_leaves_the_policy_where_it_was() {
    let (paper, volumes) = (Paper::default(), Fake::default());
    let schedule = with(&paper, SUNDAY, "{\"name\": \"p\", \"hourly\": 2}");
    // The daemon ends between the record of the intention and the change.
    let planned = std::cell::RefCell::new(None);
    schedule
        .rename("v", "w", || {
            *planned.borrow_mut() = Some(paper.0.lock().0.clone());
            Ok(())
        })
        .expect("renamed");
    paper.0.lock().0 = planned.into_inner().expect("written before");
    let schedule = start(paper.clone());
    schedule.round(Moment(SUNDAY + 60), &volumes);
    assert_eq!(
        [schedule.policy_of("v"), schedule.policy_of("w")],
        ["p", "none"]
    );
    // The record of the intention does not harm a new volume of the new name either.
    schedule
        .assign(Moment(SUNDAY), "w", "default")
        .expect("given");
    schedule.round(Moment(SUNDAY + 60), &volumes);
    assert_eq!(
        [schedule.policy_of("v"), schedule.policy_of("w")],
        ["p", "default"]
    );
}

/// Aggregates with a volume each, `v1` in 1 and so on; those of the list are online.
#[derive(Clone, Default)]
struct Pools(std::sync::Arc<Mutex<Kept>>);

/// The aggregates online, and the parts by aggregate.
type Kept = (Vec<u32>, BTreeMap<u32, String>);

impl Pools {
    fn of(online: &[u32]) -> Pools {
        let pools = Pools::default();
        pools.0.lock().0 = online.to_vec();
        pools
    }

    fn set_online(&self, online: &[u32]) {
        self.0.lock().0 = online.to_vec();
    }

    fn text(&self, aggregate: u32) -> String {
        let known = &self.0.lock().1;
        known.get(&aggregate).cloned().unwrap_or_default()
    }

    fn set_text(&self, aggregate: u32, text: &str) {
        let known = &mut self.0.lock().1;
        known.insert(aggregate, text.to_owned());
    }
}

impl Shelf for Pools {
    fn online(&self) -> Vec<u32> {
        self.0.lock().0.clone()
    }

    fn name(&self, aggregate: u32) -> String {
        format!("aggr{aggregate}")
    }

    fn read(&self, aggregate: u32) -> Result<String, Unreadable> {
        match self.text(aggregate) {
            text if text == SILENT => Err(Unreadable::Unanswered("the device is gone".to_owned())),
            text => Ok(text),
        }
    }

    fn write(&self, aggregate: u32, text: &str) -> Result<(), Unwritten> {
        assert!(self.online().contains(&aggregate), "it cannot be asked");
        self.set_text(aggregate, text);
        Ok(())
    }

    fn home(&self, volume: &str) -> Option<u32> {
        volume.strip_prefix('v')?.parse().ok()
    }
}

/// The part of an aggregate whose device does not answer.
const SILENT: &str = "silence";
const OFFICE: &str = "{\"name\": \"office\", \"hourly\": 2}";

#[test]
fn an_aggregate_takes_the_policies_of_its_volumes_to_another_daemon() {
    let pools = Pools::of(&[1, 2]);
    let place = tempfile::tempdir().expect("a temporary directory");
    let schedule = Schedule::open(Box::new(pools.clone()), place.path());
    schedule.create(&policy(OFFICE)).expect("made");
    for volume in ["v1", "v2"] {
        let given = schedule.assign(Moment(SUNDAY), volume, "office");
        given.expect("given");
    }
    drop(schedule);
    assert!(pools.text(2).contains("volume.v2") && !pools.text(2).contains("volume.v1"));
    // Another policy of this name exists where aggregate 2 is attached.
    let other = Pools::of(&[1]);
    let schedule = Schedule::open(Box::new(other.clone()), place.path());
    let mine = policy("{\"name\": \"office\", \"weekly\": 9}");
    schedule.create(&mine).expect("made");
    other.set_text(2, &pools.text(2));
    other.set_online(&[1, 2]);
    assert_eq!(schedule.policy_of("v2"), "office-aggr2");
    assert_eq!(schedule.policy("office").expect("it stays").weekly, 9);
    assert_eq!(schedule.policy("office-aggr2").expect("it came").hourly, 2);
    assert!(
        schedule
            .conditions()
            .iter()
            .any(|it| it.what.contains("office-aggr2"))
    );
    // The policy is recorded in its aggregate under its new name.
    let again = Schedule::open(Box::new(other.clone()), place.path());
    assert_eq!(again.policy_of("v2"), "office-aggr2");
    assert!(again.conditions().is_empty());
    // An aggregate that leaves takes only its own policies along.
    other.set_online(&[1]);
    let refused = again.assign(Moment(SUNDAY), "v2", "default");
    assert_eq!(refused.expect_err("not now").code, Code::Unavailable);
    assert_eq!(again.policy_of("v2"), "office-aggr2");
}

#[test]
fn a_book_of_the_data_directory_moves_into_the_aggregates() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let former = place.path().join(super::NAME);
    let text = "# Written by everglade.\nversion = 1\n[[policy]]\nname = \"office\"\nhourly = \
        2\ndaily = 0\n\
        weekly = 0\nat = \"00:00\"\nweekday = \"sunday\"\ntime_zone = \"UTC\"\nvolume_count = 0\n\
        [volume.v2]\npolicy = \"office\"\n[volume.v1]\npolicy = \"default\"\n# end of policies\n";
    std::fs::write(&former, text).expect("written");
    let pools = Pools::of(&[1]);
    let schedule = Schedule::open(Box::new(pools.clone()), place.path());
    assert_eq!(schedule.policy_of("v1"), "default");
    assert!(former.exists(), "2 is not there yet");
    assert!(pools.text(1).contains("volume.v1"), "{}", pools.text(1));
    pools.set_online(&[1, 2]);
    assert_eq!(schedule.policy_of("v2"), "office");
    assert!(!former.exists(), "nothing of it is needed any more");
    assert!(place.path().join("policies.toml.moved").exists());
    let again = Schedule::open(Box::new(pools), place.path());
    assert_eq!(
        [again.policy_of("v1"), again.policy_of("v2")],
        ["default", "office"]
    );
    // A torn file is set aside, and the start reports it.
    std::fs::write(&former, &text[..80]).expect("written");
    let again = Schedule::open(Box::new(Pools::of(&[1])), place.path());
    assert_eq!(again.conditions().len(), 1);
    assert!(place.path().join("policies.toml.unreadable").exists());
}

/// One aggregate never returns, so the file stays. Entries removed meanwhile from another aggregate
/// returned from the file at each start, with their snapshots, and the next round deleted the
/// snapshots beyond the policy.
#[test]
fn what_was_removed_does_not_come_back_from_the_book_of_the_data_directory() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let former = place.path().join(super::NAME);
    let text = "version = 1\n[[policy]]\nname = \"office\"\nhourly = 1\ndaily = 0\nweekly = 0\nat \
        = \"00:00\"\n\
        weekday = \"sunday\"\ntime_zone = \"UTC\"\nvolume_count = 0\n\
        [[policy]]\nname = \"away\"\nhourly = 1\ndaily = 0\nweekly = 0\nat = \"00:00\"\n\
        weekday = \"sunday\"\ntime_zone = \"UTC\"\nvolume_count = 0\n\
        [volume.v1]\npolicy = \"office\"\n[volume.v1.run.hourly]\nseen = 1\ntaken = [\"1 a\", \"2 \
        b\", \"3 c\"]\n\
        [volume.v2]\npolicy = \"away\"\n[volume.v2.run.hourly]\nseen = 7\n# end of policies\n";
    std::fs::write(&former, text).expect("written");
    let pools = Pools::of(&[1]);
    let schedule = Schedule::open(Box::new(pools.clone()), place.path());
    assert_eq!(schedule.policy_of("v1"), "office");
    schedule
        .assign(Moment(SUNDAY), "v1", super::NO_POLICY)
        .expect("taken away");
    drop(schedule);
    let again = Schedule::open(Box::new(pools.clone()), place.path());
    assert_eq!(
        [again.policy_of("v1"), again.policy_of("v2")],
        ["none", "away"]
    );
    drop(again);
    let left = std::fs::read_to_string(&former).expect("2 is not there yet");
    assert!(!left.contains("v1") && !left.contains("office"), "{left}");
    assert!(left.contains("seen = 7"), "{left}");
    pools.set_online(&[1, 2]);
    let again = Schedule::open(Box::new(pools.clone()), place.path());
    assert_eq!(
        [again.policy_of("v1"), again.policy_of("v2")],
        ["none", "away"]
    );
    assert!(!former.exists() && pools.text(2).contains("seen = 7"));
}

/// A daemon that was downgraded replaced a part that it did not understand as soon as it read it.
#[test]
fn a_part_that_is_not_understood_stays_until_somebody_changes_it_and_is_kept_then() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let newer = "version = 2\nwhatever = \"comes\"\n# end of policies\n";
    let pools = Pools::of(&[1, 2]);
    pools.set_text(1, newer);
    let schedule = Schedule::open(Box::new(pools.clone()), place.path());
    let volumes = Fake::default();
    let told = |schedule: &Schedule| {
        let conditions = schedule.conditions();
        let told = conditions
            .iter()
            .find(|it| it.what.contains("cannot be read"));
        told.map(|it| format!("{}: {}; {}", it.object, it.what, it.action))
    };
    let text = told(&schedule).expect("an operator should know");
    for words in [
        "aggregate aggr1",
        "whatever",
        "policies-aggr1.unreadable",
        "policy set",
    ] {
        assert!(text.contains(words), "{text}");
    }
    // Reads, rounds and changes of other volumes do not replace the part.
    schedule.round(Moment(SUNDAY), &volumes);
    schedule.create(&policy(OFFICE)).expect("made");
    schedule
        .assign(Moment(SUNDAY), "v2", "office")
        .expect("given");
    schedule.round(Moment(SUNDAY + HOUR), &volumes);
    schedule.forget("v1").expect("nothing is known of it");
    assert_eq!(pools.text(1), newer);
    assert!(pools.text(2).contains("office"), "{}", pools.text(2));
    assert!(told(&schedule).is_some(), "it is still so");
    let kept = |name: &str| std::fs::read_to_string(place.path().join(name)).ok();
    assert_eq!(kept("policies-aggr1.unreadable"), None);
    // The newer daemon's text is kept; this daemon replaces the part when an administrator asks.
    schedule
        .assign(Moment(SUNDAY), "v1", "office")
        .expect("given");
    assert!(pools.text(1).contains("volume.v1"), "{}", pools.text(1));
    assert_eq!(kept("policies-aggr1.unreadable").as_deref(), Some(newer));
    assert_eq!(told(&schedule), None);
    // Another time, the text of before is not replaced either.
    pools.set_text(1, "torn");
    let again = Schedule::open(Box::new(pools.clone()), place.path());
    again
        .assign(Moment(SUNDAY), "v1", "default")
        .expect("given");
    assert_eq!(kept("policies-aggr1.unreadable").as_deref(), Some(newer));
    assert_eq!(kept("policies-aggr1.2.unreadable").as_deref(), Some("torn"));
}

/// A device that did not answer for a moment cost all policies: the daemon found none, and the next
/// change replaced them.
#[test]
fn a_part_that_was_not_read_is_replaced_by_nobody() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let pools = Pools::of(&[1, 2]);
    pools.set_text(1, SILENT);
    let schedule = Schedule::open(Box::new(pools.clone()), place.path());
    let conditions = schedule.conditions();
    let [said] = &conditions[..] else {
        panic!("{conditions:?}")
    };
    let said = format!("{}: {}; {}", said.object, said.what, said.action);
    for words in [
        "aggregate aggr1",
        "the device is gone",
        "restart the daemon",
    ] {
        assert!(said.contains(words), "{said}");
    }
    assert!(!said.contains("policy set"), "{said}");
    // Even a request that would change nothing is refused.
    for wanted in ["default", super::NO_POLICY] {
        let refused = schedule.assign(Moment(SUNDAY), "v1", wanted);
        let refused = refused.expect_err("it would replace what is there");
        assert_eq!(refused.code, Code::Unavailable);
        let said = refused.to_string();
        assert!(said.contains("aggr1") && said.contains("restart"), "{said}");
    }
    let renamed = schedule.rename("v1", "v7", || panic!("its policy would not follow"));
    assert_eq!(renamed.expect_err("not now").code, Code::Unavailable);
    // Changes to the policies of other aggregates still succeed.
    schedule.create(&policy(OFFICE)).expect("2 keeps it");
    let given = schedule.assign(Moment(SUNDAY), "v2", "office");
    given.expect("given");
    schedule.round(Moment(SUNDAY + HOUR), &Fake::default());
    schedule.forget("v1").expect("nothing is known of it");
    assert_eq!(pools.text(1), SILENT);
    assert!(pools.text(2).contains("volume.v2"), "{}", pools.text(2));
    assert_eq!(schedule.conditions().len(), 1, "it is still so");
    assert!(!place.path().join("policies-aggr1.unreadable").exists());
    // No other aggregate could keep a policy without volumes.
    pools.set_online(&[1]);
    let alone = Schedule::open(Box::new(pools.clone()), place.path());
    let refused = alone.create(&policy(OFFICE)).expect_err("nobody keeps it");
    assert_eq!(refused.code, Code::Unavailable);
    assert_eq!(pools.text(1), SILENT);
    // The device answers again.
    let text = pools.text(2).replace("volume.v2", "volume.v1");
    pools.set_text(1, &text);
    let again = Schedule::open(Box::new(pools.clone()), place.path());
    assert_eq!(again.policy_of("v1"), "office");
    let taken = again.assign(Moment(SUNDAY), "v1", super::NO_POLICY);
    taken.expect("taken away");
}

/// The old file keeps its entry of a volume while the part that the volume belongs to is not
/// understood.
#[test]
fn a_former_book_is_not_given_up_for_a_part_that_is_not_understood() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let former = place.path().join(super::NAME);
    let text = "version = 1\n[volume.v1]\npolicy = \"default\"\n[volume.v2]\npolicy \
        = \"default\"\n# end of policies\n";
    std::fs::write(&former, text).expect("written");
    let pools = Pools::of(&[1, 2]);
    pools.set_text(1, "torn");
    let schedule = Schedule::open(Box::new(pools.clone()), place.path());
    assert_eq!(schedule.policy_of("v1"), "default");
    assert_eq!(pools.text(1), "torn");
    let left = std::fs::read_to_string(&former).expect("it is needed");
    assert!(left.contains("v1") && !left.contains("v2"), "{left}");
    let again = Schedule::open(Box::new(pools.clone()), place.path());
    assert_eq!(again.policy_of("v1"), "default");
    again
        .assign(Moment(SUNDAY), "v1", super::NO_POLICY)
        .expect("taken away");
    assert!(!former.exists(), "nothing of it is needed any more");
}

/// Aggregates in which volumes can be created.
#[derive(Clone)]
struct Growing {
    pools: Pools,
    made: std::sync::Arc<Mutex<Vec<String>>>,
}

impl Growing {
    fn make(&self, volume: &str) {
        self.made.lock().push(volume.to_owned());
    }
}

impl Shelf for Growing {
    fn online(&self) -> Vec<u32> {
        self.pools.online()
    }

    fn name(&self, aggregate: u32) -> String {
        self.pools.name(aggregate)
    }

    fn read(&self, aggregate: u32) -> Result<String, Unreadable> {
        self.pools.read(aggregate)
    }

    fn write(&self, aggregate: u32, text: &str) -> Result<(), Unwritten> {
        self.pools.write(aggregate, text)
    }

    fn home(&self, volume: &str) -> Option<u32> {
        let made = self.made.lock();
        let is_made = made.iter().any(|known| known == volume);
        is_made.then(|| self.pools.home(volume))?
    }
}

/// A crash between the two left a volume without the policy that it was made with.
#[test]
fn a_volume_is_made_with_its_policy_or_not_at_all() {
    let shelf = Growing {
        pools: Pools::of(&[1]),
        made: std::sync::Arc::default(),
    };
    let place = tempfile::tempdir().expect("a temporary directory");
    let start = || Schedule::open(Box::new(shelf.clone()), place.path());
    let refused = || Err(Problem::new(Code::NoSpace, "full"));
    let schedule = start();
    // The power fails before the volume is made.
    let mut after = None;
    let made = schedule.create_volume(Moment(SUNDAY), (1, "v1"), "default", || {
        assert!(shelf.pools.text(1).contains("volume.v1"));
        let next = start();
        next.round(Moment(SUNDAY), &Fake::default());
        after = Some((next.policy_of("v1"), shelf.pools.text(1)));
        refused()
    });
    assert_eq!(made.expect_err("refused").code, Code::NoSpace);
    assert_eq!(after, Some(("none".to_owned(), String::new())));
    assert_eq!(schedule.policy_of("v1"), "none");
    // The daemon ends after the volume was created, and before the answer.
    let made = schedule.create_volume(Moment(SUNDAY), (1, "v1"), "default", || {
        shelf.make("v1");
        Ok(())
    });
    made.expect("made");
    let next = start();
    next.round(Moment(SUNDAY), &Fake::default());
    assert_eq!(next.policy_of("v1"), "default");
    assert!(shelf.pools.text(1).contains("volume.v1"));
    // Another of the name is refused, and changes nothing; without a policy nothing is written.
    for policy in ["default", super::NO_POLICY] {
        let again = next.create_volume(Moment(SUNDAY), (1, "v1"), policy, refused);
        again.expect_err("refused");
    }
    assert_eq!(next.policy_of("v1"), "default");
    let text = shelf.pools.text(1);
    let made = next.create_volume(Moment(SUNDAY), (1, "v01"), super::NO_POLICY, || {
        // A round meanwhile does not drop the entry of the new volume.
        next.round(Moment(SUNDAY), &Fake::default());
        Ok(())
    });
    made.expect("made");
    assert_eq!(shelf.pools.text(1), text);
    let made = next.create_volume(Moment(SUNDAY), (1, "v001"), "default", || {
        next.round(Moment(SUNDAY), &Fake::default());
        assert!(shelf.pools.text(1).contains("volume.v001"));
        let twin = next.create_volume(Moment(SUNDAY), (1, "v001"), "default", || Ok(()));
        assert_eq!(twin.expect_err("it is being made").code, Code::InUse);
        shelf.make("v001");
        Ok(())
    });
    made.expect("made");
    assert_eq!(next.policy_of("v001"), "default");
    // Another volume gets the name and a policy first.
    let made = next.create_volume(Moment(SUNDAY), (1, "v0001"), "default", || {
        let renamed = next.rename("v001", "v0001", || {
            shelf.make("v0001");
            Ok(())
        });
        renamed.expect("renamed");
        refused()
    });
    made.expect_err("refused");
    assert_eq!(next.policy_of("v0001"), "default");
    // The entry of a deleted volume is dropped, also if the power fails before that, and also by a
    // later volume of this name.
    next.forget("v0001").expect("it is there");
    assert_eq!(next.policy_of("v0001"), "default");
    shelf.made.lock().clear();
    next.forget("v0001").expect("it is gone");
    assert_eq!(next.policy_of("v0001"), "none");
    let anew = start();
    let made = anew.create_volume(Moment(SUNDAY), (1, "v1"), super::NO_POLICY, || Ok(()));
    made.expect("made");
    assert_eq!(anew.policy_of("v1"), "none");
    shelf.pools.set_text(1, &text);
    let anew = start();
    anew.round(Moment(SUNDAY), &Fake::default());
    assert_eq!(
        (anew.policy_of("v1").as_str(), shelf.pools.text(1)),
        ("none", String::new())
    );
    // A newer version's text is not replaced for a volume that is not created.
    shelf.pools.set_text(1, "whatever");
    let made = start().create_volume(Moment(SUNDAY), (1, "v1"), "default", refused);
    made.expect_err("refused");
    assert_eq!(shelf.pools.text(1), "whatever");
    // If the policy cannot be recorded, the volume is created only without one.
    shelf.pools.set_text(1, SILENT);
    let silent = start();
    let make = |policy| silent.create_volume(Moment(SUNDAY), (1, "v001"), policy, || Ok(()));
    let refused = make("default").expect_err("nobody keeps its policy");
    assert!(refused.to_string().contains("policy none"), "{refused}");
    make(super::NO_POLICY).expect("made");
}

#[test]
fn an_aggregate_that_goes_leaves_policies_of_nobody_to_the_next() {
    let pools = Pools::of(&[1, 2]);
    let place = tempfile::tempdir().expect("a temporary directory");
    let schedule = Schedule::open(Box::new(pools.clone()), place.path());
    schedule.create(&policy(OFFICE)).expect("made");
    schedule
        .assign(Moment(SUNDAY), "v1", "default")
        .expect("given");
    assert!(pools.text(1).contains("office") && !pools.text(2).contains("office"));
    pools.set_online(&[2]);
    schedule.leave(1);
    assert!(pools.text(2).contains("office"), "{}", pools.text(2));
    assert_eq!(schedule.policy_of("v1"), "none");
}
