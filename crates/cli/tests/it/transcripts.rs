//! The output of the command, literally: `spec/cli`. To write the present output there:
//! `TRYCMD=overwrite cargo test`.

use crate::common::machine;

#[test]
fn transcripts() {
    let _machine = machine::shared();
    trycmd::TestCases::new().case("../../spec/cli/*.trycmd").run();
}
