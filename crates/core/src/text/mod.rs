//! Words to values and values to words: parameters, counters, errors, and the notation of tc(8) for numbers.

pub mod chance;
pub mod error;
pub mod impairment;
pub mod params;
pub mod stats;
pub mod value;
