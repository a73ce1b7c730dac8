//! Plays packet-exact cases and shows where they differ: `exact FILES... [--only NAME] [--show N]`.

use txweir_lab::recorded::exact::Case;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let value = |key: &str| args.iter().position(|a| a == key).and_then(|i| args.get(i + 1).cloned());
    let (only, show) = (value("--only"), value("--show").and_then(|n| n.parse::<usize>().ok()).unwrap_or(0));
    let (mut equal, mut all) = (0, 0);
    for file in args.iter().filter(|a| a.ends_with(".jsonl")) {
        for line in std::fs::read_to_string(file).expect("reads").lines() {
            let case = Case::parse(line).expect("parses");
            if only.as_ref().is_some_and(|o| !case.name.contains(o.as_str())) {
                continue;
            }
            let o = case.play();
            all += 1;
            equal += usize::from(o.differs.is_none());
            let Some(i) = o.differs else {
                println!("{:28} equal ({} segments)", case.name, o.recorded.len());
                continue;
            };
            println!(
                "{:28} differs at {i} of {} ({} here): there {:?}, here {:?}",
                case.name,
                o.recorded.len(),
                o.here.len(),
                o.recorded.get(i),
                o.here.get(i)
            );
            if show > 0 {
                let from = i.saturating_sub(show);
                for j in from..i + show {
                    println!("   {j:4} there {:?}\n        here  {:?}", o.recorded.get(j), o.here.get(j));
                }
                let at = o.recorded.get(i).or(o.here.get(i)).map_or(0, |r| r.at_us);
                let k = o.heard_there.iter().position(|h| h.at_us + 1 >= at).unwrap_or(0);
                for j in k.saturating_sub(show)..k + 3 {
                    println!(
                        "   ack {j:4} there {:?}\n            here  {:?}",
                        o.heard_there.get(j),
                        o.heard_here.get(j)
                    );
                }
            }
        }
    }
    println!("{equal} of {all} equal");
}
