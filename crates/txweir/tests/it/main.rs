//! The tests of the facade, in one binary: the examples do as their texts say, and the pages show
//! them as they are.

mod examples;
mod ports;
mod quinn;
mod readme;
mod ready;
mod wfq;
