//! Packets that actions send to other devices of their host: ifbs, and other links.

use txweir_core::Rate;
use txweir_lab::net::Totals;
use txweir_lab::nic::NicCounts;
use txweir_lab::scenario::{Built, Scenario};
use txweir_lab::trial::{self, Entry, Setup, Traffic, Trial};
use txweir_lab::{Instant, Nanos};
use txweir_tc::Policy;

/// Returns a scenario in which `a` sends UDP at 4 Mbit/s and one stream to `c` through the router
/// `b`. The links' policies are for the directions a to b, b to a and b to c; `more` are further
/// tables.
fn scenario(from_a: &str, to_a: &str, to_c: &str, more: &str) -> String {
    let link = |from: &str, to: &str, policy: &str| {
        format!(
            "[[link]]\nfrom = \"{from}\"\nto = \"{to}\"\none_way = true\nrate = \"20mbit\"\ndelay = \"1ms\"\n\
             policy = '''{policy}'''\n"
        )
    };
    let links =
        [link("a", "b", from_a), link("b", "a", to_a), link("b", "c", to_c), link("c", "b", "")].concat();
    format!(
        "title = \"t\"\nduration = \"2s\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n[[host]]\nname = \"c\"\n\
         {links}{more}\n\
         [[traffic]]\nname = \"call\"\nfrom = \"a\"\nto = \"c\"\nkind = \"cbr\"\nsize = \"1000\"\nrate = \"4mbit\"\n\
         dscp = \"ef\"\nmark = 7\n\
         [[traffic]]\nname = \"upload\"\nfrom = \"a\"\nto = \"c\"\nkind = \"stream\"\n"
    )
}

const IFB: &str = "[[ifb]]\nhost = \"b\"\nname = \"ifb0\"\n";
/// NICs in the order of the links, and the ifb.
const A_TO_B: u32 = 0;
const B_TO_A: u32 = 1;
const B_TO_C: u32 = 2;
const IFB0: u32 = 4;

/// Runs the scenario; checks every 10 ms that each packet is in one place.
#[track_caller]
fn played(text: &str) -> Built {
    let scenario = Scenario::parse(text, "t").unwrap_or_else(|e| panic!("{e}"));
    let mut built = scenario.build(1).unwrap();
    for step in 1..=200 {
        built.net.run(Instant(step * scenario.duration().0 / 200));
        let t = built.net.links().totals();
        let Totals {
            submitted,
            delivered,
            ended,
            dropped,
            stolen,
            refused,
            lost,
            backlog,
            in_devices,
            in_links,
        } = t;
        let found = [delivered, ended, dropped, stolen, refused, lost, backlog, in_devices, in_links];
        assert_eq!(found.iter().map(|t| t.bytes).sum::<u64>(), submitted.bytes, "at {step}: {t:?}");
    }
    built
}

fn counts(built: &Built, nic: u32) -> NicCounts {
    built.net.links().nic(nic).counts()
}

/// Returns the packets that the action of this kind, of index 1, has seen, and those that it could
/// not send.
fn seen(built: &Built, nic: u32, kind: &str) -> (u64, u64) {
    let (filters, state) = built.net.links().filters(nic).expect("filters");
    let id = filters.actions.find(kind, 1).expect("an action");
    let memory = state.counted(&filters.actions, id);
    (memory.packets, memory.overlimits)
}

fn received(built: &Built) -> u64 {
    built.net.traffic().counted(0).cbr().received
}

fn sent(built: &Built) -> u64 {
    built.net.traffic().counted(0).cbr().sent
}

/// Traffic from `a` passes the ifb's qdisc, and then the router as if it had not.
#[test]
fn arrivals_are_shaped_in_an_ifb() {
    let hook =
        "qdisc add ingress\nfilter add ingress matchall action mirred egress redirect dev ifb0 index 1";
    let shaped = format!("{IFB}policy = 'qdisc add root handle 1: tbf rate 6mbit burst 5k latency 50ms'\n");
    let built = played(&scenario("", hook, "", &shaped));
    let (ifb, out) = (counts(&built, IFB0), counts(&built, B_TO_C));
    assert_eq!(seen(&built, B_TO_A, "mirred"), (ifb.taken.packets, 0));
    // All that leaves the ifb leaves the router; 6 Mbit/s for 2 s and the burst are 1.5 MB.
    assert_eq!(ifb.tx.bytes, out.taken.bytes);
    assert!((1_300_000..1_510_000).contains(&ifb.tx.bytes), "{}", ifb.tx.bytes);
    assert!(
        ifb.dropped.packets > 10 && received(&built) > 500,
        "{} {}",
        ifb.dropped.packets,
        received(&built)
    );
    assert_eq!(built.net.links().totals().stolen.packets, 0);
}

/// The egress hook sends to an ifb; packets come back behind it, and the hook sees each once.
#[test]
fn departures_come_back_from_an_ifb() {
    let hook = "qdisc add clsact\nfilter add egress protocol ip flower ip_proto udp action mirred egress redirect dev \
                ifb0 index 1";
    let plain = played(&scenario("", "", "", IFB));
    let built = played(&scenario("", "", hook, IFB));
    assert_eq!(seen(&built, B_TO_C, "mirred"), (counts(&built, IFB0).taken.packets, 0));
    assert_eq!((received(&built), counts(&plain, IFB0).taken.packets), (received(&plain), 0));
    assert!(received(&built) > 990, "{}", received(&built));
}

/// A copy passes the ifb's qdisc and ends there, or ends at the host that it reaches by a link.
#[test]
fn copies_end_at_the_first_device() {
    let mirror = |dev: &str| {
        format!(
            "qdisc add clsact\nfilter add egress protocol ip flower ip_proto udp action mirred egress mirror dev {dev} \
             index 1"
        )
    };
    for (dev, nic) in [("ifb0", IFB0), ("a", B_TO_A)] {
        let built = played(&scenario("", "", &mirror(dev), IFB));
        let copies = built.net.links().totals().ended.packets;
        let (passed, refused) = seen(&built, B_TO_C, "mirred");
        assert!(
            passed > 990 && refused == 0 && copies.abs_diff(passed) < 3,
            "{dev}: {copies} {passed} {refused}"
        );
        assert!(counts(&built, nic).taken.packets >= passed, "{dev}");
        assert!(received(&built) <= sent(&built) && received(&built) > 990, "{dev}");
    }
}

/// A copy that an emulated link makes is a packet of its own, which arrives or is dropped.
#[test]
fn copies_of_an_emulated_link_have_a_place() {
    let netem = "qdisc add root netem limit 40 delay 1ms duplicate 50%";
    let hook =
        "qdisc add ingress\nfilter add ingress matchall action mirred egress redirect dev ifb0 index 1";
    let built = played(&scenario(netem, hook, netem, &format!("{IFB}policy = '{netem}'\n")));
    assert!(2 * received(&built) > 3 * sent(&built), "{} {}", received(&built), sent(&built));
}

/// A packet at a host from which no links lead on ends there.
#[test]
fn a_packet_without_a_way_on_ends() {
    let hook = "qdisc add clsact\nfilter add egress protocol ip flower ip_proto udp action mirred egress redirect dev d \
                index 1";
    let aside =
        "[[host]]\nname = \"d\"\n[[link]]\nfrom = \"b\"\nto = \"d\"\none_way = true\nrate = \"20mbit\"\n";
    let built = played(&scenario("", "", hook, aside));
    let ended = built.net.links().totals().ended.packets;
    assert!(ended > 900 && received(&built) == 0, "{ended}");
}

/// A redirection to another link takes the packet there, and from the host beyond it on its way.
#[test]
fn a_redirected_packet_leaves_by_another_link() {
    let hook = "qdisc add clsact\nfilter add egress protocol ip flower ip_proto udp action mirred egress redirect dev a \
                index 1";
    let built = played(&scenario("", "", hook, ""));
    // It goes round: `a` sends it to `b` again, whose hook takes it again.
    let (packets, _) = seen(&built, B_TO_C, "mirred");
    assert!(packets > 1000 && received(&built) == 0, "{packets}");
    assert_eq!(counts(&built, B_TO_C).taken.packets, packets + counts(&built, B_TO_C).tx.packets);
}

/// Without a queue between them, two hooks that send to each other stop at the fourth redirection.
#[test]
fn loops_are_bounded() {
    let to = |dev: &str| {
        format!("qdisc add clsact\nfilter add egress matchall action mirred egress redirect dev {dev}")
    };
    let there = to("ifb0") + " index 1";
    let built = played(&scenario("", "", &there, &format!("{IFB}policy = '''{}'''\n", to("c"))));
    assert_eq!(received(&built), 0);
    let (packets, refused) = seen(&built, B_TO_C, "mirred");
    // b to c, ifb0, b to c again, and ifb0, which may not.
    assert_eq!((packets % 2, refused), (0, 0), "{packets}");
    assert_eq!(counts(&built, IFB0).drops.iter().sum::<u64>(), packets / 2);
    // To itself: at once.
    let itself = played(&scenario("", "", &(to("c") + " index 1"), ""));
    let (packets, refused) = seen(&itself, B_TO_C, "mirred");
    assert_eq!((packets, refused), (2 * refused, packets / 2));
}

/// `mirred ingress`: the packet comes in again by the other device, with its hook.
#[test]
fn a_packet_can_come_in_by_another_device() {
    let there = "qdisc add ingress\nfilter add ingress matchall action mirred ingress redirect dev c index 1";
    let other =
        "qdisc add ingress\nfilter add ingress protocol ip flower ip_proto udp action gact pass index 1";
    let built = played(&scenario("", there, other, ""));
    let (udp, _) = seen(&built, B_TO_C, "gact");
    assert!(udp > 990 && received(&built) > 990, "{udp}");
    // To itself a packet comes in once more; the second time the action refuses and drops it.
    let itself = there.replace("dev c", "dev a");
    let looped = played(&scenario("", &itself, "", ""));
    let (packets, refused) = seen(&looped, B_TO_A, "mirred");
    assert_eq!((received(&looped), packets), (0, 2 * refused));
}

/// DSCP is in the packet, and a mark is the sending host's alone.
#[test]
fn markings_are_seen_where_they_are() {
    let count = |place: &str, test: &str, index: u32| {
        format!("filter add {place} prio {index} {test} action gact pass index {index}\n")
    };
    let ef = "protocol ip u32 match ip tos 0xb8 0xfc";
    let own = "qdisc add clsact\n".to_string() + &count("egress", "protocol ip handle 7 fw", 1);
    let next = "qdisc add clsact\n".to_string()
        + &count("ingress", ef, 1)
        + &count("egress", "protocol ip handle 7 fw", 2);
    let built = played(&scenario(&own, &next, &own, ""));
    assert_eq!(seen(&built, A_TO_B, "gact").0, sent(&built));
    assert!(seen(&built, B_TO_A, "gact").0 > 990);
    assert!(counts(&built, B_TO_C).taken.packets > 990);
    let (filters, state) = built.net.links().filters(B_TO_C).expect("filters");
    let id = filters.actions.find("gact", 1).expect("an action");
    // The router's two policies share the action of index 1: the DSCP alone has met it.
    assert_eq!(state.counted(&filters.actions, id).packets, seen(&built, B_TO_A, "gact").0);
}

fn lines() -> Setup {
    let rate = |mbit: u64| Rate::from_bits(mbit * 1_000_000);
    Setup { link: rate(10), down: Some(rate(50)), time: Nanos::from_secs(4), ..Setup::default() }
}

fn tried(setup: &Setup, mix: &str, policies: &[(&str, &str)]) -> Trial {
    let entry = |(name, text): &(&str, &str)| {
        let policy = (!text.is_empty()).then(|| Policy::parse(text, name).unwrap_or_else(|e| panic!("{e}")));
        Entry { name: (*name).into(), policy }
    };
    let entries: Vec<Entry> = policies.iter().map(entry).collect();
    let traffic = Traffic::mix_both(mix).expect("a mix");
    trial::run(setup, &traffic, &entries, &mut |_, _| {}).unwrap_or_else(|e| panic!("{e}"))
}

/// As sqm does it: the upload in eth0's root, the download in ifb0's.
const SQM: &str = "qdisc add dev eth0 root cake bandwidth 9mbit\nqdisc add dev eth0 handle ffff: ingress\n\
                   filter add dev eth0 parent ffff: protocol all matchall action mirred egress redirect dev ifb0\n\
                   qdisc add dev ifb0 root cake bandwidth 45mbit besteffort\n";

#[test]
fn both_directions_are_tried() {
    let t = tried(&lines(), "bulk+rr", &[("default", ""), ("sqm", SQM)]);
    let [default, sqm] = &t.policies[..] else { panic!("two policies") };
    let p99 = |p: &trial::PolicyTrial| {
        p.groups.iter().find(|g| g.name == "rr").and_then(|g| g.latency).unwrap().p99_ns
    };
    assert!(p99(default) > 200_000_000 && p99(sqm) < 60_000_000, "{} {}", p99(default), p99(sqm));
    let rate = |p: &trial::PolicyTrial, name: &str| {
        p.groups.iter().find(|g| g.name == name).map_or(0, |g| g.throughput_bit_s)
    };
    // Full lines carry 97 % payload at most; cake keeps below its rates.
    assert!((40_000_000..45_000_000).contains(&rate(sqm, "down")), "{}", rate(sqm, "down"));
    assert!((7_000_000..9_000_000).contains(&rate(sqm, "up")), "{}", rate(sqm, "up"));
    // Acknowledgements of the downloads wait in the queue of the uploads.
    assert!(rate(default, "down") < 20_000_000, "{}", rate(default, "down"));
    let [ifb] = &sqm.ifbs[..] else { panic!("one ifb") };
    assert_eq!((ifb.device.as_str(), ifb.classes[0].kind), ("ifb0", "cake"));
    assert!(ifb.drops.values().sum::<u64>() > 10 && default.ifbs.is_empty());
    let after = sqm.down.as_ref().unwrap();
    assert!(after.provider_bytes.mean < 50_000 && after.provider_dropped_packets == 0, "{after:?}");
    // Both have a measure for each direction, and the stars hold for either.
    let marked = |name: &str| sqm.measures.iter().find(|m| m.measure == name).expect("a measure").median;
    assert!(marked("down_utilisation").unwrap() > 0.8 && marked("ifb_bytes_mean").unwrap() > 1000.0);
    let text = t.to_string();
    assert!(text.starts_with("bulk+rr over 50Mbit down and 10Mbit up, RTT 20ms\n"), "{text}");
    assert!(text.contains("\n  ifb0\n") && text.contains("down: link used"), "{text}");
    assert!(text.lines().all(|l| l.chars().count() <= 100), "{text}");
}

/// The four classes of flent's rrul meet the tins of cake in both directions.
#[test]
fn rrul_has_four_markings_each_way() {
    let tins = "qdisc add dev eth0 root cake bandwidth 9mbit diffserv4\nqdisc add dev eth0 clsact\n\
                filter add dev eth0 ingress matchall action mirred egress redirect dev ifb0\n\
                qdisc add dev ifb0 root cake bandwidth 45mbit diffserv4\n";
    let flat = tins.replace("diffserv4", "besteffort");
    let t = tried(&Setup { runs: 1, ..lines() }, "rrul", &[("tins", tins), ("flat", &flat)]);
    let names: Vec<&str> = t.policies[0].groups.iter().map(|g| g.name.as_str()).collect();
    assert_eq!(
        names.join(","),
        "up be,up bk,up cs5,up ef,down be,down bk,down cs5,down ef,udp be,udp bk,udp ef"
    );
    let rate = |p: usize, name: &str| {
        let found = t.policies[p].groups.iter().find(|g| g.name == name);
        found.map_or(0, |g| g.throughput_bit_s)
    };
    // Bulk has a sixteenth at least, and no more beside full tins.
    for way in ["up", "down"] {
        let [be, bk] = ["be", "bk"].map(|class| rate(0, &format!("{way} {class}")));
        assert!(4 * bk < be, "{way}: {be} {bk}");
        let [be, bk] = ["be", "bk"].map(|class| rate(1, &format!("{way} {class}")));
        assert!(2 * bk > be, "{way}: {be} {bk}");
    }
}

/// The drops of `police` at the ingress hook are counted on the way down.
#[test]
fn a_policer_at_the_hook_turns_packets_away() {
    let policy = "qdisc add dev eth0 ingress\nfilter add dev eth0 ingress protocol ip u32 match u32 0 0 police rate \
                  20mbit burst 50k drop\n";
    let t = tried(&Setup { runs: 1, ..lines() }, "bulk+rr", &[("police", policy)]);
    let down = t.policies[0].down.as_ref().expect("a way down");
    assert!(down.turned_away_packets > 10, "{down:?}");
    let rate = t.policies[0].groups[1].throughput_bit_s;
    assert!((2_000_000..20_000_000).contains(&rate), "{rate}");
}

/// A policy for two devices, of which neither sends to the other, is for no one line.
#[test]
fn a_policy_has_one_line() {
    let policy = Policy::parse("qdisc add dev eth0 root fq\nqdisc add dev eth1 root fq", "p").expect("good");
    let message = trial::devices(&policy).expect_err("two").message;
    assert_eq!(message, "this is for eth1, and a line before is for eth0");
    let found = trial::devices(&Policy::parse(SQM, "p").expect("good")).expect("one line");
    assert_eq!((found.main.as_deref(), found.ifbs), (Some("eth0"), vec!["ifb0".to_string()]));
    let alone =
        trial::devices(&Policy::parse("qdisc add dev ifb0 root fq", "p").expect("good")).expect("one");
    assert_eq!((alone.main.as_deref(), alone.ifbs.len()), (Some("ifb0"), 0));
}
