//! mirred, sample and simple: the packets that they hand to the outlet.

use crate::common::action::{Bench, Kept};
use txweir_core::base::handle::ClassId;
use txweir_core::classify::action::{Control, Kind, Mirred, Sample, Simple, Target};
use txweir_core::classify::filter::Verdict;
use txweir_core::classify::packet::{Packet, PortId, Way};
use txweir_core::packet::headers::Headers;
use txweir_core::{Instant, Meta};

const HERE: PortId = PortId(1);
const THERE: PortId = PortId(2);

fn port(port: PortId) -> Target {
    Target::Port { port, name: String::new() }
}

fn mirred(to: PortId, way: Way, redirect: bool) -> Bench {
    let control = if redirect { Control::Stolen } else { Control::Pipe };
    Bench::new(Kind::Mirred(Mirred { to: port(to), way, redirect }), control)
}

/// Returns the verdict on a packet that leaves `HERE` with `depth` redirections behind it.
fn send(bench: &mut Bench, depth: u8) -> Verdict {
    let mut frame = vec![7; 60];
    let mut meta = Meta::new(60);
    let mut packet = Packet::new(&mut frame, &mut meta, Headers::EMPTY).at(HERE, Way::Egress);
    packet.depth = depth;
    bench.send(&mut packet, Instant::ZERO)
}

/// Returns an action for the ports of block 22.
fn blockcast(redirect: bool, control: Control) -> Bench {
    Bench::new(Kind::Mirred(Mirred { to: Target::Block(22), way: Way::Egress, redirect }), control)
}

const PASSED: Verdict = Verdict::Class(ClassId::NONE);

#[test]
fn a_copy_goes_and_the_packet_goes_on_or_is_gone() {
    for way in [Way::Egress, Way::Ingress] {
        for (redirect, verdict) in [(false, PASSED), (true, Verdict::Stolen)] {
            let mut bench = mirred(THERE, way, redirect);
            assert_eq!(send(&mut bench, 0), verdict);
            assert_eq!(bench.out.sent, [(THERE, way, vec![7; 60], 1)]);
            assert_eq!((bench.memory().drops, bench.memory().overlimits), (0, 0));
        }
    }
}

/// Oracle: a target that is down counts an overlimit of the action; the caller of the filter counts
/// the drop.
#[test]
fn a_target_that_is_down_loses_what_is_redirected_and_the_copy_of_what_is_mirrored() {
    for (redirect, verdict) in [(false, PASSED), (true, Verdict::Drop)] {
        let mut bench = mirred(THERE, Way::Egress, redirect);
        bench.out.down.push(THERE);
        assert_eq!(send(&mut bench, 0), verdict);
        assert_eq!((bench.memory().packets, bench.memory().drops, bench.memory().overlimits), (1, 0, 1));
        assert!(bench.out.sent.is_empty());
    }
    // The configured verdict follows, whether the copy was sent or not.
    let mut bench = Bench::new(
        Kind::Mirred(Mirred { to: port(THERE), way: Way::Egress, redirect: false }),
        Control::Drop,
    );
    bench.out.down.push(THERE);
    assert_eq!(send(&mut bench, 0), Verdict::Drop);
}

/// Oracle: in a chain of nine devices, each of which redirects to the next, the fourth action
/// refuses.
#[test]
fn the_fourth_redirection_of_a_packet_is_refused() {
    let mut bench = mirred(THERE, Way::Egress, true);
    let verdicts = [0, 1, 2, 3, 4, 255].map(|depth| send(&mut bench, depth));
    let (gone, dropped) = (Verdict::Stolen, Verdict::Drop);
    assert_eq!(verdicts, [gone, gone, gone, dropped, dropped, dropped]);
    assert_eq!(bench.memory().overlimits, 3);
    assert_eq!(bench.out.sent.iter().map(|s| s.3).collect::<Vec<_>>(), [1, 2, 3]);
}

/// Oracle: a packet mirrored to its own device leaves twice and no more; a redirected one is
/// dropped in the second round.
#[test]
fn a_port_sends_a_packet_to_itself_once() {
    for (redirect, first, again) in [(false, PASSED, PASSED), (true, Verdict::Stolen, Verdict::Drop)] {
        let mut bench = mirred(HERE, Way::Egress, redirect);
        assert_eq!((send(&mut bench, 0), send(&mut bench, 1)), (first, again));
        assert_eq!((bench.out.sent.len(), bench.memory().overlimits), (1, 1));
    }
    // Reception on the port that sends the packet is a different case.
    let mut bench = mirred(HERE, Way::Ingress, false);
    assert_eq!((send(&mut bench, 1), bench.out.sent.len()), (PASSED, 1));
}

#[test]
fn a_line_has_its_number() {
    let mut bench = Bench::new(Kind::Simple(Simple::new("hello".into()).unwrap()), Control::Pipe);
    assert_eq!((send(&mut bench, 0), send(&mut bench, 0)), (PASSED, PASSED));
    assert_eq!(bench.out.lines, ["hello_1", "hello_2"]);
    let err = Simple::new("abcdefghijklmnopqrstuvwxyz012345".into()).unwrap_err();
    let said = "simple sdata: expected at most 31 bytes, given \"abcdefghijklmnopqrstuvwxyz012345\"";
    assert_eq!(err.to_string(), said);
}

#[test]
fn one_of_so_many_is_sampled_and_cut() {
    let mut bench = Bench::new(Kind::Sample(Sample::new(1, 5, Some(20)).unwrap()), Control::Pipe);
    assert_eq!(send(&mut bench, 0), PASSED);
    assert_eq!(bench.out.samples, [(5, 1, vec![7; 20])]);
    let mut bench = Bench::new(Kind::Sample(Sample::new(8, 5, None).unwrap()), Control::Pipe);
    (0..4000).for_each(|_| assert_eq!(send(&mut bench, 0), PASSED));
    assert!((420..580).contains(&bench.out.samples.len()), "{}", bench.out.samples.len());
    assert!(bench.out.samples.iter().all(|s| s.2.len() == 60));
    let err = Sample::new(0, 1, None).unwrap_err();
    assert_eq!(err.to_string(), "sample rate: expected at least 1, given \"0\"");
}

/// Oracle: `spec/actions-7.2/mirred-block.txt`; here with the counts.
#[test]
fn every_other_port_of_a_block_gets_a_copy_and_the_last_the_packet() {
    for redirect in [false, true] {
        let control = if redirect { Control::Stolen } else { Control::Pipe };
        let decided = if redirect { Verdict::Stolen } else { PASSED };
        let mut bench = blockcast(redirect, control);
        // The block is not there: the control decides, and the action counts it.
        assert_eq!(send(&mut bench, 0), decided);
        assert_eq!((bench.memory().overlimits, bench.out.sent.len()), (1, 0));
        // The packet's own port is there alone.
        let block = bench.filters.share(22, HERE);
        assert_eq!(send(&mut bench, 0), decided);
        assert_eq!((bench.memory().overlimits, bench.out.sent.len()), (1, 0));
        // Others, in the order of their numbers; one of them has it in two places.
        for port in [PortId(5), THERE, PortId(5)] {
            assert_eq!(bench.filters.share(22, port), block);
        }
        assert_eq!(send(&mut bench, 0), decided);
        let ports = |bench: &Bench| bench.out.sent.iter().map(|sent| sent.0).collect::<Vec<_>>();
        assert_eq!(ports(&bench), [THERE, PortId(5)]);
        // The first of them is down: that is counted, and the rest goes.
        bench.out.sent.clear();
        bench.out.down.push(THERE);
        assert_eq!(send(&mut bench, 0), decided);
        assert_eq!((bench.memory().overlimits, ports(&bench)), (2, vec![PortId(5)]));
        // So is the last, which would have got the packet itself.
        bench.out.down.push(PortId(5));
        assert_eq!(send(&mut bench, 0), if redirect { Verdict::Drop } else { PASSED });
        assert_eq!(bench.memory().overlimits, 4);
        // A port leaves the block with the last of its places.
        bench.out = Kept::default();
        bench.filters.delete_block(block, PortId(5));
        bench.filters.delete_block(block, THERE);
        assert_eq!((send(&mut bench, 0), ports(&bench)), (decided, vec![PortId(5)]));
        bench.filters.delete_block(block, PortId(5));
        bench.filters.delete_block(block, HERE);
        assert_eq!((send(&mut bench, 0), bench.memory().overlimits), (decided, 5));
        // The fourth redirection is refused here, too.
        bench.filters.share(22, THERE);
        assert_eq!(send(&mut bench, 3), if redirect { Verdict::Drop } else { PASSED });
    }
}
