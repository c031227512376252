//! A number for each kind of something: faults, background work, growths.

/// Defines a table with a number for each value of an enum that has `ALL` and `name`.
macro_rules! counts {
    ($(#[$doc:meta])* $name:ident of $kind:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name([u64; $kind::ALL.len()]);

        impl $name {
            /// Adds the numbers of another.
            pub fn add(&mut self, other: &$name) {
                for (mine, theirs) in self.0.iter_mut().zip(other.0) {
                    *mine += theirs;
                }
            }
        }

        impl std::ops::Index<$kind> for $name {
            type Output = u64;

            fn index(&self, kind: $kind) -> &u64 {
                &self.0[kind as usize]
            }
        }

        impl std::ops::IndexMut<$kind> for $name {
            fn index_mut(&mut self, kind: $kind) -> &mut u64 {
                &mut self.0[kind as usize]
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                for (place, kind) in $kind::ALL.into_iter().enumerate() {
                    let space = if place == 0 { "" } else { " " };
                    write!(f, "{space}{} {}", kind.name(), self[kind])?;
                }
                Ok(())
            }
        }
    };
}

pub(crate) use counts;
