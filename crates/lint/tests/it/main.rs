//! Tests of the linter, in one binary: the report about a policy, and the tc lines read out of a
//! script.

mod agreement;
mod check;
mod dump;
mod machine;
mod script;
