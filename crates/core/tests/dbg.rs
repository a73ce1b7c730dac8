mod common;
use common::ops::Scope;
use common::run::Plan;
#[test]
fn d() {
    let spec = txweir_core::qdisc::kind("bfifo").unwrap();
    let mut plan = Plan::new(spec, 0x975835de1c97, Scope::Traffic, 400);
    plan.setup.bql = None;
    println!("{:?} {:?}", plan.setup, plan.words);
    for op in plan.ops[200..].iter().take(8) { println!("{op:?}"); }
}
