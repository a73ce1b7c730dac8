//! One frame of `txweir top`: a pure function of two snapshots, the choices of its user and a size.

use std::cmp::Reverse;
use std::ops::Range;

use clap::ValueEnum;
use txweir::daemon::report::scaled;

use super::snapshot::{Counters, Link, Row, Snapshot};

/// Lines that are no rows of a list: the title, two heads of lists, an empty line, three lines
/// about the chosen link, and the keys.
const FIXED: usize = 8;
/// Columns right of the name, with the blank ahead of each.
const NUMBERS: usize = 56;
/// Fewest columns of a name.
const NAME_MIN: usize = 24;

/// Order of the links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Order {
    /// By name
    #[default]
    Name,
    /// Highest rate first
    Rate,
    /// Most waiting bytes first
    Backlog,
    /// Most drops per second first
    Drops,
}

impl Order {
    /// Returns the order that the key `s` changes to.
    #[must_use]
    pub const fn next(self) -> Self {
        match self {
            Self::Name => Self::Rate,
            Self::Rate => Self::Backlog,
            Self::Backlog => Self::Drops,
            Self::Drops => Self::Name,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Rate => "rate",
            Self::Backlog => "backlog",
            Self::Drops => "drops",
        }
    }
}

/// The choices of the user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choices {
    pub order: Order,
    /// The chosen link; the first in order if it is not there.
    pub link: Option<String>,
    /// Number of rows of the chosen link that are scrolled away.
    pub scrolled: usize,
}

/// Look of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    Plain,
    Head,
    Chosen,
    Keys,
}

/// A line of a frame.
pub type Line = (Look, String);

/// Two snapshots, the later and the earlier, and what lies between them.
#[derive(Clone, Copy, Debug)]
pub struct Pair<'a> {
    pub now: &'a Snapshot,
    pub before: Option<&'a Snapshot>,
}

/// Growth of the counters of a row per second; `None` where there is no earlier counter, or a
/// greater one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Rates {
    bits: Option<u64>,
    packets: Option<u64>,
    drops: Option<u64>,
}

impl<'a> Pair<'a> {
    fn elapsed_ns(&self) -> u64 {
        self.before.map_or(0, |before| self.now.at_ns.saturating_sub(before.at_ns))
    }

    /// Returns the rate of a counter. A counter that went down belongs to something that was
    /// replaced: it has no rate yet.
    fn rate(&self, now: Option<u64>, before: Option<u64>, factor: u64) -> Option<u64> {
        let grown = u128::from(now?.checked_sub(before?)?) * u128::from(factor);
        let elapsed = u128::from(self.elapsed_ns());
        let rate = (grown * 1_000_000_000 + elapsed / 2).checked_div(elapsed)?;
        u64::try_from(rate).ok()
    }

    /// Returns the rates of counters. If one of them went down, none of them has a rate.
    fn rates(&self, now: &Counters, before: Option<&Counters>) -> Rates {
        let Some(before) = before else { return Rates::default() };
        let pairs = [
            (now.bytes, before.bytes),
            (now.packets, before.packets),
            (now.drops, before.drops),
            (now.marks, before.marks),
        ];
        if pairs.iter().any(|(now, before)| now < before) {
            return Rates::default();
        }
        Rates {
            bits: self.rate(now.bytes, before.bytes, 8),
            packets: self.rate(now.packets, before.packets, 1),
            drops: self.rate(now.drops, before.drops, 1),
        }
    }

    fn rates_of_link(&self, link: &Link) -> Rates {
        let before = self.before.and_then(|before| before.link(&link.name));
        // Another link of this name may have been added meanwhile.
        let before = before.filter(|before| before.kind == link.kind);
        self.rates(&link.counters, before.map(|before| &before.counters))
    }

    fn rates_of_row(&self, row: &Row) -> Rates {
        let before = self.before.filter(|before| before.of == self.now.of);
        let before = before.and_then(|before| before.rows.iter().find(|earlier| earlier.key == row.key));
        self.rates(&row.counters, before.map(|before| &before.counters))
    }

    /// Returns the links in an order.
    pub fn ordered(self, order: Order) -> Vec<&'a Link> {
        let mut links: Vec<&'a Link> = self.now.links.iter().collect();
        links.sort_by(|a, b| a.name.cmp(&b.name));
        // The sort is stable: links of equal rank stay in order of their names.
        match order {
            Order::Name => {}
            Order::Rate => links.sort_by_cached_key(|link| Reverse(self.rates_of_link(link).bits)),
            Order::Backlog => links.sort_by_key(|link| Reverse(link.counters.backlog)),
            Order::Drops => links.sort_by_cached_key(|link| Reverse(self.rates_of_link(link).drops)),
        }
        links
    }
}

/// Returns the place of the chosen link among links in order: that of the name, or the first.
pub fn place(links: &[&Link], chosen: Option<&str>) -> usize {
    links.iter().position(|link| Some(link.name.as_str()) == chosen).unwrap_or(0)
}

/// Returns the lines of a frame of `width` columns. With a height the lists are cut to fit and the
/// keys stand in the last line; without, everything is shown.
pub fn frame(pair: Pair<'_>, choices: &Choices, width: usize, height: Option<usize>) -> Vec<Line> {
    let links = pair.ordered(choices.order);
    let at = place(&links, choices.link.as_deref());
    // The rows are those of the link that was chosen when the daemon was asked.
    let chosen = links.get(at).copied();
    let has_rows = chosen.is_some_and(|link| pair.now.of.as_deref() == Some(link.name.as_str()));
    let rows: &[Row] = if has_rows { &pair.now.rows } else { &[] };
    let room = height.map(|height| height.saturating_sub(FIXED));
    let [shown_links, shown_rows] = shares(room, links.len(), rows.len());
    let from = (at + 1).saturating_sub(shown_links);
    let scrolled = choices.scrolled.min(rows.len() - shown_rows);

    let mut lines = vec![(Look::Plain, title(pair, links.len(), choices.order))];
    let (seen, head) =
        (from..from + shown_links, |name: &str| columns(width, name, &HEADS.map(String::from)));
    lines.push((Look::Head, head(&ranged("LINK", &seen, links.len()))));
    for (n, link) in links.iter().enumerate().skip(from).take(shown_links) {
        let look = if n == at { Look::Chosen } else { Look::Plain };
        let mark = if n == at { '>' } else { ' ' };
        let name = format!("{mark} {}", link.name);
        lines.push((look, numbers(width, &name, &link.counters, pair.rates_of_link(link))));
    }
    if let Some(link) = chosen {
        lines.push((Look::Plain, String::new()));
        lines.extend(about(pair, link).map(|line| (Look::Plain, line)));
        let seen = scrolled..scrolled + shown_rows;
        lines.push((Look::Head, head(&ranged("TREE", &seen, rows.len()))));
        for row in rows.iter().skip(scrolled).take(shown_rows) {
            let name = format!("{:indent$}{}", "", row.name, indent = row.depth);
            lines.push((Look::Plain, numbers(width, &name, &row.counters, pair.rates_of_row(row))));
        }
        if pair.now.more_rows > 0 && has_rows && scrolled + shown_rows == rows.len() {
            lines.push((Look::Plain, format!("... and {} more", pair.now.more_rows)));
        }
    }
    if let Some(height) = height {
        lines.truncate(height.saturating_sub(1));
        lines.resize(height.saturating_sub(1), (Look::Plain, String::new()));
        let keys = "q quit   j k arrows: choose a link   s: order   PgUp PgDn: scroll the qdiscs";
        lines.push((Look::Keys, keys.to_owned()));
    }
    for (_, line) in &mut lines {
        *line = cut(line.trim_end(), width).to_owned();
    }
    lines
}

/// Returns the numbers of links and rows that are shown in `room` lines: half for the links, if the
/// rows need the other half.
fn shares(room: Option<usize>, links: usize, rows: usize) -> [usize; 2] {
    let Some(room) = room else { return [links, rows] };
    let shown_links = links.min(room.saturating_sub(rows).max(room / 2)).max(usize::from(links > 0));
    [shown_links, rows.min(room.saturating_sub(shown_links))]
}

fn title(pair: Pair<'_>, links: usize, order: Order) -> String {
    let noun = if links == 1 { "link" } else { "links" };
    let order = order.name();
    let elapsed = match pair.elapsed_ns() / 1_000_000 {
        0 => "no rates yet".to_owned(),
        millis => format!("rates over {}.{:02} s", millis / 1000, millis % 1000 / 10),
    };
    match links {
        0 => "txweir top: the daemon has no link; `txweir link add` adds one".to_owned(),
        _ => format!("txweir top: {links} {noun} by {order}, {elapsed}"),
    }
}

/// Returns the head of a list of names; with the range that is shown, if it is not the whole list.
fn ranged(name: &str, seen: &Range<usize>, all: usize) -> String {
    match seen.len() < all {
        true if seen.is_empty() => format!("{name} 0/{all}"),
        true => format!("{name} {}-{}/{all}", seen.start + 1, seen.end),
        false => name.to_owned(),
    }
}

/// The columns of numbers.
const HEADS: [&str; 7] = ["BIT/S", "PKT/S", "BACKLOG", "QLEN", "DROP/S", "DROPS", "MARKS"];
/// Their widths, without the blank ahead of each.
const WIDTHS: [usize; HEADS.len()] = [7, 7, 8, 6, 7, 7, 7];

fn numbers(width: usize, name: &str, counters: &Counters, rates: Rates) -> String {
    let amount = |n: Option<u64>, unit: &str| {
        n.map_or_else(|| "-".to_owned(), |n| scaled(u128::from(n), unit).trim_end().to_owned())
    };
    let cells = [
        amount(rates.bits, ""),
        amount(rates.packets, ""),
        amount(counters.backlog, "B"),
        amount(counters.qlen, ""),
        amount(rates.drops, ""),
        amount(counters.drops, ""),
        amount(counters.marks, ""),
    ];
    columns(width, name, &cells)
}

/// Returns a line: a name, as wide as the numbers leave room, and the numbers.
fn columns(width: usize, name: &str, cells: &[String; HEADS.len()]) -> String {
    let room = width.saturating_sub(NUMBERS).max(NAME_MIN);
    let mut line = format!("{:room$}", cut(name, room));
    for (cell, width) in cells.iter().zip(WIDTHS) {
        line.push_str(&format!(" {cell:>width$}"));
    }
    line
}

/// Returns the lines about a link: the line and the device, drops and marks by reason.
fn about(pair: Pair<'_>, link: &Link) -> [String; 3] {
    let mut first = format!("{}: {}, {}", link.name, link.kind, link.state);
    if let Some(line) = link.line {
        first.push_str(&format!(", line {}", scaled(u128::from(line), "bit/s")));
        let used = pair.rates_of_link(link).bits.map(|bits| u128::from(bits) * 1000);
        if let Some(tenths) = used.and_then(|used| used.checked_div(u128::from(line))) {
            first.push_str(&format!(", {}.{} % used", tenths / 10, tenths % 10));
        }
    }
    let bytes = |n: u64| scaled(u128::from(n), "B");
    first.push_str(&format!(", in the device {}", bytes(link.inflight)));
    if let Some(limit) = link.limit {
        first.push_str(&format!(" of {}", bytes(limit)));
    }
    let before = pair.before.and_then(|before| before.link(&link.name));
    let drops = before.map(|before| before.drop_reasons.as_slice());
    let marks = before.map(|before| before.mark_reasons.as_slice());
    [
        first,
        format!("drops  {}", by_reason(pair, &link.drop_reasons, drops)),
        format!("marks  {}", by_reason(pair, &link.mark_reasons, marks)),
    ]
}

/// Returns counters by reason, each with its growth per second.
fn by_reason(pair: Pair<'_>, now: &[(String, u64)], before: Option<&[(String, u64)]>) -> String {
    let one = |(name, n): &(String, u64)| {
        // A reason that was not there before was 0.
        let earlier = before.map(|all| all.iter().find(|(other, _)| other == name).map_or(0, |(_, n)| *n));
        match pair.rate(Some(*n), earlier, 1) {
            None | Some(0) => format!("{name} {n}"),
            Some(rate) => format!("{name} {n} (+{rate}/s)"),
        }
    };
    match now {
        [] => "none".to_owned(),
        all => all.iter().map(one).collect::<Vec<_>>().join("  "),
    }
}

/// Returns the beginning of a text, of at most `max` characters.
fn cut(text: &str, max: usize) -> &str {
    text.char_indices().nth(max).map_or(text, |(end, _)| &text[..end])
}

#[cfg(test)]
mod tests;
