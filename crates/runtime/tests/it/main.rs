//! The tests of the live loop, in one binary: directions in virtual time whose devices are lists or
//! memory, and one whose device is a packet socket.

mod delays;
mod direction;
mod fairsend;
mod filtering;
mod ledger;
mod list;
mod live;
mod stock;
mod umem;
