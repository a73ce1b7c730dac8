//! Scenarios in TOML.

use txweir_core::Nanos;
use txweir_lab::report::Report;
use txweir_lab::run;
use txweir_lab::scenario::Scenario;

/// Most tables of each kind, queues, descriptors and members of a scenario that is built: each
/// takes memory.
const BOUNDS: [(&str, &str, i64); 5] = [
    ("host", "", 6),
    ("link", "queues", 4),
    ("link", "ring", 1024),
    ("traffic", "count", 16),
    ("traffic", "at_once", 64),
];
/// Most links of a scenario that is built.
const LINKS_MAX: usize = 3;
/// Longest run, and most events of one.
const TIME_MAX: Nanos = Nanos::from_millis(20);

/// Reads a text as a scenario, and runs a short one: the report is of the run that was asked for,
/// and a second build is as the first.
///
/// # Panics
/// If a scenario that was read cannot be built, or its report is about another run.
pub fn scenario(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if !is_small(&text) {
        return;
    }
    let scenario = match Scenario::parse(&text, "s.toml") {
        Ok(scenario) => scenario,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            assert!(text.get(error.span.clone()).is_some(), "{:?} of {text:?}", error.span);
            return;
        }
    };
    if scenario.duration() > TIME_MAX {
        return;
    }
    let mut built = match scenario.build(scenario.seed()) {
        Ok(built) => built,
        Err(error) => panic!("a scenario that was read cannot be built: {error}"),
    };
    run::play(&scenario, &mut built, &mut |_| {});
    let report = Report::new(&scenario, scenario.seed(), &built);
    assert_eq!(report.measured_ns + report.warmup_ns, scenario.duration().0);
}

/// True if a text asks for little: the documented bounds of a scenario are those of a machine.
fn is_small(text: &str) -> bool {
    let Ok(table) = text.parse::<toml::Table>() else { return true };
    let tables = |name: &str| table.get(name).and_then(toml::Value::as_array).map_or(&[][..], Vec::as_slice);
    let within = |(name, key, most): &(&str, &str, i64)| match *key {
        "" => tables(name).len() as i64 <= *most,
        key => {
            tables(name).iter().all(|t| t.get(key).and_then(toml::Value::as_integer).unwrap_or(1) <= *most)
        }
    };
    BOUNDS.iter().all(within) && tables("link").len() <= LINKS_MAX && tables("traffic").len() <= 4
}
