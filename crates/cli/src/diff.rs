//! `everglade snapshot diff`: printed as it comes, so that neither the daemon nor this process ever
//! holds more than one answer of it, whatever the size of the LUN.
//!
//! The JSON is one object; its ranges come before the totals, because those are known last. Ranges
//! that touch where one answer ends and the next begins are joined: the last range of an answer
//! waits for the next.

use everglade_api::{
    ChangedRange, CompareSnapshot, Name, SCHEMA_VERSION, Snapshot, SnapshotChanges, SnapshotName,
};
use serde_json::{Value, json};

use crate::failure::{Failure, exit};
use crate::output::{Output, size};
use crate::session::Session;
use crate::verb::SnapshotDiff;

pub(crate) fn run(diff: &SnapshotDiff, session: &Session, output: &Output) -> Result<(), Failure> {
    let until = until(diff)?;
    let lun = match &diff.lun {
        Some(lun) => lun.clone(),
        None => only_lun(session, &diff.name)?,
    };
    let mut question = CompareSnapshot {
        offset: diff.offset,
        length: diff.length,
        ..CompareSnapshot::whole(lun, until)
    };
    let end = diff.length.map(|length| diff.offset.saturating_add(length));
    let SnapshotName { volume, snapshot } = &diff.name;
    let path = format!("/v1/volumes/{volume}/snapshots/{snapshot}/changes");
    let mut printer = Printer::new(diff, output);
    loop {
        let place = format!("{path}?{}", question.query());
        let answer = session.get::<SnapshotChanges>(&place)?.meant;
        printer.answer(&answer)?;
        let Some(next) = answer.next_offset.filter(|next| *next > question.offset) else {
            return printer.end(&answer);
        };
        question.offset = next;
        question.length = end.map(|end| end.saturating_sub(next).max(1));
    }
}

/// Returns the only LUN, if the request names none.
fn only_lun(session: &Session, name: &SnapshotName) -> Result<Name, Failure> {
    let SnapshotName { volume, snapshot } = name;
    let path = format!("/v1/volumes/{volume}/snapshots/{snapshot}");
    let exports = session.get::<Snapshot>(&path)?.meant.nbd_exports;
    let lun = |export: &String| {
        let (_, rest) = export.split_once('/')?;
        rest.split('@').next()?.parse::<Name>().ok()
    };
    let mut luns: Vec<Name> = exports.iter().filter_map(lun).collect();
    if luns.len() == 1 {
        return Ok(luns.remove(0));
    }
    let names: Vec<&str> = luns.iter().map(Name::as_str).collect();
    let text = match names.as_slice() {
        [] => format!("{name} has no LUN, so there is nothing to compare"),
        _ => format!(
            "{name} has the LUNs {}; say which with --lun",
            names.join(", ")
        ),
    };
    Err(Failure::new(exit::USAGE, text))
}

/// Returns the newer snapshot; `None` for the active image.
fn until(diff: &SnapshotDiff) -> Result<Option<Name>, Failure> {
    let usage = |text: String| Failure::new(exit::USAGE, text);
    let Some(text) = &diff.until else {
        return Ok(None);
    };
    let (volume, snapshot) = if text.contains('@') {
        let name: SnapshotName = text.parse().map_err(|error| usage(format!("{error}")))?;
        (name.volume, Some(name.snapshot))
    } else {
        let volume: Name = text.parse().map_err(|error| usage(format!("{error}")))?;
        (volume, None)
    };
    if volume != diff.name.volume {
        let text = format!(
            "{} and {text} are of different volumes; compare images of one",
            diff.name
        );
        return Err(usage(text));
    }
    Ok(snapshot)
}

/// Prints ranges as they come.
struct Printer<'a> {
    diff: &'a SnapshotDiff,
    output: &'a Output,
    /// The beginning was printed.
    is_begun: bool,
    /// The last range, which may continue in the next answer.
    waiting: Option<ChangedRange>,
    ranges: u64,
    changed_bytes: u64,
    compared_bytes: u64,
}

impl Printer<'_> {
    fn new<'a>(diff: &'a SnapshotDiff, output: &'a Output) -> Printer<'a> {
        Printer {
            diff,
            output,
            is_begun: false,
            waiting: None,
            ranges: 0,
            changed_bytes: 0,
            compared_bytes: 0,
        }
    }

    fn answer(&mut self, answer: &SnapshotChanges) -> Result<(), Failure> {
        let mut text = String::new();
        if !self.is_begun {
            self.is_begun = true;
            text.push_str(&self.beginning(answer));
        }
        self.changed_bytes += answer.changed_bytes;
        self.compared_bytes += answer.compared_bytes;
        for range in &answer.changes {
            match &mut self.waiting {
                Some(last) if last.offset + last.length == range.offset => {
                    last.length += range.length;
                }
                waiting => {
                    if let Some(last) = waiting.replace(*range) {
                        text.push_str(&self.line(last));
                    }
                }
            }
        }
        self.output.piece(&text)
    }

    fn end(mut self, answer: &SnapshotChanges) -> Result<(), Failure> {
        let mut text = String::new();
        if let Some(last) = self.waiting.take() {
            text.push_str(&self.line(last));
        }
        if self.output.is_json() {
            let totals = json!({
                "changed_bytes": self.changed_bytes, "compared_bytes": self.compared_bytes,
                "range_count": self.ranges,
            });
            text.push_str(&format!("\n  ],\n  {}\n}}\n", inside(&totals)));
        } else {
            let until = answer.until.as_deref().map_or_else(
                || "what is active now".to_owned(),
                |until| format!("{}@{until}", answer.volume),
            );
            let ranges = match self.ranges {
                1 => "1 range".to_owned(),
                many => format!("{many} ranges"),
            };
            text.push_str(&format!(
                "{} of {} differ in {ranges}, {}/{} from {} to {until}\n",
                size(self.changed_bytes, self.diff.exact),
                size(self.compared_bytes, self.diff.exact),
                answer.volume,
                answer.lun,
                self.diff.name,
            ));
        }
        self.output.piece(&text)
    }

    fn beginning(&self, answer: &SnapshotChanges) -> String {
        if self.output.is_json() {
            let head = json!({
                "schema_version": SCHEMA_VERSION, "volume": answer.volume,
                "snapshot": answer.snapshot, "until": answer.until, "lun": answer.lun,
                "lun_bytes": answer.lun_bytes, "offset": answer.offset,
            });
            return format!("{{\n  {},\n  \"changes\": [", inside(&head));
        }
        match self.diff.no_header {
            true => String::new(),
            false => format!("{:>20}  {:>12}\n", "OFFSET", "LENGTH"),
        }
    }

    fn line(&mut self, range: ChangedRange) -> String {
        self.ranges += 1;
        let ChangedRange { offset, length } = range;
        if self.output.is_json() {
            let comma = if self.ranges == 1 { "" } else { "," };
            return format!("{comma}\n    {{\"offset\": {offset}, \"length\": {length}}}");
        }
        format!("{offset:>20}  {:>12}\n", size(length, self.diff.exact))
    }
}

/// Returns the fields of an object without its braces, on one line.
fn inside(object: &Value) -> String {
    let text = object.to_string();
    text[1..text.len() - 1].to_owned()
}
