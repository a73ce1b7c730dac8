//! The output of the command, literally: `spec/cli`. To write the present output there:
//! `TRYCMD=overwrite cargo test`.

#[test]
fn transcripts() {
    trycmd::TestCases::new().case("../../spec/cli/*.trycmd").run();
}
