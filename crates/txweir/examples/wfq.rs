//! A kind of qdisc of one's own: a weighted fair queue, registered beside the built-in kinds. The
//! tc language reads its options, `show` prints them with its counters, and `tests/it/wfq.rs` holds
//! it to the laws, all from the declarations here.

use txweir::core::qdisc::Registry;
use txweir::core::sched::spec::Spec;
use txweir::tc::{Policy, Source, show};
use txweir::{Instant, Meta, PathConfig, TxPath, testing::VecDevice};

/// The kind.
pub mod kind {
    use txweir::core::packet::pool::{List, Pkt, Pool, Queue, Waiting};
    use txweir::core::packet::route::Candidate;
    use txweir::core::sched::answer::{Next, Verdict};
    use txweir::core::sched::cx::Cx;
    use txweir::core::sched::discipline::Discipline;
    use txweir::core::sched::spec::Flags;
    use txweir::{ClassId, ConfigError, DropReason, Env, Packets};

    /// Bands, each a power of `ratio` heavier than the one after it: those of the priorities 0, 1,
    /// 2, and 3 and above.
    const BANDS: usize = 4;

    txweir::core::params! {
        /// Parameters of wfq.
        pub struct Config(env) {
            /// Most packets that wait, in all bands together.
            limit: Packets = Packets(env.tx_queue_len), keys ["limit"];
            /// How much more a band sends than the next.
            ratio: u32 = 2, keys ["ratio"], "1 to 16": |r| (1..=16).contains(r);
        }
    }

    txweir::core::stats! {
        /// Counters of wfq.
        pub struct Stats {
            /// Packets that began to wait in an empty band.
            begun: u64 [nonzero],
        }
    }

    /// Start-time fair queueing (P. Goyal, H. Vin, H. Cheng, SIGCOMM 1996): the packet with the
    /// least start tag goes first.
    #[derive(Debug)]
    pub struct Wfq {
        bands: [Queue; BANDS],
        /// The start tag of the first packet of each band, and the finish tag of the last where the
        /// band is empty.
        tags: [u64; BANDS],
        /// The start tag of the packet that was sent last.
        virtual_time: u64,
        ratio: u32,
        limit: u32,
        stats: Stats,
    }

    impl Discipline for Wfq {
        const KIND: &'static str = "wfq";
        const ABOUT: &'static str = "Four bands that share the line by weight.";
        const FLAGS: Flags = Flags { shapes: false, reorders: false };
        const IN_LINUX: bool = false;
        type Config = Config;
        type Rules = ();
        type Stats = Stats;

        fn resolve(_cfg: &mut Config, _old: Option<&Config>, _env: &Env) -> Result<(), ConfigError> {
            Ok(())
        }
        fn new(cfg: &Config, (): (), _env: &Env) -> Self {
            let bands = std::array::from_fn(|_| Queue::new());
            let (limit, ratio) = (cfg.limit.0, cfg.ratio);
            Self { bands, tags: [0; BANDS], virtual_time: 0, ratio, limit, stats: Stats::default() }
        }
        fn change(&mut self, cfg: &Config, (): (), _env: &Env, cx: &mut Cx) {
            (self.limit, self.ratio) = (cfg.limit.0, cfg.ratio);
            while self.waiting() > self.limit {
                let Next::Packet(p) = self.dequeue(cx) else { return };
                cx.drop(p, DropReason::Purged);
            }
        }
        fn would_accept(&self, _m: &Candidate<'_>, _class: Option<ClassId>) -> Verdict {
            if self.waiting() < self.limit { Verdict::Accept } else { Verdict::Full }
        }
        fn enqueue(&mut self, p: Pkt, _class: Option<ClassId>, cx: &mut Cx) {
            if self.waiting() >= self.limit {
                return cx.drop(p, DropReason::Overlimit);
            }
            let band = (cx.meta(&p).priority as usize).min(BANDS - 1);
            if self.bands[band].is_empty() {
                self.tags[band] = self.tags[band].max(self.virtual_time);
                self.stats.begun += 1;
            }
            self.bands[band].push_back(&mut cx.pool, p);
        }
        fn dequeue(&mut self, cx: &mut Cx) -> Next {
            let Some(band) = self.first() else { return Next::Empty };
            let Some(p) = self.bands[band].pop_front(&cx.pool) else { return Next::Empty };
            self.virtual_time = self.tags[band];
            // The bytes in units of the lightest band: its weight is 1, that of each band before it
            // `ratio` times more.
            let weight = u64::from(self.ratio).pow((BANDS - 1 - band) as u32);
            let cost = (u64::from(cx.meta(&p).wire_len) << 16) / weight;
            self.tags[band] = self.virtual_time.saturating_add(cost);
            Next::Packet(p)
        }
        fn head<'a>(&self, pool: &'a Pool) -> Option<Waiting<'a>> {
            self.bands[self.first()?].first(pool)
        }
        fn evict_all(&mut self, out: &mut List, pool: &mut Pool) {
            self.bands.iter_mut().for_each(|band| band.evict_all(out, pool));
        }
        fn queued(&self, pool: &Pool, f: &mut dyn FnMut(Waiting<'_>)) {
            self.bands.iter().flat_map(|band| band.waiting(pool)).for_each(f);
        }
        fn reset(&mut self, _cx: &mut Cx) {
            (self.tags, self.virtual_time) = ([0; BANDS], 0);
        }
        fn stats(&self) -> Stats {
            self.stats
        }
    }

    impl Wfq {
        fn waiting(&self) -> u32 {
            self.bands.iter().map(Queue::packets).sum()
        }
        /// The band whose first packet goes first; of several with the same tag the heaviest.
        fn first(&self) -> Option<usize> {
            (0..BANDS).filter(|band| !self.bands[*band].is_empty()).min_by_key(|band| self.tags[*band])
        }
    }
}

/// The entry of the kind, which registers it.
pub static WFQ: Spec = Spec::of::<kind::Wfq>();
static OWN: &[&Spec] = &[&WFQ];

/// The built-in kinds, and wfq.
pub fn kinds() -> Result<Registry, txweir::ConfigError> {
    Registry::with(OWN)
}

/// Offers 60 packets of each priority and gives the priorities of the first `sent` that leave, and
/// what `show` prints.
pub fn run(lines: &str, sent: u32) -> Result<(Vec<u32>, String), Box<dyn std::error::Error>> {
    let policy = Policy::of(Source::new("wfq.tc", lines).with_kinds(kinds()?), 0..lines.len())?;
    let mut device = VecDevice::with_slots(1);
    let mut path = TxPath::new(PathConfig { bql: None, ..PathConfig::default() })?.with_kinds(kinds()?);
    let now = Instant::ZERO;
    path.configure(now, &mut device, |tree, cx| policy.apply(tree, cx))?;
    for i in 0..240 {
        let priority = i % 4;
        let mut meta = Meta::new(1500);
        meta.priority = priority;
        let _ = path.submit(now, priority, meta, &mut device);
    }
    while device.sent().len() < sent as usize {
        let _ = path.drain(now, 64, &mut device);
        device.finish(1);
        path.reap(now, &mut device, |_| {});
    }
    Ok((device.sent().to_vec(), show::text(path.tree(), Some("eth0"), true)))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (sent, shown) = run("qdisc add root handle 1: wfq limit 300 ratio 3\n", 80)?;
    for band in 0..4 {
        println!("priority {band}: {} packets", sent.iter().filter(|p| **p == band).count());
    }
    print!("{shown}");
    Ok(())
}
