//! A configuration given as a value is held to the same ranges as a configuration given in words.

use txweir_core::base::units::{Bytes, Rate};
use txweir_core::qdisc::{fq_codel, prio, tbf};
use txweir_core::sched::cx::Cx;
use txweir_core::sched::node::Node;
use txweir_core::text::params::Params;
use txweir_core::{Env, ErrorKind, Handle, Instant, Meta};

const H: Handle = Handle::new(1, 0);

#[test]
fn a_value_out_of_range_is_refused_and_named() {
    let env = Env::default();
    let fq =
        |flows| Node::of::<fq_codel::FqCodel>(H, fq_codel::Config { flows, ..Params::defaults(&env) }, &env);
    for flows in [0, 65_537] {
        let err = fq(flows).expect_err("no such number of flows");
        assert_eq!((err.kind, err.key.as_deref()), (ErrorKind::OutOfRange, Some("flows")));
        assert_eq!(err.to_string(), format!("fq_codel flows: expected 1 to 65536, given \"{flows}\""));
    }
    for bands in [0, 1, 17, 40, u32::MAX] {
        let cfg = prio::Config { bands, ..Params::defaults(&env) };
        let err = Node::of::<prio::Prio>(H, cfg, &env).expect_err("no such number of bands");
        assert_eq!(err.to_string(), format!("prio bands: expected 2 to 16, given \"{bands}\""));
    }
    let cfg = tbf::Config {
        rate: Rate(1000),
        burst: Bytes(u64::MAX),
        limit: Some(Bytes(1000)),
        ..Params::defaults(&env)
    };
    let err = Node::of::<tbf::Tbf>(H, cfg, &env).expect_err("no such burst");
    assert_eq!(err.key.as_deref(), Some("burst"));
}

/// A kind may adapt its defaults to an odd device: the default quantum of a tiny MTU is raised.
#[test]
fn defaults_of_any_device_are_taken() {
    for mtu in [0, 1, 68, 1500, 65_535, u32::MAX] {
        let env = Env { mtu, ..Env::default() };
        let made = Node::of::<fq_codel::FqCodel>(H, Params::defaults(&env), &env);
        let mut node = made.expect("defaults are good on any device");
        let mut cx = Cx::new(4, 0);
        let p = cx.pool.alloc(Meta::new(100).hash(u32::MAX), Instant::ZERO).expect("a slot");
        node.enqueue(p, &mut cx);
        assert_eq!(node.books().queued.packets, 1);
        node.purge(&mut cx);
    }
}
