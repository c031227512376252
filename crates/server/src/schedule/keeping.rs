//! Storing and restoring reservations of LUNs, which are in the aggregates' parts of the book, too
//! (decision 0046): an aggregate has one text, and it is written as a whole.

use std::sync::Arc;

use everglade_target::reservations::{LunUuid, Registry};

use super::book::Book;
use super::library::Asked;
use super::reserved::{Reserved, bytes, digits, uuid};
use super::{Inner, Schedule};

/// Limit of the reservations of an aggregate in bytes: half of its notes, so that there is always
/// room for policies.
const BYTES_MAX: usize = 512 << 10;

impl Schedule {
    /// Restores stored reservations, now and whenever an aggregate comes online.
    pub(crate) fn follow_reservations(&self, registry: &Arc<Registry>) {
        let mut inner = self.lock();
        inner.registry = Some(Arc::clone(registry));
        inner.restore_reservations();
    }

    /// Stores the reservations of LUNs of an aggregate; `None` if nothing of a LUN is to be stored.
    ///
    /// # Errors
    /// The reason in one line. What was stored before is stored still, unless the aggregate fails.
    pub(crate) fn keep_reservations(
        &self,
        home: u32,
        states: &[(LunUuid, Option<Vec<u8>>)],
    ) -> Result<(), String> {
        let mut inner = self.lock();
        inner.can_keep(home)?;
        let mut book = inner.book.clone();
        for (lun, state) in states {
            match state {
                Some(state) => {
                    let reserved = Reserved {
                        state: digits(state),
                        home: Some(home),
                    };
                    book.reservations.insert(digits(lun), reserved);
                }
                None => _ = book.reservations.remove(&digits(lun)),
            }
        }
        let of_home = book.reservations.values();
        let of_home = of_home.filter(|it| it.home == Some(home));
        if of_home.map(|it| it.state.len()).sum::<usize>() > BYTES_MAX {
            return Err(format!(
                "the reservations of an aggregate have at most {BYTES_MAX} bytes; unregister some \
                hosts first"
            ));
        }
        inner.keep(home, book, Asked::ByNobody)
    }

    /// Forgets the reservations of deleted LUNs.
    pub(crate) fn forget_reservations(&self, luns: &[LunUuid]) {
        let mut inner = self.lock();
        let mut gone = 0;
        for lun in luns {
            gone += usize::from(inner.book.reservations.remove(&digits(lun)).is_some());
        }
        if gone > 0 {
            let book = inner.book.clone();
            if let Err(text) = inner.library.write(&book, Asked::ByNobody) {
                // No other LUN ever has their identities.
                tracing::debug!("the reservations of deleted LUNs stay for now: {text}");
            }
        }
    }
}

impl Inner {
    /// Writes a book in which the part of an aggregate has changed, and goes on with it.
    ///
    /// # Errors
    /// The reason in one line; the book stays as it was.
    pub(super) fn keep(&mut self, home: u32, book: Book, asked: Asked) -> Result<(), String> {
        let written = self.library.write(&book, asked);
        written.map_err(|unwritten| unwritten.text)?;
        if !self.library.has_written(home) {
            return Err("the aggregate does not take changes now".to_owned());
        }
        self.book = book;
        Ok(())
    }

    /// Restores the reservations of LUNs that were not restored yet.
    pub(super) fn restore_reservations(&mut self) {
        let Some(registry) = &self.registry else {
            return;
        };
        for (lun, reserved) in &self.book.reservations {
            let known = uuid(lun).expect("checked when it was read");
            if self.restored.insert(lun.clone()) {
                let state = bytes(&reserved.state).expect("checked when it was read");
                let restored = registry.lun(&known).restore(&state);
                restored.expect("checked when it was read");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use everglade_engine::Unreadable;
    use everglade_env::lock::Mutex;
    use everglade_target::reservations::{Access, Existing, Host, Kind};

    use super::*;
    use crate::schedule::{Shelf, Unwritten};

    /// The notes of one aggregate, and whether they can be written.
    #[derive(Clone)]
    struct Paper(Arc<Mutex<(String, bool)>>);

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
            match inner.1 {
                true => text.clone_into(&mut inner.0),
                false => return Err("the disk is full".to_owned().into()),
            }
            Ok(())
        }

        fn home(&self, _: &str) -> Option<u32> {
            Some(1)
        }
    }

    fn paper(text: &str) -> Paper {
        Paper(Arc::new(Mutex::new((text.to_owned(), true))))
    }

    /// A daemon that begins: its schedule and its reservations.
    fn start(paper: &Paper) -> (Schedule, Arc<Registry>) {
        let schedule = Schedule::open(Box::new(paper.clone()), Path::new("/nonexistent"));
        let registry = Arc::new(Registry::with_keeper(|| {}));
        schedule.follow_reservations(&registry);
        (schedule, registry)
    }

    fn reserved() -> (Host, Vec<u8>) {
        let (host, lun) = (Host::new(b"a"), Registry::default().lun(&[0; 16]));
        let changed = lun.change(|state| {
            state.register(&host, Existing::Ignored, 7)?;
            state.acquire(&host, 7, Kind::WriteExclusive)
        });
        assert_eq!(changed, Ok(()));
        (host, lun.store())
    }

    #[test]
    fn what_was_stored_is_there_after_a_start_until_it_is_removed() {
        let (paper, (host, state)) = (paper(""), reserved());
        let (schedule, _) = start(&paper);
        let states = [([1; 16], Some(state.clone())), ([2; 16], Some(state))];
        assert_eq!(schedule.keep_reservations(1, &states), Ok(()));
        let stranger = Host::new(b"b");
        let (schedule, registry) = start(&paper);
        for lun in [[1; 16], [2; 16]] {
            let lun = registry.lun(&lun);
            assert!(lun.may(&host, Access::Write) && !lun.may(&stranger, Access::Write));
        }
        assert_eq!(schedule.keep_reservations(1, &[([1; 16], None)]), Ok(()));
        schedule.forget_reservations(&[[2; 16]]);
        assert_eq!(start(&paper).1.uuids(), Vec::<LunUuid>::new());
        assert_eq!(paper.0.lock().0, "", "nothing is left");
    }

    #[test]
    fn what_cannot_be_written_is_refused_and_the_notes_stay() {
        let (_, state) = reserved();
        let states = [([1; 16], Some(state))];
        let full = paper("");
        let (schedule, _) = start(&full);
        full.0.lock().1 = false;
        let refused = schedule.keep_reservations(1, &states);
        assert_eq!(refused, Err("the disk is full".to_owned()));
        full.0.lock().1 = true;
        assert_eq!(schedule.keep_reservations(1, &[]), Ok(()));
        assert_eq!(full.0.lock().0, "", "it was taken back");
        // Of a newer version, and of an unknown kind.
        for text in ["version = 2\n# end of policies\n", "torn"] {
            let foreign = paper(text);
            let (schedule, registry) = start(&foreign);
            assert!(schedule.keep_reservations(1, &states).is_err());
            assert_eq!(
                (foreign.0.lock().0.as_str(), registry.uuids()),
                (text, vec![])
            );
        }
        // More than half of the notes.
        let long = [([1; 16], Some(vec![0; BYTES_MAX]))];
        assert!(schedule.keep_reservations(1, &long).is_err());
    }
}
