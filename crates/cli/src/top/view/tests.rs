//! Frames of the smallest usual terminal, literally, as a terminal shows them.

use ratatui_core::backend::TestBackend;
use ratatui_core::terminal::Terminal;

use super::*;
use crate::top::screen::text;

/// Returns the frame as the cells of a terminal of 80 columns, without blanks at the ends of lines.
fn drawn(pair: Pair<'_>, choices: &Choices, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(80, height)).expect("a terminal in memory");
    let draw = terminal.draw(|frame| {
        let lines = super::frame(pair, choices, 80, Some(usize::from(height)));
        frame.render_widget(text(lines), frame.area());
    });
    let cells = draw.expect("a frame").buffer;
    let lines = cells.content.chunks(80);
    lines
        .map(|line| line.iter().map(|cell| cell.symbol()).collect::<String>().trim_end().to_owned())
        .collect()
}

fn counters(bytes: u64, packets: u64, drops: u64, backlog: [u64; 2]) -> Counters {
    Counters {
        bytes: Some(bytes),
        packets: Some(packets),
        drops: Some(drops),
        marks: Some(0),
        backlog: Some(backlog[0]),
        qlen: Some(backlog[1]),
    }
}

fn link(name: &str, counters: Counters) -> Link {
    let line = Some(100_000_000);
    let (kind, state) = ("wire".to_owned(), "up".to_owned());
    Link { name: name.to_owned(), kind, state, line, counters, ..Link::default() }
}

fn row(depth: usize, name: &str, counters: Counters) -> Row {
    Row { key: name.to_owned(), name: name.to_owned(), depth, counters }
}

/// Two links, of which `lan` is shown with three rows; a second passes between the two.
fn two() -> [Snapshot; 2] {
    let reasons = |n| vec![("overlimit".to_owned(), n), ("codel".to_owned(), 3)];
    let lan = |bytes, packets, drops| Link {
        limit: Some(3028),
        inflight: 1514,
        drop_reasons: reasons(drops - 3),
        ..link("lan", counters(bytes, packets, drops, [1_454_954, 961]))
    };
    let rows = |bytes, packets, drops| {
        vec![
            row(0, "qdisc htb 1:", counters(bytes, packets, drops, [1_454_954, 961])),
            row(1, "class htb 1:10", counters(bytes, packets, drops, [1_454_954, 961])),
            row(1, "class htb 1:20", Counters { marks: None, ..counters(0, 0, 0, [0, 0]) }),
        ]
    };
    let at = |at_ns, bytes, packets, drops, wan| Snapshot {
        at_ns,
        links: vec![link("wan", counters(wan, wan / 1000, 0, [0, 0])), lan(bytes, packets, drops)],
        of: Some("lan".to_owned()),
        rows: rows(bytes, packets, drops),
        more_rows: 0,
    };
    [at(5_000_000_000, 1_000_000, 700, 103, 2_000_000), at(6_000_000_000, 2_217_500, 1512, 1003, 8_000_000)]
}

#[test]
fn a_frame_of_80_by_24() {
    let [before, now] = two();
    let pair = Pair { now: &now, before: Some(&before) };
    let frame = drawn(pair, &Choices::default(), 24);
    let expected = "\
txweir top: 2 links by name, rates over 1.00 s
LINK                       BIT/S   PKT/S  BACKLOG   QLEN  DROP/S   DROPS   MARKS
> lan                     9.74 M     812  1.45 MB    961     900  1.00 k       0
  wan                     48.0 M  6.00 k      0 B      0       0       0       0

lan: wire, up, line 100 Mbit/s, 9.7 % used, in the device 1.51 kB of 3.02 kB
drops  overlimit 1000 (+900/s)  codel 3
marks  none
TREE                       BIT/S   PKT/S  BACKLOG   QLEN  DROP/S   DROPS   MARKS
qdisc htb 1:              9.74 M     812  1.45 MB    961     900  1.00 k       0
 class htb 1:10           9.74 M     812  1.45 MB    961     900  1.00 k       0
 class htb 1:20                0       0      0 B      0       0       0       -











q quit   j k arrows: choose a link   s: order   PgUp PgDn: scroll the qdiscs";
    assert_eq!(frame.join("\n"), expected);
}

#[test]
fn a_counter_that_went_down_has_no_rate() {
    let [before, mut now] = two();
    // The root was replaced: a new qdisc of the same name began at 0, in part above the old one.
    now.rows[0].counters = counters(3_000_000, 10, 0, [0, 0]);
    let pair = Pair { now: &now, before: Some(&before) };
    let frame = drawn(pair, &Choices::default(), 24);
    assert_eq!(frame[9], "qdisc htb 1:                   -       -      0 B      0       -       0       0");
    // And what was not there before has none either.
    now.rows[0].key.push_str(" other");
    let pair = Pair { now: &now, before: Some(&before) };
    assert_eq!(drawn(pair, &Choices::default(), 24), frame);
    let pair = Pair { now: &now, before: None };
    let frame = drawn(pair, &Choices::default(), 24);
    assert_eq!(frame[0], "txweir top: 2 links by name, no rates yet");
    assert_eq!(frame[3], "  wan                          -       -      0 B      0       -       0       0");
}

#[test]
fn two_snapshots_of_one_instant_have_no_rate() {
    let [before, mut now] = two();
    now.at_ns = before.at_ns;
    let pair = Pair { now: &now, before: Some(&before) };
    assert_eq!(pair.rates_of_link(&now.links[0]), Rates::default());
}

#[test]
fn each_order_has_its_first_link() {
    let [before, now] = two();
    let pair = Pair { now: &now, before: Some(&before) };
    let firsts = [Order::Name, Order::Rate, Order::Backlog, Order::Drops]
        .map(|order| pair.ordered(order)[0].name.as_str());
    assert_eq!(firsts, ["lan", "wan", "lan", "lan"]);
    let mut order = Order::default();
    let all: Vec<&str> = std::iter::repeat_with(|| {
        order = order.next();
        order.name()
    })
    .take(4)
    .collect();
    assert_eq!(all, ["rate", "backlog", "drops", "name"]);
}

#[test]
fn long_lists_show_the_chosen_link_and_the_rows_scrolled_to() {
    let [before, mut now] = two();
    now.links = (0..40).map(|n| link(&format!("l{n:02}"), counters(0, 0, 0, [0, 0]))).collect();
    now.of = Some("l30".to_owned());
    now.rows = (0..60).map(|n| row(0, &format!("class drr 1:{n:x}"), counters(0, 0, 0, [0, 0]))).collect();
    now.more_rows = 5;
    let choices = Choices { link: Some("l30".to_owned()), scrolled: 50, ..Choices::default() };
    let pair = Pair { now: &now, before: Some(&before) };
    let frame = drawn(pair, &choices, 24);
    let names: Vec<&str> = frame.iter().map(|line| line.split("  ").next().unwrap_or_default()).collect();
    assert_eq!(names[1], "LINK 24-31/40");
    assert_eq!((&frame[2][..5], &frame[9][..5]), ("  l23", "> l30"));
    assert_eq!(names[14], "TREE 51-58/60");
    assert_eq!((names[15], names[22]), ("class drr 1:32", "class drr 1:39"));
    // Scrolled too far, it shows the last.
    let choices = Choices { scrolled: 1000, ..choices };
    let frame = drawn(pair, &choices, 24);
    assert!(frame[14].starts_with("TREE 53-60/60"), "{frame:#?}");
    // As plain text it shows everything.
    let lines = super::frame(pair, &choices, 80, None);
    assert_eq!((lines.len(), lines.last()), (108, Some(&(Look::Plain, "... and 5 more".to_owned()))));
}

#[test]
fn rows_of_another_link_are_not_shown() {
    let [before, now] = two();
    let choices = Choices { link: Some("wan".to_owned()), ..Choices::default() };
    let pair = Pair { now: &now, before: Some(&before) };
    let frame = drawn(pair, &choices, 24);
    assert!(frame[3].starts_with("> wan") && frame[5].starts_with("wan: wire, up"), "{frame:#?}");
    assert!(!frame.iter().any(|line| line.contains("htb")), "{frame:#?}");
}

#[test]
fn any_size_has_a_frame() {
    let [before, now] = two();
    for pair in [Pair { now: &now, before: Some(&before) }, Pair { now: &Snapshot::default(), before: None }]
    {
        for (width, height) in [(0, 0), (1, 1), (5, 3), (20, 8), (79, 9), (300, 100)] {
            let lines = super::frame(pair, &Choices::default(), width, Some(height));
            assert_eq!(lines.len(), height.max(1), "{width}x{height}");
            assert!(lines.iter().all(|(_, line)| line.chars().count() <= width), "{width}x{height}");
        }
    }
}

#[test]
fn a_daemon_without_links_says_so() {
    let frame = drawn(Pair { now: &Snapshot::default(), before: None }, &Choices::default(), 24);
    assert_eq!(frame[0], "txweir top: the daemon has no link; `txweir link add` adds one");
}
