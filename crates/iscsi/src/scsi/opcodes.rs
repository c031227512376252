//! REPORT SUPPORTED OPERATION CODES and TASK MANAGEMENT FUNCTIONS (SPC-4 §6.35, §6.36).

use super::Sense;
use super::table::{Row, TABLE};

/// Support of a command: it is as the standard says, or it is not there.
const SUPPORTED: u8 = 3;
const NOT_SUPPORTED: u8 = 1;
/// Bytes of a description of time limits, all of them unknown.
const TIMEOUTS: [u8; 12] = [0, 0x0a, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// Answers REPORT SUPPORTED OPERATION CODES.
///
/// # Errors
/// The question does not fit the operation code.
pub fn codes(options: u8, has_timeouts: bool, opcode: u8, action: u16) -> Result<Vec<u8>, Sense> {
    let mut rows = TABLE.iter().filter(|row| row.opcode == opcode);
    let has_actions = TABLE
        .iter()
        .any(|row| row.opcode == opcode && row.action.is_some());
    let found = match options {
        0 => return Ok(all(has_timeouts)),
        1 if has_actions => return Err(Sense::in_command(2)),
        1 => rows.next(),
        2 if !has_actions && rows.next().is_some() => return Err(Sense::in_command(2)),
        2 => rows.find(|row| row.action == Some(action)),
        3 => rows.find(|row| row.action.unwrap_or(0) == action),
        _ => return Err(Sense::in_command(2)),
    };
    Ok(one(found, has_timeouts))
}

fn all(has_timeouts: bool) -> Vec<u8> {
    let mut answer = vec![0; 4];
    for row in TABLE {
        let [high, low] = row.action.unwrap_or(0).to_be_bytes();
        let flags = u8::from(row.action.is_some()) | if has_timeouts { 2 } else { 0 };
        let length = u8::try_from(row.usage.len()).expect("at most 16");
        answer.extend([row.opcode, 0, high, low, 0, flags, 0, length]);
        if has_timeouts {
            answer.extend(TIMEOUTS);
        }
    }
    let length = u32::try_from(answer.len() - 4).expect("a small table");
    answer[..4].copy_from_slice(&length.to_be_bytes());
    answer
}

fn one(row: Option<&Row>, has_timeouts: bool) -> Vec<u8> {
    let Some(row) = row else {
        return vec![0, NOT_SUPPORTED, 0, 0];
    };
    let timeouts = if has_timeouts { 0x80 } else { 0 };
    let length = u8::try_from(row.usage.len()).expect("at most 16");
    let mut answer = vec![0, timeouts | SUPPORTED, 0, length];
    answer.extend(row.usage);
    if has_timeouts {
        answer.extend(TIMEOUTS);
    }
    answer
}

/// Answers REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS: aborting a task and a set of tasks, clearing
/// a set, resetting the unit.
#[must_use]
pub fn task_management(is_long: bool) -> Vec<u8> {
    let functions = [0xd8, 0, 0, 0];
    match is_long {
        false => functions.to_vec(),
        true => [&[0xd8, 0, 0, 12][..], &[0; 12]].concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_and_the_single_answers_agree() {
        let list = codes(0, true, 0, 0).expect("a list");
        for description in list[4..].chunks_exact(20) {
            let (opcode, length) = (description[0], description[7]);
            let action = u16::from_be_bytes([description[2], description[3]]);
            let (right, wrong) = match description[5] & 1 {
                1 => (2, 1),
                _ => (1, 2),
            };
            for options in [right, 3] {
                let answer = codes(options, false, opcode, action).expect("it is listed");
                assert_eq!(answer[..4], [0, 3, 0, length]);
                assert_eq!((answer[4], answer.len()), (opcode, 4 + usize::from(length)));
            }
            assert_eq!(
                codes(wrong, false, opcode, action),
                Err(Sense::in_command(2))
            );
        }
        assert_eq!(codes(1, false, 0xff, 0), Ok(vec![0, 1, 0, 0]));
        assert_eq!(codes(2, false, 0x9e, 0x1f), Ok(vec![0, 1, 0, 0]));
        assert_eq!(codes(4, false, 0, 0), Err(Sense::in_command(2)));
    }
}
