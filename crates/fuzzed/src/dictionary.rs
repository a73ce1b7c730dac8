//! The words of the languages, for mutations.

use txweir_core::qdisc::KINDS;

/// Words that no registry has: objects, verbs, places, numbers.
const WORDS: &str = "tc qdisc class filter chain actions action add replace change del link show get flush dev a b \
    lan root parent handle classid flowid 1: 1:1 1:2 2: ffff: none ingress egress clsact block stab estimator overhead \
    mpu mtu tsize linklayer atm adsl ethernet protocol ip ipv6 arp all 802.1q prio pref u32 match flower basic bpf flow \
    fw matchall csum gact gate ife mirred mpls nat pedit police sample simple skbedit skbmod vlan pass drop pipe continue \
    reclassify goto jump ok mirror redirect push pop modify munge set index -s -j -d -r -b -force --dry-run --atomic \
    0 1 -1 65535 4294967295 18446744073709551615 1kbit 1mbit 100gbit 50% 1us 5ms 10s 1514b 10kb 0x10 0xffff";

/// Returns the words: of commands, and the kinds of the registry with their keys.
#[must_use]
pub fn words() -> Vec<&'static str> {
    let mut all: Vec<&'static str> = WORDS.split_whitespace().collect();
    for spec in KINDS {
        all.push(spec.kind);
        all.extend(spec.params.iter().map(|param| param.key));
    }
    all.sort_unstable();
    all.dedup();
    all
}
