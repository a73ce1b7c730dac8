//! One declaration per counter: `stats!` turns a list into the struct, the table that documentation prints,
//! and the visitor that show, JSON and metrics print from.

/// What is declared of a counter.
#[derive(Debug, PartialEq, Eq)]
pub struct Counter {
    /// The tc word and JSON key.
    pub key: &'static str,
    /// One sentence: exactly when it changes.
    pub about: &'static str,
}

/// The counters of a kind. Made by `stats!`.
pub trait Counters: Clone + core::fmt::Debug + 'static {
    /// The declarations, in order.
    const TABLE: &'static [Counter];
    /// Shows every counter, in order.
    fn visit(&self, f: &mut dyn FnMut(&'static Counter, u64));
    /// Made again from the numbers that `visit` has shown, in the same order; one that does not fit is 0.
    fn read(next: &mut dyn FnMut() -> u64) -> Self;
}

/// Declares counters: documentation, field and type (anything that widens to `u64`).
#[macro_export]
#[doc(hidden)]
macro_rules! stats {
    ($(#[$meta:meta])* pub struct $name:ident { $( $(#[doc = $doc:literal])+ $field:ident : $type:ty, )* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name { $( $(#[doc = $doc])+ pub $field: $type, )* }

        impl $crate::text::stats::Counters for $name {
            const TABLE: &'static [$crate::text::stats::Counter] = &[ $(
                $crate::text::stats::Counter { key: stringify!($field), about: concat!($($doc),+).trim_ascii() },
            )* ];

            #[allow(unused_variables, unused_mut)]
            fn visit(&self, f: &mut dyn FnMut(&'static $crate::text::stats::Counter, u64)) {
                let mut table = Self::TABLE.iter();
                $( if let Some(counter) = table.next() { f(counter, u64::from(self.$field)); } )*
            }

            #[allow(unused_variables)]
            fn read(next: &mut dyn FnMut() -> u64) -> Self {
                Self { $( $field: <$type>::try_from(next()).unwrap_or_default(), )* }
            }
        }
    };
}
