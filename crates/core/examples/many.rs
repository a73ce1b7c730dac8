//! The time in which 100 000 classes and a million filters are added, and one more behind them.
//!
//! `cargo run --release -p txweir-core --example many`

use std::ops::Range;
use std::time::{Duration, Instant as Wall};

use txweir_core::base::env::Env;
use txweir_core::classify::filter::flower::Field;
use txweir_core::classify::filter::{Existence, Filters, Flower, Goal, Named, Rule};
use txweir_core::path::tree::Tree;
use txweir_core::sched::cx::Cx;
use txweir_core::text::value::Words;
use txweir_core::{ConfigError, Handle, Instant};

/// Classes of each of two qdiscs, and filters.
const CLASSES: u16 = 50_000;
const FILTERS: u32 = 1_000_000;
/// Additions by which the cost of one is told.
const SOME: u16 = 1_000;

fn timed(add: impl FnOnce() -> Result<(), ConfigError>) -> Result<Duration, ConfigError> {
    let begun = Wall::now();
    add()?;
    Ok(begun.elapsed())
}

fn told(all: &str, few: Duration, rest: Duration, more: Duration) {
    let some = u32::from(SOME);
    println!(
        "{all}: {:.2} s; {:.0?} each of the first {some}, {:.0?} each behind them all",
        (few + rest).as_secs_f64(),
        few / some,
        more / some
    );
}

fn classes() -> Result<(), ConfigError> {
    let mut tree = Tree::new(Env { memory: 1 << 30, ..Env::default() });
    let cx = &mut Cx::new(16, 1);
    let [root, one, two] = [1, 10, 20].map(|major| Handle::new(major, 0));
    let mut edit = tree.edit(cx);
    edit.replace(Handle::ROOT, Some(root), "prio", &mut Words::new(&[]))?;
    for (minor, handle) in [(1, one), (2, two)] {
        edit.replace(Handle::new(1, minor), Some(handle), "htb", &mut Words::new(&[]))?;
    }
    let mut add = |qdisc: Handle, minors: Range<u16>| {
        for minor in minors {
            let words = &mut Words::new(&["rate", "1mbit"]);
            edit.add_class(qdisc, Handle::new(qdisc.major(), minor), None, words)?;
        }
        Ok(())
    };
    let few = timed(|| add(one, 1..SOME + 1))?;
    let rest = timed(|| {
        add(one, SOME + 1..CLASSES + 1)?;
        add(two, 1..CLASSES + 1)
    })?;
    let more = timed(|| add(two, CLASSES + 1..CLASSES + SOME + 1))?;
    told(&format!("{} classes of htb", 2 * u32::from(CLASSES)), few, rest, more);
    Ok(())
}

fn filters() -> Result<(), ConfigError> {
    let mut filters = Filters::new();
    let block = filters.add_block();
    let mut add = |range: Range<u32>| {
        for address in range {
            let rule = Flower::default().with(Field::ETH_TYPE, 0x0800).with(Field::DST_IP, address.into());
            let named = Named { prio: Some(1), protocol: Some(0x0800), ..Named::default() };
            let goal = Goal { class: Handle(0x1_0001), ..Goal::default() };
            filters.put(block, named, &Rule::Flower(rule), &goal, Existence::Add, Instant::ZERO)?;
        }
        Ok(())
    };
    let some = u32::from(SOME);
    let few = timed(|| add(0..some))?;
    let rest = timed(|| add(some..FILTERS))?;
    let more = timed(|| add(FILTERS..FILTERS + some))?;
    told(&format!("{FILTERS} flower filters"), few, rest, more);
    Ok(())
}

fn main() -> Result<(), ConfigError> {
    classes()?;
    filters()
}
