//! One declaration per counter: `stats!` turns a list into the struct, the table that documentation
//! prints, and the visitor that show, JSON and metrics print from.

/// Declaration of a counter.
#[derive(Debug, PartialEq, Eq)]
pub struct Counter {
    /// The tc word and JSON key.
    pub key: &'static str,
    /// One sentence: exactly when it changes.
    pub about: &'static str,
    /// The form in which tc prints it.
    pub print: Print,
    /// True if its number may also go down, as that of waiting packets does; false for a count of
    /// events.
    pub falls: bool,
    /// The unit of its number.
    pub unit: Unit,
}

/// Unit of a counter's number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// Packets, events, or none.
    #[default]
    One,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    Rate,
    /// Microseconds.
    Micros,
    /// Nanoseconds.
    Nanos,
    /// Parts of 2^32.
    Part32,
    /// Parts of 2^64.
    Part64,
}

/// Form in which tc prints a counter: key and number, unless a field changes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Print {
    /// True if it begins a line.
    pub line: bool,
    /// True if it is left out while it is zero.
    pub nonzero: bool,
    /// Meaning of its number.
    pub form: Form,
    /// Flag among the parameters without which the counter is left out.
    pub with: Option<&'static str>,
}

/// Meaning of the number of a counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// A number.
    #[default]
    Number,
    /// Microseconds.
    Micros,
    /// A truth value: tc prints the key alone while it is not zero, and JSON `true`.
    Word,
    /// Units of 2^-64, which are printed as a fraction.
    Part,
}

/// The type of a counter's field.
pub trait Number {
    /// Returns the value of this number, or zero if the type has none.
    fn of(number: u64) -> Self;
}

macro_rules! numbers {
    ($($type:ty)*) => { $(
        impl Number for $type {
            fn of(number: u64) -> Self {
                Self::try_from(number).unwrap_or_default()
            }
        }
    )* };
}
numbers!(u8 u16 u32 u64);

impl Number for bool {
    fn of(number: u64) -> Self {
        number == 1
    }
}

impl Counter {
    /// Returns a counter that tc prints as key and number.
    pub const fn new(key: &'static str, about: &'static str) -> Self {
        let print = Print { line: false, nonzero: false, form: Form::Number, with: None };
        Self { key, about, print, falls: false, unit: Unit::One }
    }
    /// Makes it begin a line.
    #[must_use]
    pub const fn line(mut self) -> Self {
        self.print.line = true;
        self
    }
    /// Leaves it out while it is zero.
    #[must_use]
    pub const fn nonzero(mut self) -> Self {
        self.print.nonzero = true;
        self
    }
    /// Declares its unit to be microseconds, and makes tc print it as a time.
    #[must_use]
    pub const fn micros(mut self) -> Self {
        self.print.form = Form::Micros;
        self.of(Unit::Micros)
    }
    /// Declares that its number may also go down.
    #[must_use]
    pub const fn falls(mut self) -> Self {
        self.falls = true;
        self
    }
    /// Declares its unit.
    #[must_use]
    pub const fn of(mut self, unit: Unit) -> Self {
        self.unit = unit;
        self
    }
    /// Makes it a word, printed while it is not zero.
    #[must_use]
    pub const fn word(mut self) -> Self {
        self.print.form = Form::Word;
        self.nonzero().falls()
    }
    /// Declares its unit to be 2^-64.
    #[must_use]
    pub const fn part(mut self) -> Self {
        self.print.form = Form::Part;
        self.of(Unit::Part64).falls()
    }
    /// Leaves it out unless this flag is set among the parameters.
    #[must_use]
    pub const fn with(mut self, flag: &'static str) -> Self {
        self.print.with = Some(flag);
        self
    }
}

/// The counters of a kind. Made by `stats!`.
pub trait Counters: Clone + core::fmt::Debug + 'static {
    /// Declarations, in order.
    const TABLE: &'static [Counter];
    /// Calls `f` on every counter, in order.
    fn visit(&self, f: &mut dyn FnMut(&'static Counter, u64));
    /// Makes the counters from the numbers that `visit` has shown, in the same order; a number that
    /// does not fit becomes 0.
    fn read(next: &mut dyn FnMut() -> u64) -> Self;
}

/// Declares counters: documentation, field and type (any type that widens to `u64`). If tc does not
/// print a counter as key and number, its form follows: one or several of `[line]`, `[nonzero]`,
/// `[micros]`, `[word]`, `[part]`, `[with("flag")]`, the methods of [`Counter`]. `[falls]` stands
/// beside a number that may also go down, and `[of(Bytes)]`, a [`Unit`], beside one with a unit.
#[macro_export]
#[doc(hidden)]
macro_rules! stats {
    ($(#[$meta:meta])* $vis:vis struct $name:ident {
        $( $(#[doc = $doc:literal])+ $field:ident : $type:ty $([$($how:tt)+])*, )*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        $vis struct $name { $( $(#[doc = $doc])+ pub $field: $type, )* }

        impl $crate::text::stats::Counters for $name {
            const TABLE: &'static [$crate::text::stats::Counter] = &[ $(
                $crate::stats!(@print
                    $crate::text::stats::Counter::new(stringify!($field), concat!($($doc),+).trim_ascii())
                    $(, [$($how)+])*),
            )* ];

            #[allow(unused_variables, unused_mut)]
            fn visit(&self, f: &mut dyn FnMut(&'static $crate::text::stats::Counter, u64)) {
                let mut table = Self::TABLE.iter();
                $( if let Some(counter) = table.next() { f(counter, u64::from(self.$field)); } )*
            }

            #[allow(unused_variables)]
            fn read(next: &mut dyn FnMut() -> u64) -> Self {
                Self { $( $field: <$type as $crate::text::stats::Number>::of(next()), )* }
            }
        }
    };

    (@print $counter:expr) => { $counter };
    (@print $counter:expr, [with($flag:literal)] $($rest:tt)*) => {
        $crate::stats!(@print $counter.with($flag) $($rest)*)
    };
    (@print $counter:expr, [of($unit:ident)] $($rest:tt)*) => {
        $crate::stats!(@print $counter.of($crate::text::stats::Unit::$unit) $($rest)*)
    };
    (@print $counter:expr, [$how:ident] $($rest:tt)*) => { $crate::stats!(@print $counter.$how() $($rest)*) };
}
