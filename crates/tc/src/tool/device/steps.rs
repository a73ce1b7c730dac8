//! Listings in steps, between which packets have their turn. A listing looks at all objects once,
//! to learn their order and the counters of classes; then it makes a part of the output at a time.
//! Only packets pass meanwhile: no object comes or goes, and the counters of qdiscs are of several
//! moments.

use std::ops::Range;

use txweir_core::Handle;
use txweir_core::classify::filter::{Block, BlockId, Chain, Table};
use txweir_core::path::tree::Place;
use txweir_core::path::trees::Trees;
use txweir_core::sched::capability::FlowShown;
use txweir_core::sched::classful::ClassShown;
use txweir_core::sched::node::{Books, Node};

use super::{Devices, OBJECTS};
use crate::show::{self, Seen, What};
use crate::tool::in_order;

impl dyn Devices + '_ {
    /// Calls `f` on each of these in order; packets have their turn before the first one, and after
    /// some.
    pub fn in_steps<N>(&mut self, all: impl IntoIterator<Item = N>, f: &mut dyn FnMut(&mut dyn Devices, N)) {
        for (at, one) in all.into_iter().enumerate() {
            if at % OBJECTS == 0 {
                self.pause();
            }
            f(self, one);
        }
    }

    /// Makes something of each listed qdisc of a device, from its place and its counters, and calls
    /// `take` on it, in the order of [`show::each_qdisc`]. With `invisible` default qdiscs below
    /// classes are listed too.
    pub fn each_qdisc<T>(
        &mut self,
        name: &str,
        invisible: bool,
        make: &dyn Fn(Place, &Node, &Books) -> T,
        take: &mut dyn FnMut(T),
    ) {
        self.pause();
        let Some(device) = self.device(name) else { return };
        let mut all = Vec::new();
        show::each_qdisc(device.tree(), invisible, &mut |place, node, books| {
            // The counters of a root that stands for queues are those of the qdiscs below it.
            all.push(match is_found(place) && !show::counts_below(node) {
                true => Noted::Later((place, node.handle())),
                false => Noted::Now(make(place, node, books)),
            });
        });
        self.in_parts(name, all, &mut |trees, one| match one {
            Noted::Now(made) => take(made),
            Noted::Later((place, handle)) => {
                let node = trees.qdisc_at(place.parent).filter(|node| node.handle() == handle);
                node.into_iter().for_each(|node| take(make(place, node, &node.books())));
            }
        });
    }

    /// Makes something of each class of a device, and calls `take` on it, in the order of
    /// [`show::each_class`]; of flows too, if they are asked for.
    pub fn each_class<T>(
        &mut self,
        name: &str,
        flows: bool,
        make: &dyn Fn(&Seen<'_>) -> T,
        take: &mut dyn FnMut(T),
    ) {
        self.pause();
        let Some(device) = self.device(name) else { return };
        let (mut notes, mut all) = (Notes::default(), Vec::new());
        show::each_class(&device.tree(), flows, &mut |seen| {
            all.push(match notes.note(&seen.what) {
                Some(class) => Noted::Later((seen.id, class)),
                None => Noted::Now(make(seen)),
            });
        });
        self.in_parts(name, all, &mut |trees, one| match one {
            Noted::Now(made) => take(made),
            Noted::Later((id, class)) => notes.find(trees, id, &class, &mut |seen| take(make(seen))),
        });
    }

    /// Calls `f` on each table of filters of a block, with the devices, the block and the chain, in
    /// the order of listings. Packets have their turn before each table; all filters of one are in
    /// one step.
    pub fn each_table(&mut self, block: BlockId, f: &mut dyn FnMut(&dyn Devices, &Block, &Chain, &Table)) {
        let chains = in_order(self.filters(), Some(block)).into_iter();
        let tables = chains.flat_map(|chain| chain.tables.iter().map(move |table| (chain.index, table.prio)));
        let all: Vec<(u32, u16)> = tables.collect();
        for (index, prio) in all {
            self.pause();
            let Some(block) = self.filters().block(block) else { return };
            let Some(chain) = block.chain(index) else { continue };
            // The tables of a chain are in the order of their priorities, each of which is there
            // once.
            let at = chain.tables.binary_search_by_key(&prio, |table| table.prio);
            if let Some(table) = at.ok().and_then(|at| chain.tables.get(at)) {
                f(self, block, chain, table);
            }
        }
    }

    /// Calls `f` on each of these, with the qdiscs of a device; packets have their turn between
    /// parts.
    fn in_parts<N>(&mut self, name: &str, all: Vec<N>, f: &mut dyn FnMut(&Trees<'_>, N)) {
        let mut rest = all.into_iter();
        while rest.len() > 0 {
            self.pause();
            let Some(device) = self.device(name) else { return };
            let trees = device.tree();
            rest.by_ref().take(OBJECTS).for_each(|one| f(&trees, one));
        }
    }
}

/// An object of a listing.
enum Noted<N, T> {
    /// One that has no name by which it is found again: that which was made of it.
    Now(T),
    /// One that is made into something later.
    Later(N),
}

/// True if the qdisc at a listed place is found by that place: the classes of a qdisc without a
/// handle have no names, nor has a class that a listing leaves out.
fn is_found(place: Place) -> bool {
    let Place { parent, depth } = place;
    depth == 0 || parent.major() != 0 && parent.minor() != 0 && parent != Handle::ROOT
}

/// A class as it was noted; its options, and the qdisc in it, are looked up later.
enum Class {
    /// A band.
    Band,
    /// A class that a command has made, or may change: its counters, whether it has a qdisc, and
    /// the place of its own counters.
    Made(ClassShown<'static>, bool, Range<usize>),
    /// A flow that a qdisc keeps apart, and the place of its state.
    Flow(FlowShown<'static>, Range<usize>),
}

/// The numbers of noted classes, in two lists for all of them, so that a class takes no memory of
/// its own.
#[derive(Default)]
struct Notes {
    counters: Vec<i64>,
    states: Vec<(&'static str, i64)>,
}

impl Notes {
    /// Notes a class; `None` for a class of a root that stands for queues, of which there are few.
    fn note(&mut self, what: &What<'_>) -> Option<Class> {
        Some(match what {
            What::OfQueues(_) => return None,
            What::Band(_) => Class::Band,
            What::Made(_, class) => {
                let ClassShown { at, leaf, sent, sent_segs, drops, overlimits, backlog, values } = **class;
                let from = self.counters.len();
                self.counters.extend_from_slice(values);
                let own = from..self.counters.len();
                let shown =
                    ClassShown { at, leaf: None, sent, sent_segs, drops, overlimits, backlog, values: &[] };
                Class::Made(shown, leaf.is_some(), own)
            }
            What::Flow(flow) => {
                let FlowShown { minor, backlog, values } = **flow;
                let from = self.states.len();
                self.states.extend_from_slice(values);
                Class::Flow(FlowShown { minor, backlog, values: &[] }, from..self.states.len())
            }
        })
    }

    /// Calls `f` on a class with its number as it was noted, if its qdisc is there.
    fn find(&self, trees: &Trees<'_>, id: Handle, class: &Class, f: &mut dyn FnMut(&Seen<'_>)) {
        let Some(owner) = trees.qdisc(id) else { return };
        let in_class = |minor| owner.qdisc().class(minor);
        match class {
            Class::Band => {
                if let Some(class) = in_class(id.minor()) {
                    f(&Seen { owner, id, what: What::Band(class) });
                }
            }
            Class::Made(class, has_leaf, own) => {
                let Some(classes) = owner.qdisc().user_classes() else { return };
                let leaf = in_class(class.at.minor).filter(|_| *has_leaf).map(|class| &class.node);
                let values = self.counters.get(own.clone()).unwrap_or_default();
                let class = ClassShown { leaf, values, ..*class };
                f(&Seen { owner, id, what: What::Made(classes, &class) });
            }
            Class::Flow(flow, own) => {
                let values = self.states.get(own.clone()).unwrap_or_default();
                f(&Seen { owner, id, what: What::Flow(&FlowShown { values, ..*flow }) });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use txweir_core::classify::action::State;
    use txweir_core::classify::filter::Filters;
    use txweir_core::classify::packet::PortId;
    use txweir_core::{Env, Instant};

    use super::*;
    use crate::memory::{Memory, MemoryDevice};
    use crate::source::Source;
    use crate::tool::{Device, Outcome, Request, run};

    /// A device `lan` that is gone after this number of turns for packets.
    struct Turns {
        memory: Memory,
        turns: usize,
        most: usize,
    }

    impl Turns {
        fn new(lines: &str) -> Self {
            let lan = MemoryDevice::new("lan", 4, Env { memory: 64 << 20, ..Env::default() });
            let mut memory = Memory::new(&[]).with(lan);
            let request = Request {
                args: ["-b", "b.tc"].map(String::from).to_vec(),
                batch: Some(Source::new("b.tc", lines)),
                ..Request::default()
            };
            assert_eq!(run(&request, &mut memory), Outcome::default());
            Self { memory, turns: 0, most: usize::MAX }
        }
    }

    impl Devices for Turns {
        fn names(&self) -> Vec<String> {
            self.memory.names()
        }
        fn device(&mut self, name: &str) -> Option<&mut dyn Device> {
            if self.turns > self.most { None } else { self.memory.device(name) }
        }
        fn filters(&self) -> &Filters {
            self.memory.filters()
        }
        fn filters_mut(&mut self) -> &mut Filters {
            self.memory.filters_mut()
        }
        fn state(&self) -> &State {
            self.memory.state()
        }
        fn port(&mut self, name: &str) -> Option<PortId> {
            self.memory.port(name)
        }
        fn now(&self) -> Instant {
            self.memory.now()
        }
        fn pause(&mut self) {
            self.turns += 1;
        }
    }

    /// Lines with qdiscs and classes of each sort that a listing has: queues, bands, classes that
    /// commands make, flows, and qdiscs without a handle.
    fn policies() -> Vec<String> {
        let mut many = "qdisc add dev lan root handle 1: htb default 2\n\
                        class add dev lan parent 1: classid 1:1 htb rate 1gbit\n"
            .to_owned();
        for n in 2..99 {
            many += &format!("class add dev lan parent 1:1 classid 1:{n:x} htb rate 1mbit ceil 9mbit\n");
            if n % 3 == 0 {
                many += &format!("qdisc add dev lan parent 1:{n:x} skbprio\n");
            }
        }
        let queues = "qdisc replace dev lan root handle 7: mq\n\
                      qdisc replace dev lan parent 7:2 handle 2: prio bands 9\n\
                      qdisc replace dev lan parent 2:3 handle 23: cbs\n\
                      qdisc replace dev lan clsact\n";
        let hfsc = "qdisc add dev lan root handle 1: hfsc default 2\n\
                    class add dev lan parent 1: classid 1:2 hfsc sc rate 1mbit\n\
                    qdisc add dev lan parent 1:2 handle 2: drr\n\
                    class add dev lan parent 2: classid 2:1 drr\n";
        [many.as_str(), queues, hfsc, "qdisc add dev lan root sfq\n", ""].map(String::from).to_vec()
    }

    fn qdisc(place: Place, node: &Node, books: &Books) -> String {
        format!("{place:?} {} {} {books:?}", node.qdisc().spec().kind, node.handle())
    }

    fn class(seen: &Seen<'_>) -> String {
        let more = match seen.what {
            What::OfQueues(of) => format!("queue {} {:?}", of.leaf, of.books),
            What::Made(classes, class) => {
                let mut options = String::new();
                classes.options(class.at.minor, &mut |o| options.push_str(o.param.key));
                let leaf = class.leaf.map(Node::handle);
                let counts = (class.sent, class.sent_segs, class.drops, class.overlimits, class.backlog);
                format!("{:?} {leaf:?} {counts:?} {:?} {options}", class.at, class.values)
            }
            What::Band(class) => format!("band {} {}", class.minor, class.node.handle()),
            What::Flow(flow) => format!("{flow:?}"),
        };
        format!("{} {} {:?} {more}", seen.owner.handle(), seen.id, seen.parent())
    }

    /// The listings are those of one step, whatever is listed.
    #[test]
    fn a_listing_in_steps_is_the_whole_listing() {
        for lines in policies() {
            let mut world = Turns::new(&lines);
            for flag in [false, true] {
                let (mut whole, mut seen) = (Vec::new(), Vec::new());
                let device = world.device("lan").expect("a device");
                show::each_qdisc(device.tree(), flag, &mut |place, node, books| {
                    whole.push(qdisc(place, node, books));
                });
                let devices: &mut dyn Devices = &mut world;
                devices.each_qdisc("lan", flag, &qdisc, &mut |made| seen.push(made));
                assert_eq!(seen, whole, "{lines}");
                assert!(!seen.is_empty());
                let (mut whole, mut seen) = (Vec::new(), Vec::new());
                let device = world.device("lan").expect("a device");
                show::each_class(&device.tree(), flag, &mut |one| whole.push(class(one)));
                let devices: &mut dyn Devices = &mut world;
                devices.each_class("lan", flag, &class, &mut |made| seen.push(made));
                assert_eq!(seen, whole, "{lines}");
            }
        }
    }

    /// Packets have their turn after each part, and a device that is gone by then ends the listing.
    #[test]
    fn packets_have_turns_within_a_listing() {
        let lines = policies().swap_remove(0);
        let mut world = Turns::new(&lines);
        let mut seen = 0;
        let devices: &mut dyn Devices = &mut world;
        devices.each_class("lan", false, &|_| (), &mut |()| seen += 1);
        assert_eq!(seen, 98);
        // One before the list is read, and one before each of its parts.
        assert_eq!(world.turns, 1 + 98_usize.div_ceil(OBJECTS));
        (world.turns, world.most) = (0, 3);
        let mut seen = 0;
        let devices: &mut dyn Devices = &mut world;
        devices.each_class("lan", false, &|_| (), &mut |()| seen += 1);
        assert_eq!(seen, 2 * OBJECTS);
        (world.turns, world.most) = (0, usize::MAX);
        let mut seen = Vec::new();
        let devices: &mut dyn Devices = &mut world;
        devices.in_steps(0..40, &mut |_, one| seen.push(one));
        assert_eq!((seen, world.turns), ((0..40).collect::<Vec<_>>(), 3));
    }

    /// The listings of filters, chains and actions are made in steps.
    #[test]
    fn packets_have_turns_within_listings_of_filters() {
        let mut lines = "qdisc add dev lan clsact\n".to_owned();
        for n in 1..=160 {
            let place = format!("filter add dev lan ingress protocol ip chain {n} prio {n}");
            lines += &format!("{place} matchall action pass\n");
        }
        let mut world = Turns::new(&lines);
        for line in ["filter show dev lan ingress", "chain show dev lan ingress", "actions ls action gact"] {
            world.turns = 0;
            let args = line.split(' ').map(String::from).collect();
            let done = run(&Request { args, ..Request::default() }, &mut world);
            assert_eq!((done.status, done.stderr.as_str()), (0, ""), "{line}");
            assert!(done.stdout.lines().count() >= 160, "{line}: {}", done.stdout);
            assert!(world.turns >= 10, "{line}: {}", world.turns);
        }
    }
}
