//! `docs/scenarios.md` names every key of a scenario and of a report.

use std::collections::BTreeSet;

use txweir_lab::scenario::Scenario;

use crate::common;

const DOCS: &str = include_str!("../../../../docs/scenarios.md");

#[track_caller]
fn documented(keys: impl IntoIterator<Item = String>) -> usize {
    let keys: BTreeSet<String> = keys.into_iter().collect();
    for key in &keys {
        let named = [format!("`{key}`"), format!("`[[{key}]]`")].iter().any(|k| DOCS.contains(k));
        assert!(named, "docs/scenarios.md does not name `{key}`");
    }
    keys.len()
}

/// A key that does not exist is refused with the list of the existing keys.
#[test]
fn every_key_of_a_scenario_is_documented() {
    let traffic = "[[traffic]]\nname = 't'\nfrom = 'a'\nto = 'b'\nkind = 'stream'";
    let good = common::two_hosts("duration = '1s'", "", "rate = '1mbit'", traffic);
    let mut found = 0;
    for at in ["duration", "[[host]]", "[[link]]", "[[traffic]]"] {
        let wrong = match at {
            "duration" => good.replacen("duration", "wrong = 1\nduration", 1),
            table => good.replacen(table, &format!("{table}\nwrong = 1"), 1),
        };
        let e = Scenario::parse(&wrong, "wrong").unwrap_err();
        let (said, list) = e.message.split_once("expected one of ").unwrap_or((&e.message, ""));
        assert_eq!(said, "unknown field `wrong`, ");
        found += documented(list.split(", ").map(|k| k.trim_matches('`').to_string()));
    }
    assert_eq!(found, 9 + 16 + 24 + 29);
}

#[test]
fn every_key_of_a_report_is_documented() {
    let kinds = [
        "'rr'\nsize = '1'",
        "'cbr'\nsize = '100'\nrate = '100kbit'",
        "'short'\nsize = '1000'\narrivals = 10",
        "'voice'",
        "'video'\nrate = '100kbit'",
        "'dns'\narrivals = 10",
    ];
    let traffic: String = kinds
        .iter()
        .map(|kind| format!("[[traffic]]\nname = 't'\nfrom = 'a'\nto = 'b'\nkind = {kind}\n"))
        .collect();
    let report = common::report(&common::two_hosts("duration = '3s'", "", "rate = '1mbit'", &traffic));
    let value: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
    let mut keys = Vec::new();
    collect(&value, &mut keys);
    assert_eq!(documented(keys), 73);
}

fn collect(value: &serde_json::Value, keys: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(o) => {
            for (key, value) in o {
                keys.push(key.clone());
                // The keys of these objects are the names of reasons.
                if key != "drops" && key != "marks" {
                    collect(value, keys);
                }
            }
        }
        serde_json::Value::Array(a) => a.iter().for_each(|v| collect(v, keys)),
        _ => {}
    }
}
