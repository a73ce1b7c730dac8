//! `txweir kinds`: the parameters and counters of each kind, from the declarations in the code.

use txweir::core::qdisc::{KINDS, kind};
use txweir::core::sched::classful::ClassSpec;
use txweir::core::sched::spec::Spec;
use txweir::core::text::params::{Param, Shown};
use txweir::core::text::stats::Counter;
use txweir::core::text::value::{Value, Words, text_of};
use txweir::tc::json::{self, Object};
use txweir::{Bytes, Env, ErrorKind, Rate};

use crate::{Failure, output};

/// Options of `txweir kinds`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The kind to show [default: list all]
    kind: Option<String>,
    /// Print JSON
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// Print the tables of the documentation
    #[arg(long, requires = "kind")]
    markdown: bool,
}

/// Runs `txweir kinds`.
pub fn main(args: Args) -> Result<(), Failure> {
    let text = match args.kind.as_deref() {
        None if args.json => return output::json(json::list(KINDS.iter().map(|s| object(s)))),
        None => list(),
        Some(name) => {
            let spec = kind(name).map_err(|e| {
                Failure::usage(format!("there is no qdisc kind \"{name}\": expected {}", e.expected))
            })?;
            match (args.json, args.markdown) {
                (true, _) => return output::json(object(spec)),
                (_, true) => markdown(spec),
                _ => page(spec),
            }
        }
    };
    output::print(text)
}

/// A parameter in the documentation.
struct Row {
    /// The words to write: `limit`, `burst, buffer, maxburst`, `ecn, noecn`.
    words: String,
    /// The form of the value, with its range.
    value: String,
    /// The value without the parameter, on an Ethernet device; `required`, `off`.
    default: String,
    about: &'static str,
}

/// Returns the form of a value, with its range.
fn value(p: &Param) -> String {
    match (p.flag, p.range) {
        (true, _) => "flag".to_string(),
        (_, "") => p.expected.to_string(),
        // The range says whether it may be below 0.
        (_, range) => format!("{}, {range}", p.expected.trim_end_matches(" that may be below 0")),
    }
}

/// Returns the text of a parameter without which a qdisc was made; `None` if it is off.
fn default(o: &Shown<'_>) -> Option<String> {
    let text = if o.param.flag { o.word.map(String::from) } else { Some(text_of(o.value)) };
    text.filter(|_| o.value.is_set())
}

/// Returns the parameters of the classes of a kind.
fn class_rows(classes: &ClassSpec) -> Vec<Row> {
    let mut rows = Vec::new();
    classes.defaults(&Env::default(), &mut |o: Shown<'_>| {
        let p = o.param;
        let default = match (p.about.ends_with("Must be given."), default(&o)) {
            (true, _) => "required".into(),
            (_, text) => text.unwrap_or_else(|| "off".into()),
        };
        rows.push(Row { words: p.words.join(", "), value: value(p), default, about: p.about });
    });
    rows
}

fn rows(spec: &Spec) -> Vec<Row> {
    let (required, defaults) = defaults(spec);
    let row = |p: &'static Param| {
        let either = required.iter().find(|(_, why)| is_choice(why) && names(why, p.key));
        let default = match (either, required.iter().any(|(key, _)| *key == p.key)) {
            (Some((_, why)), _) => why.clone(),
            (_, true) => "required".to_string(),
            _ => defaults
                .iter()
                .find(|(key, _)| *key == p.key)
                .map_or_else(|| "off".into(), |(_, d)| d.clone()),
        };
        let words: Vec<&str> = p.words.iter().chain(p.alone).copied().collect();
        Row { words: words.join(", "), value: value(p), default, about: p.about }
    };
    spec.params.iter().map(row).collect()
}

/// True if a reason says that one of several parameters is required.
fn is_choice(why: &str) -> bool {
    why.starts_with("either ") || why.starts_with("at least one of ")
}

/// True if a reason names the parameter.
fn names(why: &str, key: &str) -> bool {
    why.split([' ', ',']).any(|word| word == key)
}

/// A parameter with a text.
type Told = (&'static str, String);

/// Returns the required parameters, each with the error text that names it, and the default values
/// of the others: those of a qdisc on a device of eight queues, if it needs no parameter, and the
/// declared ones otherwise, which do not depend on values that were only tried.
fn defaults(spec: &Spec) -> (Vec<Told>, Vec<Told>) {
    // Some kinds need several queues.
    let env = Env { queues: 8, ..Env::default() };
    let mut given: Vec<&str> = Vec::new();
    let (mut required, mut defaults): (Vec<Told>, Vec<Told>) = Default::default();
    let mut tell = |o: Shown<'_>| defaults.extend(default(&o).map(|text| (o.param.key, text)));
    loop {
        let missing = match spec.build(&mut Words::new(&given), &env) {
            Ok(qdisc) if given.is_empty() => {
                qdisc.options(&mut tell);
                return (required, defaults);
            }
            built => built.err(),
        };
        let key = missing.as_ref().filter(|e| e.kind == ErrorKind::Missing).and_then(|e| e.key.as_deref());
        let param = spec.params.iter().find(|p| Some(p.key) == key && !given.contains(&p.key));
        let (Some(param), Some(missing)) = (param, missing) else {
            spec.defaults(&env, &mut tell);
            return (required, defaults);
        };
        // Any value does: it only leads to the next one that is required.
        let sample = match param.expected {
            rate if rate == <Rate as Value>::EXPECTED => "1mbit",
            size if size == <Bytes as Value>::EXPECTED => "10kb",
            _ => "1",
        };
        given.extend([param.key, sample]);
        required.push((param.key, missing.expected));
    }
}

/// Returns the abilities of a kind beside queueing, in words.
fn flags(spec: &Spec) -> Vec<&'static str> {
    let all = [
        (spec.shape.is_classful(), "classful"),
        (spec.flags.shapes, "shapes"),
        (spec.flags.reorders, "reorders"),
    ];
    all.into_iter().filter_map(|(on, word)| on.then_some(word)).collect()
}

fn list() -> String {
    KINDS.iter().map(|s| format!("{:16} {}\n", s.kind, s.about)).collect()
}

fn page(spec: &Spec) -> String {
    let mut out = format!("{}: {}\n", spec.kind, spec.about);
    if !flags(spec).is_empty() {
        out.push_str(&format!("  {}\n", flags(spec).join(", ")));
    }
    if !spec.params.is_empty() {
        out.push_str("\nParameters\n");
    }
    push_rows(&mut out, rows(spec));
    if !spec.counters.is_empty() {
        out.push_str("\nCounters\n");
    }
    for c in spec.counters {
        out.push_str(&format!("  {:16} {}\n", c.key, c.about));
    }
    if !spec.parts.is_empty() {
        out.push_str("\nCounters of each part\n");
    }
    for c in spec.parts {
        out.push_str(&format!("  {:16} {}\n", c.key, c.about));
    }
    let Some(classes) = spec.classes else { return out };
    out.push_str("\nParameters of a class\n");
    push_rows(&mut out, class_rows(classes));
    if !classes.counters.is_empty() {
        out.push_str("\nCounters of a class\n");
    }
    for c in classes.counters {
        out.push_str(&format!("  {:16} {}\n", c.key, c.about));
    }
    out
}

fn push_rows(out: &mut String, rows: Vec<Row>) {
    for row in rows {
        let must = row.default == "required" || is_choice(&row.default);
        let default = if must { row.default } else { format!("default {}", row.default) };
        out.push_str(&format!("  {}: {}; {default}\n      {}\n", row.words, row.value, row.about));
    }
}

/// Renders the tables of `docs/qdisc/KIND.md`, each between its markers.
fn markdown(spec: &Spec) -> String {
    let mut out = String::new();
    push_table(&mut out, "parameters", "No parameters.", rows(spec));
    push_counters(&mut out, "counters", spec.counters, spec.parts);
    if let Some(classes) = spec.classes {
        push_table(&mut out, "class parameters", "No parameters.", class_rows(classes));
        push_counters(&mut out, "class counters", classes.counters, &[]);
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

fn push_table(out: &mut String, name: &str, none: &str, rows: Vec<Row>) {
    out.push_str(&format!("<!-- generated: {name} -->\n"));
    if rows.is_empty() {
        out.push_str(&format!("{none}\n"));
    } else {
        out.push_str("| Parameter | Value | Default | Meaning |\n|---|---|---|---|\n");
        for row in rows {
            let words: Vec<String> = row.words.split(", ").map(|w| format!("`{w}`")).collect();
            let cells =
                [words.join(", "), row.value, row.default, row.about.into()].map(|c| c.replace('|', "\\|"));
            out.push_str(&format!("| {} |\n", cells.join(" | ")));
        }
    }
    out.push_str("<!-- end -->\n\n");
}

fn push_counters(out: &mut String, name: &str, counters: &[Counter], parts: &[Counter]) {
    out.push_str(&format!("<!-- generated: {name} -->\n"));
    if counters.is_empty() {
        out.push_str("No counters of its own.\n");
    } else {
        out.push_str("| Counter | Meaning |\n|---|---|\n");
        for c in counters {
            out.push_str(&format!("| `{}` | {} |\n", c.key, c.about.replace('|', "\\|")));
        }
    }
    if !parts.is_empty() {
        out.push_str("\n| Counter of each part | Meaning |\n|---|---|\n");
        for c in parts {
            out.push_str(&format!("| `{}` | {} |\n", c.key, c.about.replace('|', "\\|")));
        }
    }
    out.push_str("<!-- end -->\n\n");
}

fn object(spec: &Spec) -> String {
    let quoted = |words: &[&str]| json::list(words.iter().map(|w| json::quote(w)));
    let row = |(p, row): (&Param, Row)| {
        Object::new()
            .text("key", p.key)
            .raw("words", &quoted(p.words))
            .raw("alone", &quoted(p.alone))
            .bool("flag", p.flag)
            .text("value", &row.value)
            .text("default", &row.default)
            .text("about", row.about)
            .finish()
    };
    let counter = |c: &Counter| Object::new().text("key", c.key).text("about", c.about).finish();
    let o = Object::new()
        .text("kind", spec.kind)
        .text("about", spec.about)
        .raw("flags", &quoted(&flags(spec)))
        .raw("parameters", &json::list(spec.params.iter().zip(rows(spec)).map(row)))
        .raw("counters", &json::list(spec.counters.iter().map(counter)))
        .raw("parts", &json::list(spec.parts.iter().map(counter)));
    let Some(classes) = spec.classes else { return o.finish() };
    o.raw("class_parameters", &json::list(classes.params.iter().zip(class_rows(classes)).map(row)))
        .raw("class_counters", &json::list(classes.counters.iter().map(counter)))
        .finish()
}
