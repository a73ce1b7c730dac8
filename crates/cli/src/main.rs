//! The txweir command.
fn main() {}
