//! Priorities, traffic classes and transmit queues: mqprio, and the maps of prio and ets.

use txweir_core::Handle;
use txweir_tc::ast::At;
use txweir_tc::lex::Word;

use super::findings::Findings;
use super::model::{Device, Qdisc};
use crate::code;

/// The map that tc takes if none is given (tc-mqprio(8)).
const MQPRIO_MAP: [u64; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 1, 1, 3, 3, 3, 3];

/// The rules about the transmit queues and bands of a device.
pub(super) struct Queues<'a, 's> {
    pub(super) out: &'a mut Findings<'s>,
    pub(super) device: &'a Device,
}

impl Queues<'_, '_> {
    pub(super) fn check(&mut self) {
        for qdisc in self.device.qdiscs() {
            match qdisc.kind.as_str() {
                "mqprio" => {
                    self.hw(qdisc);
                    self.traffic_classes(qdisc);
                    self.children(qdisc);
                }
                "taprio" => {
                    self.traffic_classes(qdisc);
                    self.children(qdisc);
                }
                "mq" => self.children(qdisc),
                "prio" | "ets" => self.bands(qdisc),
                _ => {}
            }
        }
    }

    fn hw(&mut self, qdisc: &Qdisc) {
        if qdisc.settings.has("hw") {
            return;
        }
        let message =
            "mqprio without hw means hw 1: the device does it, and refuses if it cannot".to_string();
        let d = self.out.error(code::HW_DEFAULT, &qdisc.kind_span, message).note();
        let hint = match qdisc.settings.has("queues") {
            true => "add hw 0 at the end to let Linux do it",
            false => "add queues, and hw 0 at the end, to let Linux do it",
        };
        self.out.say(d.hint(Some(hint.into())));
    }

    fn traffic_classes(&mut self, qdisc: &Qdisc) {
        let settings = &qdisc.settings;
        let num_tc = settings.number("num_tc").unwrap_or(At { value: 8, span: qdisc.kind_span.clone() });
        let kind = &qdisc.kind;
        if num_tc.value > 16 {
            let message =
                format!("{kind} num_tc: {} traffic classes are more than there can be", num_tc.value);
            let d = self.out.error(code::MQPRIO, &num_tc.span, message).expected("at most 16");
            return self.out.say(d);
        }
        let map = settings.list("map");
        for word in map {
            if word.text.parse::<u64>().is_ok_and(|tc| tc >= num_tc.value) {
                let message =
                    format!("{kind} map names traffic class {}, and there are {}", word.text, num_tc.value);
                let expected = format!("0 to {}", num_tc.value.saturating_sub(1));
                let d = self.out.error(code::MQPRIO, &word.span, message).expected(expected);
                self.out.say(d);
            }
        }
        if let (Some(last), 1..16) = (map.last(), map.len()) {
            let message = format!(
                "{kind} map names {} of 16 priorities: {} to 15 are traffic class 0",
                map.len(),
                map.len()
            );
            let d = self.out.error(code::MQPRIO, &last.span, message).note();
            self.out.say(d);
        }
        self.ranges(qdisc, &num_tc);
        self.map_order(qdisc, map);
    }

    /// Checks the ranges of queues: one for each traffic class, and no queue in two.
    fn ranges(&mut self, qdisc: &Qdisc, num_tc: &At<u64>) {
        let kind = &qdisc.kind;
        let ranges = qdisc.settings.queues("queues");
        if ranges.is_empty() {
            return self.without_ranges(qdisc, num_tc);
        }
        if ranges.len() as u64 != num_tc.value {
            let message =
                format!("{kind} has {} traffic classes, and queues for {}", num_tc.value, ranges.len());
            let given = ranges.len().to_string();
            let d = self.out.error(code::MQPRIO, &num_tc.span, message).expected(given.clone());
            self.out.say(d.suggest(Some(given).filter(|_| qdisc.settings.has("num_tc"))));
        }
        let mut end = 0;
        for (i, At { value: (count, first), span }) in ranges.iter().enumerate() {
            let overlaps = ranges[..i].iter().any(|other| {
                let (n, f) = other.value;
                *first < f.saturating_add(n) && f < first.saturating_add(*count)
            });
            // taprio lets classes share a queue.
            let message = match (count, overlaps && kind == "mqprio") {
                (0, _) => format!("{kind} queues: traffic class {i} has none"),
                (_, true) => format!("{kind} queues: traffic class {i} takes queue {first} from another"),
                _ => {
                    end = end.max(first.saturating_add(*count));
                    continue;
                }
            };
            let right = format!("{}@{end}", (*count).max(1));
            let d = self.out.error(code::MQPRIO, span, message).suggest(Some(right));
            self.out.say(d);
            end = end.saturating_add((*count).max(1));
        }
    }

    /// Checks an mqprio without ranges of queues. A device that schedules (`hw 1`) may choose them;
    /// tc sends none to the kernel, which refuses a class without a queue.
    fn without_ranges(&mut self, qdisc: &Qdisc, num_tc: &At<u64>) {
        let Some(hw) = qdisc.settings.number("hw").filter(|hw| hw.value == 0) else { return };
        if qdisc.kind != "mqprio" {
            return;
        }
        let message =
            format!("mqprio hw 0 has {} traffic classes, and queues for none of them", num_tc.value);
        let d = self.out.error(code::MQPRIO, &hw.span, message);
        self.out.say(d.hint(Some("add queues, COUNT@OFFSET for each class".into())));
    }

    /// Notes the transmit queue of each qdisc below, because the numbers of classes and of queues
    /// differ.
    fn children(&mut self, root: &Qdisc) {
        let ranges = root.settings.queues("queues");
        for qdisc in self
            .device
            .qdiscs()
            .into_iter()
            .filter(|q| q.parent.major() == root.handle.major() && q.parent.minor() > 0)
        {
            if qdisc.parent == Handle::ROOT {
                continue;
            }
            let queue = u64::from(qdisc.parent.minor()) - 1;
            let of = class_text(&ranges, queue);
            let message = format!("class {} is transmit queue {queue}{of}", qdisc.parent);
            let d = self.out.error(code::QUEUE_NUMBER, &qdisc.place_span, message).note();
            self.out.say(
                d.hint(Some(format!("queue_mapping {queue} is this one: it counts from 0, classes from 1"))),
            );
        }
        let queues = ranges.iter().map(|r| r.value.0.saturating_add(r.value.1)).max();
        let Some(queues) = queues.filter(|n| *n > 0) else { return };
        for filter in self.device.filters.iter() {
            for action in filter.settings.actions().iter().filter(|a| a.kind.text == "skbedit") {
                let at = action.words.iter().position(|w| w.text == "queue_mapping");
                let Some(word) = at.and_then(|at| action.words.get(at + 1)) else { continue };
                let said = word.text.parse::<u64>().ok();
                if let Some(queue) =
                    said.and_then(|q| u16::try_from(q).ok()).filter(|q| u64::from(*q) < queues)
                {
                    let class = Handle::new(root.handle.major(), queue.saturating_add(1));
                    let of = class_text(&ranges, queue.into());
                    let message = format!("queue_mapping {queue} is class {class} of {}{of}", root.name());
                    let d = self.out.error(code::QUEUE_NUMBER, &word.span, message).note();
                    self.out.say(d);
                }
                if said.is_some_and(|q| q >= queues) {
                    let (name, last) = (root.name(), queues - 1);
                    let message = format!("queue_mapping {}: {name} has the queues 0 to {last}", word.text);
                    let d = self.out.error(code::MQPRIO, &word.span, message).warning();
                    let one_less =
                        word.text.parse::<u64>().ok().filter(|q| *q == queues).map(|q| (q - 1).to_string());
                    self.out.say(d.expected(format!("0 to {}", queues - 1)).suggest(one_less));
                }
            }
        }
    }

    /// Checks that a higher traffic class is the more urgent one (IEEE 802.1Q, 34.3 and table 8-5).
    fn map_order(&mut self, qdisc: &Qdisc, map: &[Word]) {
        let given: Vec<u64> = map.iter().filter_map(|w| w.text.parse().ok()).collect();
        let (Some(first), Some(last)) = (map.first(), map.last()) else {
            if !qdisc.settings.has("num_tc") && qdisc.kind == "mqprio" && MQPRIO_MAP[1] > MQPRIO_MAP[0] {
                let message =
                    "mqprio without a map puts priority 1, background, above priority 0, best effort"
                        .to_string();
                let d = self.out.error(code::PRIORITY_INVERSION, &qdisc.kind_span, message).note();
                self.out.say(d.hint(Some("map 1 0 2 3 4 5 6 7 is the order of IEEE 802.1Q".into())));
            }
            return;
        };
        let span = first.span.start..last.span.end;
        if let [best_effort, background, ..] = given.as_slice()
            && background > best_effort
        {
            let message = format!("{}: priority 1 is background, and is mapped above priority 0", qdisc.kind);
            let d = self.out.error(code::PRIORITY_INVERSION, &map[1].span, message).warning();
            let hint = "IEEE 802.1Q puts 1 below 0: exchange the first two";
            self.out.say(d.hint(Some(hint.into())));
        }
        if falls(&given) {
            let message =
                format!("{}: the more urgent the priority, the lower its traffic class", qdisc.kind);
            let d = self.out.error(code::PRIORITY_INVERSION, &span, message).warning();
            self.out.say(d.hint(Some("devices serve the highest traffic class first".into())));
        }
    }

    /// Checks that more urgent priorities have lower bands, which are served first.
    fn bands(&mut self, qdisc: &Qdisc) {
        let map = qdisc.settings.list("priomap");
        let given: Vec<u64> = map.iter().filter_map(|w| w.text.parse().ok()).collect();
        let (Some(first), Some(last)) = (map.first(), map.last()) else { return };
        let kind = &qdisc.kind;
        if let [best_effort, background, ..] = given.as_slice()
            && background < best_effort
        {
            let message = format!("{kind}: priority 1 is background, and is served before priority 0");
            let d = self.out.error(code::PRIORITY_INVERSION, &map[1].span, message).warning();
            let hint = "IEEE 802.1Q puts 1 below 0: give it a band that is not below that of 0";
            self.out.say(d.hint(Some(hint.into())));
        }
        if rises(&given) {
            let message = format!("{kind}: the more urgent the priority, the later it is served");
            let d = self
                .out
                .error(code::PRIORITY_INVERSION, &(first.span.start..last.span.end), message)
                .warning();
            self.out.say(d.hint(Some("band 0 is served first: give it to priorities 6 and 7".into())));
        }
    }
}

/// Returns a text that names the traffic class of a queue.
fn class_text(ranges: &[At<(u64, u64)>], queue: u64) -> String {
    let tc = ranges.iter().position(|r| {
        let (count, first) = r.value;
        (first..first.saturating_add(count)).contains(&queue)
    });
    tc.map_or(String::new(), |tc| format!(", one of traffic class {tc}"))
}

/// True if the first eight never rise and do fall.
fn falls(map: &[u64]) -> bool {
    let some = &map[..map.len().min(8)];
    some.windows(2).all(|w| w[0] >= w[1]) && some.first() > some.last()
}

/// True if the first eight never fall and do rise.
fn rises(map: &[u64]) -> bool {
    let some = &map[..map.len().min(8)];
    some.windows(2).all(|w| w[0] <= w[1]) && some.first() < some.last()
}
