//! What the command prints, literally: `spec/cli`. To take over what it prints now: `TRYCMD=overwrite cargo test`.

#[test]
fn transcripts() {
    trycmd::TestCases::new().case("../../spec/cli/*.trycmd").run();
}
