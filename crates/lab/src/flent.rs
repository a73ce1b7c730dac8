//! Files of flent (<https://flent.org>), the tests of real lines: a run of a real line beside the
//! policies of a trial, and the runs of a trial as files that flent opens.
//!
//! A file is JSON, mostly compressed with gzip (RFC 1952): `x_values` are seconds since the start,
//! `results` have the values of each series at these times, `metadata` say what was run. Rates are
//! in Mbit/s, round trips in milliseconds. Sources: files of flent 2.3.0, and its manual.

mod read;

use serde::Serialize;

use crate::dist::Times;

pub use read::{FILE_BYTES_MAX, FlentError, POINTS_MAX, SERIES_MAX, TEXT_BYTES_MAX};

/// Most steps of a [`Line`]: beyond, neighbouring values are one step.
pub const STEPS_MAX: usize = 1000;
/// Most runs of real lines beside a trial.
pub const LINES_MAX: usize = 4;

/// A run of a real line. It covers the time in which TCP sent, or all of it if no series is of TCP.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// Name of the file.
    pub name: String,
    /// Name of the test.
    pub test: String,
    /// Title that its user gave.
    pub title: String,
    /// The host at the other end.
    pub host: String,
    /// The time of the run, as the file has it.
    pub time: String,
    /// Length of the covered time.
    pub length_ns: u64,
    /// The end of each step, from the beginning of the covered time.
    pub at_ns: Vec<u64>,
    /// TCP from here.
    pub upload: Option<Flows>,
    /// TCP to here.
    pub download: Option<Flows>,
    /// Round trips of all pings.
    pub ping: Option<Pings>,
}

/// TCP in one direction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Flows {
    /// Mean rate of all flows together.
    pub throughput_bit_s: u64,
    /// The rate in each step; null where nothing was measured.
    pub series_bit_s: Vec<Option<u64>>,
    /// Each of the first flows over time.
    pub flows: Vec<Flow>,
}

/// A flow over time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Flow {
    /// Name of the series.
    pub name: String,
    /// Its rate in each step.
    pub series_bit_s: Vec<Option<u64>>,
}

/// Pings.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pings {
    /// Their round trips, of all series of pings together.
    pub latency: Times,
    /// The same at each whole percent, from 0 to 100.
    pub percents_ns: Vec<u64>,
    /// The mean of the series in each step; null where nothing was measured.
    pub series_ns: Vec<Option<u64>>,
}
