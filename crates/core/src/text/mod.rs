//! Conversion of words to values and of values to words: parameters, counters, errors, and the
//! notation of tc(8) for numbers.

pub mod attribute;
pub mod chance;
pub mod error;
#[cfg(feature = "kinds")]
mod gain;
#[cfg(feature = "kinds")]
pub mod impairment;
mod link;
pub mod params;
pub mod stats;
mod ticks;
pub mod value;
