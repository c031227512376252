//! Tests of [`super`]: what is measured, on made-up figures and servers.

use super::super::page::page;
use super::*;

fn record(rate: f64) -> Record {
    Record {
        rates: vec![rate, rate + 1.0],
        cpu_us: vec![1.5, 2.5],
        operations: 100,
        wall: Duration::from_secs(20),
        cost: Cost {
            server: Duration::from_millis(30),
            kernel: Duration::from_millis(20),
            others: Duration::from_millis(10),
            wall: Duration::from_secs(22),
            device: Some(Traffic {
                read: 4096,
                written: 819_200,
            }),
        },
        points: Some(Points {
            p50: Duration::from_micros(5),
            p99: Duration::from_micros(6),
            p999: Duration::from_micros(7),
            max: Duration::from_micros(8),
        }),
        host_bytes: Some(3 << 20),
        restless: 1,
        ..Record::default()
    }
}

fn outcome(row: Row) -> RowResult {
    let arms = row.arms.iter().enumerate();
    let records = arms.map(|(index, arm)| {
        #[expect(clippy::cast_precision_loss, reason = "a dozen")]
        let rate = 10.0 * (index + 1) as f64;
        (*arm, record(rate))
    });
    RowResult {
        records: records.collect(),
        seconds: 10.0,
        commit: "c1".to_owned(),
        row,
    }
}

fn tail() -> Tail {
    let turn = TailTurn {
        points: Points::default(),
        reads: 3.0,
        writes: 4.0,
    };
    Tail {
        turns: super::super::tail::ARMS
            .map(|arm| (arm, vec![turn; 2]))
            .into(),
        seconds: 10.0,
    }
}

fn results() -> Results {
    Results {
        about: vec![("commit", "c1".to_owned()), ("parameters", "p".to_owned())],
        outcomes: row::all().into_iter().map(outcome).collect(),
        tail: Some(tail()),
        starts: super::super::facts::SIZES
            .map(|size| Start {
                size,
                written: 1,
                first_read: Duration::from_millis(2),
                ready: Duration::from_millis(1),
                peak_bytes: 1 << 20,
            })
            .into(),
        caps: vec![Cap {
            memory_bytes: 256 << 20,
            lun_bytes: 1 << 30,
            peak_bytes: 250 << 20,
            rate: 9.0,
        }],
        idle: Some(0.001),
        levels: vec![Level {
            percent: 92,
            reached: 91.5,
            pool_bytes: 64 << 30,
            outcomes: row::filled().into_iter().map(outcome).collect(),
            tail: tail(),
        }],
        is_quick: false,
    }
}

#[test]
fn a_page_is_the_same_after_its_results_were_stored() {
    let results = results();
    let text = json(&results).to_string();
    let back = resume(&text, results.about.clone()).unwrap();
    assert_eq!(page(&back, "x.svg"), page(&results, "x.svg"));
    assert_eq!(json(&back), json(&results));
}

#[test]
fn rows_of_other_parameters_do_not_mix() {
    let text = json(&results()).to_string();
    let about = vec![("parameters", "q".to_owned())];
    let problem = resume(&text, about).map(drop).unwrap_err();
    assert!(problem.contains("other parameters"), "{problem}");
    let about = vec![("commit", "c2".to_owned())];
    assert_eq!(resume(&text, about).unwrap().about[0].1, "c1, c2");
}

#[test]
fn a_row_that_is_measured_again_takes_its_place() {
    let mut results = results();
    let before: Vec<_> = results.outcomes.iter().map(|one| one.row.key).collect();
    let mut again = outcome(row::all().remove(2));
    again.seconds = 11.0;
    results.put(again);
    let after: Vec<_> = results.outcomes.iter().map(|one| one.row.key).collect();
    assert_eq!(before, after);
    assert_eq!(results.outcomes[2].seconds, 11.0);
    assert!(results.has("read-q32") && results.has("fill-92") && !results.has("fill-50"));
}

#[test]
fn a_goal_against_a_peer_that_could_not_run_is_not_reached() {
    let mut results = results();
    for outcome in &mut results.outcomes {
        outcome.records.remove(&Arm::QemuRaw);
    }
    let text = page(&results, "x.svg");
    let goal = "| random read q1 / qsd raw | ≥ 1 | not measured | **no** |";
    assert!(text.contains(goal), "{text}");
}

#[test]
fn the_page_tells_cost_and_raw_figures_of_every_row() {
    let results = results();
    let text = page(&results, "x.svg");
    assert!(!text.contains("quick run"));
    // Loads and costs, rows and levels.
    let rows = row::all().len() + row::filled().len();
    let raw = text
        .lines()
        .filter(|line| line.starts_with("| fio on the file |"));
    assert_eq!(raw.count(), 2 * rows + 1);
    // 100 requests of 4 KiB, of which the device wrote twice as much, in 50 ms of CPU.
    assert!(
        text.contains("| qsd raw | 500.00 | 200.00 | 0.01 | 2.00 | 0 | 3 |"),
        "{text}"
    );
    assert!(text.contains("`always-q32`, turns of 10.0 s, latency until durable"));
    let quick = Results {
        is_quick: true,
        ..results
    };
    assert!(page(&quick, "x.svg").contains("**A quick run"));
}
