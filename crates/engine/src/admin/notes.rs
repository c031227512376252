//! Replacing the text that administrators' programs keep in the aggregate.

use everglade_format::metafile::NOTES;
use everglade_format::notes::NOTES_BYTES_MAX;
use everglade_format::{CpNumber, Inode, Kind, Layer};

use crate::change::Error;
use crate::home::aggregate::Home;
use crate::tree::File;
use crate::tree::notes::Unreadable;

/// Replaces the text.
pub(crate) fn set(home: &mut Home, cp: CpNumber, seconds: u64, text: &[u8]) -> Result<(), Error> {
    if text.len() > NOTES_BYTES_MAX {
        return Err(Error::Limit(format!(
            "{} bytes of notes; an aggregate keeps at most {NOTES_BYTES_MAX}",
            text.len()
        )));
    }
    match &home.fs.notes.stuck {
        None => {}
        Some(Unreadable::Damaged(reason)) => {
            return Err(Error::Unavailable(format!(
                "the aggregate keeps no policies any more, because its notes are damaged and \
                cannot be replaced: {reason}; its data is served as ever, and volumes of another \
                aggregate can have policies"
            )));
        }
        Some(Unreadable::Unanswered(reason)) => {
            return Err(Error::Unavailable(format!(
                "the aggregate's notes could not be read when it was opened, and a change would \
                lose them: {reason}; see that its devices answer, and restart the daemon"
            )));
        }
    }
    home.fs.files.entry(NOTES).or_insert_with(|| {
        let inode = Inode::new(NOTES, Kind::Metafile, cp, seconds);
        let mut file = File::new(inode, Layer::Aggregate);
        file.inode_changed = true;
        file
    });
    let notes = &mut home.fs.notes;
    notes.text = Ok(text.into());
    notes.is_changed = true;
    home.aggregate.set_notes(notes.text());
    Ok(())
}
