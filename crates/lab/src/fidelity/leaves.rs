//! The leaf qdiscs of a policy, and the rate that each can have.

use std::collections::BTreeMap;

use txweir_core::path::trees::Trees;
use txweir_core::sched::classful::UserClasses;
use txweir_core::sched::erased::Qdisc;
use txweir_core::sched::node::Node;
use txweir_core::text::params::Shown;
use txweir_core::text::value::{Value, Words, exact_of};
use txweir_core::{Handle, Rate};

/// A leaf qdisc, with the rates between which it works: the link's, unless a qdisc or class above
/// it shapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// Its kind, as the recordings name it: see [`leaves`].
    pub kind: &'static str,
    /// The rate while every other class sends.
    pub least: Rate,
    /// The rate while it sends alone.
    pub most: Rate,
}

/// The parameters that limit the rate of a qdisc: of tbf and netem, and of cake.
const OF_QDISC: [&str; 2] = ["rate", "bandwidth"];

/// Returns every leaf of a tree for which `used` holds, with its rates on a link of rate `link`.
///
/// The recordings have one name for kinds that work alike: a bare tbf keeps its packets in a FIFO
/// of its own and is the kind `tbf`; pfifo_fast with packets of one band is `pfifo`.
pub fn leaves(trees: &Trees<'_>, link: Rate, used: &mut dyn FnMut(&Node) -> bool) -> Vec<Leaf> {
    let mut nodes: Vec<(usize, Handle, &Node, bool)> = Vec::new();
    trees.visit(&mut |place, node| nodes.push((place.depth, place.parent, node, used(node))));
    let mut above: Vec<Above<'_>> = Vec::new();
    let mut found = Vec::new();
    for (i, &(depth, parent, node, used)) in nodes.iter().enumerate() {
        above.truncate(depth);
        let from = above.last();
        let mut rates = from.map_or([link; 2], |above| above.rates);
        if let Some((from, classes)) =
            from.and_then(|above| Some((above, above.node.qdisc().user_classes()?)))
        {
            rates = below_class(classes, &from.parents, parent.minor(), rates);
        }
        if let Some(own) = rate_of(&mut |f| node.qdisc().options(f), &OF_QDISC) {
            rates = rates.map(|rate| rate.min(own));
        }
        // Packets that no qdisc below has seen wait in this one: netem's, or htb's direct ones.
        let mut below = nodes[i + 1..].iter().take_while(|below| below.0 > depth);
        if used && !below.any(|(.., used)| *used) {
            let kind = recorded_as(node, from.map(|above| above.node.qdisc()));
            found.push(Leaf { kind, least: rates[0], most: rates[1] });
        }
        above.push(Above::of(node, rates));
    }
    found
}

/// A qdisc on the way to a leaf.
struct Above<'a> {
    node: &'a Node,
    rates: [Rate; 2],
    /// The parent of each of its classes, by their minor numbers.
    parents: BTreeMap<u16, u16>,
}

impl<'a> Above<'a> {
    fn of(node: &'a Node, rates: [Rate; 2]) -> Self {
        let mut parents = BTreeMap::new();
        if let Some(classes) = node.qdisc().user_classes() {
            classes.list(&mut |class| {
                parents.insert(class.at.minor, class.at.parent);
            });
        }
        Self { node, rates, parents }
    }
}

fn recorded_as(leaf: &Node, above: Option<&dyn Qdisc>) -> &'static str {
    let above = above.map_or("", |q| q.spec().kind);
    match (leaf.qdisc().spec().kind, above) {
        ("bfifo", "tbf") if leaf.handle().is_none() => "tbf",
        ("pfifo_fast", _) => "pfifo",
        (kind, _) => kind,
    }
}

/// Returns the rates of a class that has a rate and a ceiling, like htb's; other classes keep the
/// rates of their parent.
fn below_class(
    classes: &dyn UserClasses,
    parents: &BTreeMap<u16, u16>,
    minor: u16,
    [least, most]: [Rate; 2],
) -> [Rate; 2] {
    let shown = |minor: u16, key: &str| rate_of(&mut |f| classes.options(minor, f), &[key]);
    let mut most = most;
    let mut at = minor;
    // A class is not its own ancestor; the bound holds even if the list says otherwise.
    for _ in 0..=parents.len() {
        // A class without a ceiling borrows nothing.
        most = shown(at, "ceil").or_else(|| shown(at, "rate")).map_or(most, |ceil| most.min(ceil));
        match parents.get(&at) {
            Some(parent) if *parent != 0 => at = *parent,
            _ => break,
        }
    }
    [shown(minor, "rate").map_or(least.min(most), |rate| rate.min(most)), most]
}

/// A function that calls its argument on each parameter.
type Options<'a> = dyn FnMut(&mut dyn FnMut(Shown<'_>)) + 'a;

/// Returns the first parameter of these names, as a rate; `None` if it is 0 or not set.
fn rate_of(options: &mut Options<'_>, keys: &[&str]) -> Option<Rate> {
    let mut found = None;
    options(&mut |shown| {
        if found.is_none() && keys.contains(&shown.param.key) && shown.value.is_set() {
            let text = exact_of(shown.value);
            // Some values begin with their key.
            let rate = |word| Rate::take(&mut Words::new(&[word])).ok();
            found = text.split_whitespace().find_map(rate).filter(|rate| rate.bits() > 0);
        }
    });
    found
}
