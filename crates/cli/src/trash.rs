//! `everglade trash …`, and `undelete` of LUNs, snapshots and volumes.

use everglade_api::{Job, Name, Size, Status, Trash, TrashItem, TrashKind, Undelete, Undeleted};
use serde_json::{Value, json};

use crate::failure::{Failure, exit};
use crate::job;
use crate::listing::{self, Cell, Column, if_asked};
use crate::output::Output;
use crate::session::{Answer, Session};
use crate::status::duration;
use crate::verb::{TrashEmpty, TrashVerb};

const TRASH: [Column<TrashItem>; 8] = [
    Column::text("name", |it| Cell::text(&it.name)),
    Column::words("kind", "TrashKind", |it| Cell::text(it.kind)),
    Column::bytes("size", |it| Cell::Bytes(it.size_bytes)),
    Column::bytes("used", |it| Cell::Bytes(it.used_bytes)),
    Column::time("deleted", |it| Cell::text(&it.deleted)),
    Column::time("until", |it| Cell::text(&it.until)),
    if_asked(Column::text("aggregate", |it| Cell::text(&it.aggregate))),
    Column::text("id", |it| Cell::text(&it.id)),
];

pub(crate) fn run(
    verb: &TrashVerb,
    session: &Session,
    output: &Output,
    yes: bool,
) -> Result<u8, Failure> {
    match verb {
        TrashVerb::Show(show) => {
            let told = list(session)?;
            let items = ("trash", told.meant.trash.as_slice());
            listing::print(&told, items, &TRASH, &show.listing, output)?;
            Ok(exit::OK)
        }
        TrashVerb::Empty(what) => empty(what, session, output, yes),
    }
}

fn list(session: &Session) -> Result<Answer<Trash>, Failure> {
    session.get::<Trash>("/v1/trash")
}

/// Removes for good what is named, or everything.
fn empty(what: &TrashEmpty, session: &Session, output: &Output, yes: bool) -> Result<u8, Failure> {
    let known = list(session)?.meant.trash;
    let mut chosen = Vec::new();
    for word in &what.names {
        chosen.push(one(&known, word, |_| true)?.clone());
    }
    if what.names.is_empty() {
        chosen = known;
    }
    if what.removal.dry_run || !yes {
        let said = match chosen.as_slice() {
            [] => "nothing, because the trash is empty,".to_owned(),
            [item] => format!("{} {}", item.kind.noun(), item.name),
            items => format!("{} objects of the trash", items.len()),
        };
        if !what.removal.dry_run {
            return Err(Failure::not_confirmed(said));
        }
        let raw = listing::versioned(json!({"would": "trash empty", "lost": chosen}));
        output.data(&raw, || {
            let mut text = format!("{said} would be lost for good\n");
            for item in &chosen {
                let (noun, name) = (item.kind.noun(), &item.name);
                text.push_str(&format!("  {noun} {name} ({})\n", age_and_size(item)));
            }
            text
        })?;
        return Ok(exit::OK);
    }
    let mut last = None;
    for item in &chosen {
        let job = session.delete(&format!("/v1/trash/{}", item.id))?;
        output.done(&format!(
            "deleted {} {} for good",
            item.kind.noun(),
            item.name
        ));
        last = Some(job);
    }
    match last {
        // One aggregate frees one object after the other, so the last job is the one to wait for.
        Some(job) => job::follow(session, output, job, what.removal.wait),
        None => {
            output.done("the trash is empty");
            Ok(exit::OK)
        }
    }
}

/// Finds what a word names: the id of an object, or its name, if only one has it.
fn one<'a>(
    known: &'a [TrashItem],
    word: &str,
    is_meant: impl Fn(&TrashItem) -> bool,
) -> Result<&'a TrashItem, Failure> {
    if let Some(item) = known.iter().find(|item| item.id == word) {
        return Ok(item);
    }
    let named = known.iter().filter(|item| item.name == word);
    let named: Vec<&TrashItem> = named.filter(|item| is_meant(item)).collect();
    match named.as_slice() {
        [item] => Ok(item),
        [] => Err(Failure::new(
            exit::NOT_FOUND,
            format!("{word} is not in the trash; 'everglade trash show' lists what is"),
        )),
        several => {
            let ids = several
                .iter()
                .map(|item| format!("{} ({})", item.id, age_and_size(item)));
            let ids: Vec<String> = ids.collect();
            Err(Failure::new(
                exit::CONFLICT,
                format!(
                    "several have the name {word}: use an id, {}",
                    ids.join(" or ")
                ),
            ))
        }
    }
}

/// Tells objects of one name apart.
fn age_and_size(item: &TrashItem) -> String {
    format!("{}, deleted {}", Size(item.size_bytes), item.deleted)
}

/// Takes an object out of the trash.
pub(crate) fn undelete(
    session: &Session,
    output: &Output,
    kind: TrashKind,
    word: &str,
    to: Option<&Name>,
) -> Result<(), Failure> {
    let known = list(session)?.meant.trash;
    let item = one(&known, word, |item| item.kind == kind)?;
    if item.kind != kind {
        let text = format!(
            "{} is a {}: use '{} undelete'",
            item.name,
            item.kind.noun(),
            item.kind
        );
        return Err(Failure::new(exit::USAGE, text));
    }
    let path = format!("/v1/trash/{}/actions/undelete", item.id);
    let request = Undelete { name: to.cloned() };
    let told = session.post::<Undeleted>(&path, &request);
    let told = told.map_err(|failure| failure.of_option("name", "--as"))?;
    output.for_programs(&told.raw)?;
    output.done(&format!("{} {} is back", kind.noun(), told.meant.name));
    Ok(())
}

/// Says what becomes of something that is about to be deleted.
pub(crate) fn fate(session: &Session, purge: bool) -> Result<Option<String>, Failure> {
    if purge {
        return Ok(None);
    }
    let keep = session
        .get::<Status>("/v1/status")?
        .meant
        .trash_keep_seconds;
    Ok((keep > 0).then(|| format!("stay in the trash for {}", duration(keep))))
}

/// What a dry run says of objects that would be deleted: those that would be lost, and those that
/// would go into the trash.
pub(crate) fn lost_and_kept(kept: Option<&str>, objects: Value) -> (Value, Value) {
    match kept {
        None => (objects, Value::Null),
        Some(_) => (Value::Null, objects),
    }
}

/// Says where something that was deleted is, and how it comes back.
pub(crate) fn told(deleted: &str, job: &Job, undelete: &str) -> String {
    match &job.detail {
        Some(detail) if job.total_bytes == 0 => {
            format!("{deleted}; {detail}, and '{undelete}' brings it back")
        }
        _ => deleted.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(id: &str, kind: TrashKind, name: &str) -> TrashItem {
        TrashItem {
            id: id.to_owned(),
            kind,
            name: name.to_owned(),
            aggregate: "a".to_owned(),
            size_bytes: 1 << 30,
            used_bytes: 0,
            deleted: "2026-11-28T12:00:00Z".to_owned(),
            until: "2026-11-29T12:00:00Z".to_owned(),
        }
    }

    #[test]
    fn a_word_is_an_id_or_the_name_of_one_object() {
        let known = [
            item("1", TrashKind::Lun, "v/l"),
            item("2", TrashKind::Lun, "v/l"),
            item("3", TrashKind::Volume, "w"),
        ];
        let found = |word| one(&known, word, |_| true).map(|item| item.id.as_str());
        assert_eq!(found("2"), Ok("2"));
        assert_eq!(found("w"), Ok("3"));
        let several = found("v/l").expect_err("two have it");
        assert_eq!(several.code, exit::CONFLICT);
        assert!(
            several
                .message
                .contains("1 (1.0 GiB, deleted 2026-11-28T12:00:00Z) or 2 (")
        );
        let none = found("x").expect_err("none has it");
        assert_eq!(none.code, exit::NOT_FOUND);
        assert!(one(&known, "w", |item| item.kind == TrashKind::Lun).is_err());
    }
}
