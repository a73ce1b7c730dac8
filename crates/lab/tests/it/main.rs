//! The tests of the lab, in one binary: scenarios, stories, recordings of Linux, reports, sizes.

mod apps;
mod captures;
mod common;
mod departures;
mod determinism;
mod detours;
mod documentation;
mod fidelity;
mod filters;
mod flent;
mod html;
mod ipv6;
mod l4s;
mod links;
mod memory;
mod nets;
mod pie_coin;
mod recorded;
mod replay;
mod sampled;
mod scenario_errors;
mod shared;
mod size;
mod stories;
mod tcp;
mod trial;
