//! The end of a connection: data for an end that has closed, and resets.

use txweir_core::Instant;
use txweir_transport::{Config, Connection, Flags, Segment, State};

use crate::common::established_pair;

/// After a timeout the peer sends its first segment again, which may carry no FIN. A closed end
/// acknowledges it (RFC 9293 section 3.10.7.4); otherwise the peer would never end.
#[test]
fn a_closed_end_acknowledges_data_that_comes_again() {
    let config = Config { small_queues: false, ..Config::default() };
    let ([mut a, mut b], now) = established_pair(&config);
    a.close();
    let fin = a.transmit(now).expect("a FIN");
    b.receive(now, &fin);
    let ack = b.transmit(now).expect("its acknowledgement");
    a.receive(now, &ack);
    b.write(now, 1_000);
    let data = b.transmit(now).expect("data");
    b.close();
    let last = b.transmit(now).expect("a FIN");
    assert_eq!((data.len, data.flags.has(Flags::FIN), last.flags.has(Flags::FIN)), (1_000, false, true));
    for seg in [&data, &last] {
        a.receive(now, seg);
    }
    assert_eq!(a.state(), State::Closed);
    // Its acknowledgement is lost.
    while a.transmit(now).is_some() {}
    a.receive(now, &data);
    assert_eq!(a.transmit(now).map(|s| s.ack), Some(last.end()));
    a.receive(now, &Segment { flags: Flags::RST, ..last });
    assert_eq!(a.state(), State::Closed, "there is nothing to reset");
}

/// Only a RST with the number that is expected next ends a connection. One elsewhere in the window
/// is answered, so that a peer that means it can send another (RFC 5961 section 3.2).
#[test]
fn a_reset_has_the_number_that_is_expected() {
    let established = State::Established;
    let table = [
        (0, established, false),
        (1, State::Failed, false),
        (2, established, true),
        (1 << 40, established, false),
    ];
    for (seq, state, answered) in table {
        let ([mut end, _], now) = established_pair(&Config::default());
        let flags = Flags::RST.with(Flags::ACK);
        end.receive(now, &Segment { seq, ack: 1, flags, ..Segment::default() });
        assert_eq!((end.state(), end.transmit(now).is_some()), (state, answered), "{seq}");
    }
}

/// A RST refuses a SYN if it acknowledges it (RFC 9293 section 3.10.7.3).
#[test]
fn a_reset_refuses_a_syn_that_it_acknowledges() {
    let mut end = Connection::connect(Config::default());
    assert!(end.transmit(Instant::ZERO).is_some());
    let flags = Flags::RST.with(Flags::ACK);
    for (ack, state) in [(0, State::SynSent), (2, State::SynSent), (1, State::Failed)] {
        end.receive(Instant::ZERO, &Segment { ack, flags, ..Segment::default() });
        assert_eq!(end.state(), state, "{ack}");
    }
}
