//! Damage nobody thought of: at random places, from fixed seeds. Whatever it hits, the outcome is a
//! line of refusal, an error for a client, or the right bytes; never a crash, never other bytes.

use everglade_format::config::CONFIG_BYTES;
use everglade_format::label::{CONFIG_OFFSETS, label_offsets};

use super::{BLOCK, BLOCK_U32, Medium, SERVE, noise, with_blocks};
use crate::clients::LUN;
use crate::running::{Server, TestDir, code, stderr};
use crate::wire::{Client, EIO};

const NUMBERS: [u64; 6] = [1, 2, 300, 301, 9000, 16_000];

/// A stream of numbers from a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        // xorshift64, by Marsaglia.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % end as u64).expect("below a usize")
    }
}

/// The server, unless it refuses, which it must do in an orderly way.
#[track_caller]
fn serves_or_refuses(dir: &TestDir, what: &str) -> Option<Server> {
    let started = dir.try_serve(&SERVE);
    match started {
        Ok(server) => Some(server),
        Err(output) => {
            let said = stderr(&output);
            assert_eq!(code(&output), 1, "{what}: {said}");
            assert!(said.contains("everglade: "), "{what}: {said}");
            None
        }
    }
}

#[test]
fn blocks_damaged_at_random_are_refused_or_errors_or_right() {
    let dir = with_blocks(&NUMBERS);
    let medium = Medium::of(&dir);
    let used = medium.find(|block| block.iter().any(|byte| *byte != 0));
    let mut refused = 0;
    let mut errors = 0;
    const ROUNDS: u64 = 24;
    for round in 0..ROUNDS {
        let mut dice = Dice(0xD1CE + round);
        let victims: Vec<_> = (0..used.len() / 8)
            .map(|_| used[dice.below(used.len())])
            .collect();
        let before: Vec<_> = used.iter().map(|at| medium.read(*at, BLOCK)).collect();
        victims.iter().for_each(|at| medium.flip(*at));
        if let Some(server) = serves_or_refuses(&dir, &format!("round {round}")) {
            if let Ok((mut client, _)) = Client::open(&server.tcp, LUN) {
                for number in NUMBERS {
                    match client.read(number * BLOCK as u64, BLOCK_U32) {
                        Ok(found) => assert!(found == noise(number), "round {round}: wrong data"),
                        Err(error) => {
                            assert_eq!(error, EIO, "round {round}");
                            errors += 1;
                        }
                    }
                }
            }
            // Not in an orderly way, which would write a consistency point over the damage.
            server.kill();
        } else {
            refused += 1;
        }
        let said = dir.run(&["check"]);
        assert!(code(&said) <= 2, "round {round}: {}", stderr(&said));
        for (at, bytes) in used.iter().zip(before) {
            medium.write(*at, &bytes);
        }
        // The devices are as they were, which is a rollback if damage was mended meanwhile.
        let _ = std::fs::remove_file(dir.data_dir().join("seen.toml"));
    }
    assert!(
        refused > 0 && refused < ROUNDS && errors > 0,
        "{refused} refused, {errors} errors: the dice are loaded"
    );
    super::assert_serves(&dir, &NUMBERS);
}

#[test]
fn what_is_flushed_over_random_damage_is_there_and_a_failure_is_an_orderly_one() {
    let mut failures = 0;
    const ROUNDS: u64 = 10;
    for round in 0..ROUNDS {
        let dir = with_blocks(&NUMBERS);
        let medium = Medium::of(&dir);
        let used = medium.find(|block| block.iter().any(|byte| *byte != 0));
        let mut dice = Dice(0xF00D + round);
        for _ in 0..used.len() / 16 {
            medium.flip(used[dice.below(used.len())]);
        }
        let Some(server) = serves_or_refuses(&dir, &format!("round {round}")) else {
            continue;
        };
        let Ok((mut client, _)) = Client::open(&server.tcp, LUN) else {
            server.kill();
            continue;
        };
        let written: Vec<_> = (0..40)
            .map(|_| dice.below(16_384) as u64)
            .filter(|number| client.write(number * BLOCK as u64, &noise(*number)).is_ok())
            .collect();
        let is_flushed = client.flush().is_ok();
        drop(client);
        let (ended, log) = server.end();
        assert!([Some(0), Some(1)].contains(&ended), "round {round}: {log}");
        // The journal took what the consistency point then could not put in its place.
        failures += u64::from(ended == Some(1));
        if !is_flushed {
            continue;
        }
        let again = serves_or_refuses(&dir, &format!("round {round}, again"));
        let opened = again.and_then(|server| {
            let opened = Client::open(&server.tcp, LUN).ok();
            opened.map(|(client, _)| (server, client))
        });
        let Some((server, mut client)) = opened else {
            assert_eq!(
                ended,
                Some(1),
                "round {round}: it ended in good order: {log}"
            );
            continue;
        };
        for number in written {
            let found = client.read(number * BLOCK as u64, BLOCK_U32);
            assert!(found == Ok(noise(number)), "round {round}: block {number}");
        }
        server.kill();
    }
    assert!(
        failures > 0 && failures < ROUNDS,
        "{failures} of {ROUNDS} failed"
    );
}

#[test]
fn config_records_with_a_good_checksum_and_random_fields_are_refused_or_right() {
    let dir = with_blocks(&[1]);
    let medium = Medium::of(&dir);
    let places: Vec<_> = label_offsets(medium.size_bytes)
        .into_iter()
        .flat_map(|label| CONFIG_OFFSETS.map(|slot| label + slot))
        .filter(|at| medium.read(*at, CONFIG_BYTES).iter().any(|byte| *byte != 0))
        .collect();
    let sound = medium.read(places[0], CONFIG_BYTES);
    // Every field there is: the head, one member, one extent.
    const FIELDS_END: usize = 256 + 40 + 40;
    for round in 0..60 {
        let mut dice = Dice(0xC0DE + round);
        let mut record = sound.clone();
        let at = 8 + dice.below(FIELDS_END - 8);
        let bytes = 1 + dice.below(4);
        for byte in &mut record[at..at + bytes] {
            *byte = match dice.below(3) {
                0 => 0,
                1 => 0xFF,
                _ => u8::try_from(dice.below(256)).expect("a byte"),
            };
        }
        let record = super::labels::sealed(record);
        places.iter().for_each(|at| medium.write(*at, &record));
        let what = format!("{bytes} bytes at {at}");
        if let Some(server) = serves_or_refuses(&dir, &what) {
            if let Ok((mut client, _)) = Client::open(&server.tcp, LUN) {
                let found = client.read(BLOCK as u64, BLOCK_U32);
                assert!(
                    found == Ok(noise(1)) || found == Err(EIO),
                    "{what}: wrong data"
                );
            }
            server.kill();
        }
        let said = dir.run(&["check"]);
        assert!(code(&said) <= 2, "{what}: {}", stderr(&said));
    }
    places.iter().for_each(|at| medium.write(*at, &sound));
    super::assert_serves(&dir, &[1]);
}
