//! The tests of the live loop, in one binary: a direction in virtual time, between ports that are lists.

mod direction;
mod fairsend;
mod filtering;
mod list;
mod live;
mod umem;
