//! The pages show the examples as they are compiled and run.

/// Returns the part of a source between two lines, without blank ends.
fn part<'a>(source: &'a str, from: &str, to: &str) -> &'a str {
    let start = source.find(from).expect("the part begins");
    let end = source[start..].find(to).expect("the part ends");
    source[start..start + end].trim_end()
}

#[test]
fn the_page_of_the_crate_shows_the_examples_as_they_are() {
    let page = include_str!("../../../../docs/crate.md");
    let channel = part(include_str!("../../examples/backpressure.rs"), "/// Sends `count`", "fn main()");
    assert!(page.contains(channel), "docs/crate.md does not show examples/backpressure.rs as it is");
    let wrapper =
        part(include_str!("../../examples/smoltcp_device.rs"), "/// Puts a qdisc", "/// The results");
    assert!(page.contains(wrapper), "docs/crate.md does not show examples/smoltcp_device.rs as it is");
}

#[test]
fn the_page_of_devices_shows_the_example_as_it_is() {
    let page = include_str!("../../../../docs/embed.md");
    let source = include_str!("../../examples/embed.rs");
    for (from, to) in [
        ("/// Sends datagrams to", "/// Fills the free"),
        ("/// Fills the free", "/// Sends packets of 1500"),
        ("/// Sends packets of 1500", "/// Returns the numbers"),
        ("/// Returns the numbers", "/// Puts the queues"),
        ("/// Puts the queues", "/// A time that"),
    ] {
        assert!(page.contains(part(source, from, to)), "docs/embed.md does not show `{from}` as it is");
    }
}

#[test]
fn the_page_of_programs_shows_them_as_they_are_and_they_are_short() {
    let page = include_str!("../../../../docs/embed-programs.md");
    // The part that the program's owner writes, and the part of it that the page shows.
    for (source, from, to, shown, end) in [
        (
            include_str!("../../examples/sandbox.rs"),
            "/// The card of a guest",
            "/// The results",
            "impl Card {",
            "/// A packet on",
        ),
        (
            include_str!("../../examples/quinn_bottleneck.rs"),
            "/// One end of",
            "/// The results",
            "impl Transport",
            "/// The results",
        ),
        (
            include_str!("../../examples/tunnel.rs"),
            "/// A socket of Tokio",
            "#[tokio::main]",
            "    /// Takes an IP packet",
            "    /// Sends what may leave now",
        ),
        (
            include_str!("../../examples/poll_loop.rs"),
            "/// The core that runs",
            "/// Nanoseconds between",
            "impl Core {",
            "/// Nanoseconds between",
        ),
    ] {
        let lines = part(source, from, to).lines().count();
        assert!(lines < 100, "{from}: {lines} lines");
        assert!(
            page.contains(part(source, shown, end)),
            "docs/embed-programs.md does not show `{shown}` as it is"
        );
    }
}

/// The README shows the first example of the crate's own text, which is compiled and run as a test.
#[test]
fn the_readme_shows_the_first_example_of_the_crate() {
    let commented = part(include_str!("../../src/lib.rs"), "//! use txweir::{Admitted", "//! # Ok");
    let bare = |line: &'static str| line.strip_prefix("//! ").unwrap_or("");
    let bare: Vec<&str> = commented.lines().map(bare).collect();
    let readme: Vec<&str> = include_str!("../../../../README.md").lines().collect();
    assert!(
        readme.windows(bare.len()).any(|lines| lines == bare),
        "README.md does not show the first example of crates/txweir/src/lib.rs as it is"
    );
}
