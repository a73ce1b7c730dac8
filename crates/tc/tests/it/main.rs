//! Tests of the language, in one binary: accepted and refused lines, their messages, and the
//! output.

mod actions;
mod anything;
mod blocks;
mod changes;
mod classic_filters;
mod classify;
mod errors;
mod filter_kinds;
mod filters;
mod language;
mod linux;
mod matches;
mod metrics;
mod parity;
mod queues;
mod real_tc;
mod roundtrip;
mod saving;
mod shared;
mod show;
mod tool;
mod transcripts;
