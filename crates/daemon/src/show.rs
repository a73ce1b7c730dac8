//! Links as `txweir link show` prints them: a table for people, JSON for programs.

use txweir_core::TxPath;
use txweir_core::text::stats::Counters;
use txweir_core::text::value::text_of;
use txweir_device::Frame;
use txweir_runtime::DirectionStats;
use txweir_tc::json::{self, Object};

use crate::link::Link;
use crate::report::{self, Why};
use crate::sums::Sums;
use crate::whole_way::Whole;

/// The columns of the table.
const HEAD: [&str; 14] = [
    "NAME", "TYPE", "QUEUES", "MTU", "TXQLEN", "RATE", "PEER", "STATE", "MISSED", "PACKETS", "BYTES",
    "DROPS", "BACKLOG", "BQL",
];

/// The text of an empty cell.
const NOTHING: &str = "-";

/// Returns a table: a line a link below a head, columns as wide as needed. `MISSED` are frames lost
/// between the interface and the link. `DROPS` are those of the qdiscs and of the link. `BACKLOG`
/// is packets. `BQL` is the bytes in flight and their limit, in all queues together. With `stats`
/// the sums of each link and the delays of its stages follow its line.
pub fn text(links: &mut [Link], stats: bool) -> String {
    let mut rows = vec![HEAD.map(String::from)];
    rows.extend(links.iter_mut().map(row));
    let mut details = links.iter_mut().filter(|_| stats).map(details);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; HEAD.len()] = std::array::from_fn(width);
    let mut out = String::new();
    for (at, row) in rows.into_iter().enumerate() {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            line.push_str(&format!("{cell:width$}  "));
        }
        out.push_str(line.trim_end());
        out.push('\n');
        if at > 0 {
            let lines = details.next().into_iter().flatten();
            lines.for_each(|(name, text)| out.push_str(&format!("    {name}  {text}\n")));
        }
    }
    out
}

/// Returns the lines that follow that of a link, each with its name.
fn details(link: &mut Link) -> Vec<(&'static str, String)> {
    let mut lines = Vec::from(Sums::of(link).lines());
    lines.extend(Whole::to(link).delays().map(|delays| ("delay", report::delays_text(&delays))));
    lines
}

fn row(link: &mut Link) -> [String; HEAD.len()] {
    let missed = link.counters_of_all().map_or_else(|| NOTHING.to_owned(), |c| c.rx_lost().to_string());
    let whole = Whole::to(link);
    let (stats, env) = (whole.stats(), *link.env());
    let bql = whole
        .byte_limit()
        .map_or_else(|| NOTHING.to_owned(), |(limit, inflight)| format!("{inflight}/{limit}"));
    [
        link.name.to_string(),
        link.kind.name().to_owned(),
        link.queues.to_string(),
        env.mtu.to_string(),
        env.tx_queue_len.to_string(),
        env.link_rate.map_or_else(|| NOTHING.to_owned(), |rate| text_of(&rate)),
        link.peer.as_ref().map_or_else(|| NOTHING.to_owned(), ToString::to_string),
        link.state().to_owned(),
        missed,
        stats.departed.to_string(),
        stats.departed_bytes.to_string(),
        drops(&stats).to_string(),
        whole.backlog().packets.to_string(),
        bql,
    ]
}

/// Returns the number of packets that were submitted and will not leave, `lost` included.
fn drops(stats: &DirectionStats) -> u64 {
    stats.dropped + stats.no_memory + stats.malformed + stats.unmade + stats.lost
}

/// Returns a list of objects.
pub fn json(links: &mut [Link]) -> String {
    json::list(links.iter_mut().map(object)) + "\n"
}

fn object(link: &mut Link) -> String {
    let (env, sums, counters) = (*link.env(), Sums::of(link), link.counters_of_all());
    let unclaimed = sums.intake.unclaimed;
    let link = &*link;
    let whole = Whole::to(link);
    let stats = whole.stats();
    let mut o = Object::new()
        .text("name", link.name.as_str())
        .text("type", link.kind.name())
        .uint("queues", u64::from(link.queues))
        .uint("mtu", u64::from(env.mtu))
        .uint("txqueuelen", u64::from(env.tx_queue_len))
        .bool("prio_synack", link.way.classifier().prio_synack());
    if let Some(rate) = env.link_rate {
        o = o.uint("rate_bit_s", rate.bits());
    }
    if let Some(wire) = link.wire() {
        o = o.text("wire", &wire.to_string());
    }
    if let Some(endpoint) = &link.endpoint {
        o = o.text("if", &endpoint.to_string());
    }
    if let Some(mode) = link.io().and_then(|io| io.mode()) {
        o = o.text("mode", mode);
    }
    if link.copies.workers > 0 {
        o = o.uint("workers", link.copies.workers as u64).text("queue_map", &link.copies.map.to_string());
    }
    if let Some(peer) = &link.peer {
        o = o.text("peer", peer.as_str());
    }
    o = o.text("state", link.state());
    if let Some(why) = link.way.device().away() {
        o = o.text("why", why);
    }
    o = members(o, &LinkCounts::of(&whole));
    let bql = whole.byte_limit().map(|(limit, inflight)| ByteLimit { limit, inflight });
    o = o
        .raw("bql", &bql.map_or_else(|| "null".to_owned(), |bql| report::counted(&bql)))
        .raw("drop_reasons", &whole.reasons(Why::Drop))
        .raw("mark_reasons", &whole.reasons(Why::Mark))
        .raw("path", &report::counted(&whole.path()))
        .raw("stats", &report::counted(&stats))
        .raw("sums", &sums_object(&sums));
    if let Some(delays) = whole.delays() {
        o = o.raw("delays", &report::delays_json(&delays));
    }
    if link.way.port().paths().len() > 1 {
        o = o.raw("per_queue", &json::list(whole.paths().map(queue_object)));
    }
    if let Some(gate) = report::gate(&whole) {
        o = o.raw("gate", &gate);
    }
    if let Some(counters) = counters {
        // `packets` equals `frames`; it is the word of ip(8).
        let rx = report::rx(&counters).uint("packets", counters.rx_frames).uint("unclaimed", unclaimed);
        o = o.raw("rx", &rx.finish()).raw("tx", &report::tx(&counters));
    }
    o.finish()
}

/// Returns the sums of a link by the names of their lines in the text.
fn sums_object(sums: &Sums) -> String {
    let mut fates = members(Object::new(), &sums.fates);
    if let Some(crossing) = &sums.crossing {
        fates = members(fates, crossing);
    }
    Object::new()
        .raw("rx", &report::counted(&sums.intake))
        .raw("in", &report::counted(&sums.origins))
        .raw("tx", &fates.finish())
        .finish()
}

/// Returns the counters of a queue that has a path of its own.
fn queue_object(path: &TxPath<Frame>) -> String {
    let bql = ByteLimit::of(path).map_or_else(|| "null".to_owned(), |bql| report::counted(&bql));
    members(Object::new(), &QueueCounts::of(path)).raw("bql", &bql).finish()
}

/// Adds counters to an object as they are declared.
fn members(o: Object, counters: &impl Counters) -> Object {
    let mut o = Some(o);
    counters.visit(&mut |counter, n| o = o.take().map(|o| o.uint(counter.key, n)));
    o.unwrap_or_default()
}

txweir_core::stats! {
    /// The counters of a link.
    pub(crate) struct LinkCounts {
        /// Frames submitted to the link's qdiscs.
        submitted: u64,
        /// Packets that have left the link; a super-frame is one.
        packets: u64,
        /// Bytes of these.
        bytes: u64 [of(Bytes)],
        /// Packets that will not reach their end: dropped by a qdisc, or lost by the interface.
        drops: u64,
        /// Packets among these that the interface lost.
        lost: u64,
        /// Packets that wait in qdiscs.
        backlog_packets: u64 [falls],
        /// Bytes that wait in qdiscs.
        backlog_bytes: u64 [falls][of(Bytes)],
        /// Bytes on the wire or in the device.
        inflight_bytes: u64 [falls][of(Bytes)],
    }
}

txweir_core::stats! {
    /// The counters of a queue that has a path of its own.
    pub(crate) struct QueueCounts {
        /// Packets handed to the device.
        packets: u64,
        /// Bytes of these.
        bytes: u64 [of(Bytes)],
        /// Packets among these that did not wait.
        direct: u64,
        /// Packets that wait in the queue's qdiscs.
        backlog_packets: u64 [falls],
        /// Bytes that wait in the queue's qdiscs.
        backlog_bytes: u64 [falls][of(Bytes)],
    }
}

txweir_core::stats! {
    /// A byte queue limit.
    pub(crate) struct ByteLimit {
        /// Bytes that the byte queue limit allows in flight.
        limit: u64 [falls][of(Bytes)],
        /// Bytes in flight, as the byte queue limit counts them.
        inflight: u64 [falls][of(Bytes)],
    }
}

impl LinkCounts {
    /// Returns those of a link, by the way to it.
    pub(crate) fn of(way: &Whole<'_>) -> Self {
        let (stats, backlog) = (way.stats(), way.backlog());
        Self {
            submitted: stats.received + stats.no_memory + stats.malformed,
            packets: stats.departed,
            bytes: stats.departed_bytes,
            drops: drops(&stats),
            lost: stats.lost,
            backlog_packets: backlog.packets,
            backlog_bytes: backlog.bytes,
            inflight_bytes: way.in_flight(),
        }
    }
}

impl QueueCounts {
    /// Returns those of a queue, by its path.
    pub(crate) fn of(path: &TxPath<Frame>) -> Self {
        let (stats, backlog) = (path.stats(), path.backlog());
        Self {
            packets: stats.tx_packets,
            bytes: stats.tx_bytes,
            direct: stats.direct,
            backlog_packets: backlog.packets,
            backlog_bytes: backlog.bytes,
        }
    }
}

impl ByteLimit {
    /// Returns the one of a queue, by its path, if there is one.
    pub(crate) fn of(path: &TxPath<Frame>) -> Option<Self> {
        let dql = path.tx().limit()?;
        Some(Self { limit: dql.limit().into(), inflight: dql.inflight().into() })
    }
}
