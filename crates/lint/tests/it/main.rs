//! The linter's tests, in one binary: what is said of a policy, and what is read out of a script.

mod check;
mod script;
