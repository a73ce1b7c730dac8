//! The README shows the examples as they are compiled and run.

const README: &str = include_str!("../../../../README.md");

/// Returns the part of a source between two lines, without blank ends.
fn part<'a>(source: &'a str, from: &str, to: &str) -> &'a str {
    let start = source.find(from).expect("the part begins");
    let end = source[start..].find(to).expect("the part ends");
    source[start..start + end].trim_end()
}

#[test]
fn shows_the_examples_as_they_are() {
    let channel = part(include_str!("../../examples/backpressure.rs"), "/// Sends `count`", "fn main()");
    assert!(README.contains(channel), "README.md does not show examples/backpressure.rs as it is");
    let wrapper =
        part(include_str!("../../examples/smoltcp_device.rs"), "/// A device whose", "fn at(now: Time)");
    assert!(README.contains(wrapper), "README.md does not show examples/smoltcp_device.rs as it is");
}

/// Checks that every file that the README links to exists.
#[test]
fn links_lead_somewhere() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let links = README.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    for link in links.filter(|l| !l.contains("://")) {
        assert!(root.join(link).exists(), "README.md links to {link}, which is not there");
    }
}
