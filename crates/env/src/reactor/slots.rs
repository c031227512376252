//! A slab whose keys are never valid for a later occupant of the same slot: index in the low half,
//! generation in the high half.

/// Values by key.
pub(super) struct Slots<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Slots<T> {
    pub(super) fn new() -> Slots<T> {
        Slots {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(super) fn insert(&mut self, value: T) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                generation: 0,
                value: None,
            });
            u32::try_from(self.slots.len() - 1).expect("operations in flight are bounded")
        });
        let slot = &mut self.slots[index as usize];
        assert!(slot.value.is_none(), "a free slot is empty");
        slot.value = Some(value);
        u64::from(slot.generation) << 32 | u64::from(index)
    }

    /// Stops the process if the key names nothing: a completion without an operation in flight.
    pub(super) fn get(&mut self, key: u64) -> &mut T {
        self.slot(key)
            .value
            .as_mut()
            .expect("the key names an occupied slot")
    }

    pub(super) fn remove(&mut self, key: u64) -> T {
        let slot = self.slot(key);
        slot.generation = slot.generation.wrapping_add(1);
        let value = slot.value.take().expect("the key names an occupied slot");
        self.free.push(index_of(key));
        value
    }

    fn slot(&mut self, key: u64) -> &mut Slot<T> {
        let slot = &mut self.slots[index_of(key) as usize];
        assert_eq!(
            u64::from(slot.generation),
            key >> 32,
            "the key is of an earlier occupant"
        );
        slot
    }
}

fn index_of(key: u64) -> u32 {
    u32::try_from(key & u64::from(u32::MAX)).expect("the low half of a key")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_their_keys() {
        let mut slots = Slots::new();
        let keys: Vec<u64> = (0..10).map(|value| slots.insert(value)).collect();
        assert_eq!(slots.remove(keys[3]), 3);
        assert_eq!(slots.len(), 9);
        let reused = slots.insert(33);
        assert_ne!(reused, keys[3]);
        assert_eq!(*slots.get(reused), 33);
        assert_eq!(*slots.get(keys[9]), 9);
    }

    #[test]
    #[should_panic(expected = "earlier occupant")]
    fn an_old_key_is_an_own_bug() {
        let mut slots = Slots::new();
        let old = slots.insert(1);
        slots.remove(old);
        slots.insert(2);
        slots.get(old);
    }
}
