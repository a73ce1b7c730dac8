//! `QueueMap`: how a worker chooses the transmit queue of a frame, where mq and mqprio leave a
//! choice.

use std::fmt;
use std::str::FromStr;

/// Most workers: as many as the queues of an interface that XDP sockets take.
pub const WORKERS_MAX: usize = 64;

/// The choice of a frame's transmit queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum QueueMap {
    /// The queue of the number that the frame came in by, as Linux does for forwarded packets: a
    /// flow stays with the worker that receives it.
    #[default]
    Arrival,
    /// A hash of the flow: flows spread evenly over all queues, and most change the worker.
    Hash,
    /// For a receive queue the transmit queues of its list, by a hash of the flow where there are
    /// several (XPS by receive queue); for a queue without a list as `Arrival`.
    Lists(Vec<(u16, Vec<u16>)>),
}

/// The form of a map, for errors.
const FORM: &str = "arrival, hash, or receive queues with their transmit queues (0:0,1;1:2)";

impl QueueMap {
    /// Checks that a link with this number of transmit queues can have the map.
    ///
    /// # Errors
    /// The end of a line: the queue that is named and is not there.
    pub(crate) fn check(&self, queues: u16) -> Result<(), String> {
        let Self::Lists(lists) = self else { return Ok(()) };
        for (from, to) in lists {
            if let Some(wrong) = to.iter().find(|queue| **queue >= queues) {
                let last = queues.saturating_sub(1);
                return Err(format!(
                    "expected transmit queues 0 to {last} for receive queue {from}, given {wrong}"
                ));
            }
        }
        Ok(())
    }
}

impl FromStr for QueueMap {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("expected {FORM}, given \"{text}\"");
        let number = |text: &str| match text.parse::<u16>() {
            Ok(queue) if usize::from(queue) < WORKERS_MAX => Ok(queue),
            _ => Err(wrong()),
        };
        match text {
            "arrival" => return Ok(Self::Arrival),
            "hash" => return Ok(Self::Hash),
            _ => {}
        }
        let mut lists: Vec<(u16, Vec<u16>)> = Vec::new();
        for list in text.split(';') {
            let (from, to) = list.split_once(':').ok_or_else(wrong)?;
            let from = number(from)?;
            if lists.iter().any(|(other, _)| *other == from) {
                return Err(format!("receive queue {from} has two lists in \"{text}\""));
            }
            lists.push((from, to.split(',').map(number).collect::<Result<_, _>>()?));
        }
        Ok(Self::Lists(lists))
    }
}

impl fmt::Display for QueueMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Arrival => f.write_str("arrival"),
            Self::Hash => f.write_str("hash"),
            Self::Lists(lists) => {
                let text = |(from, to): &(u16, Vec<u16>)| {
                    let to: Vec<String> = to.iter().map(u16::to_string).collect();
                    format!("{from}:{}", to.join(","))
                };
                f.write_str(&lists.iter().map(text).collect::<Vec<_>>().join(";"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_is_read_as_it_is_written() {
        for text in ["arrival", "hash", "0:0,1;1:2", "3:63"] {
            assert_eq!(text.parse::<QueueMap>().unwrap().to_string(), text);
        }
        assert_eq!("0:0,1".parse(), Ok(QueueMap::Lists(vec![(0, vec![0, 1])])));
        for text in ["", "0", "0:", "0:a", "0:1;", "64:0", "0:64", "0:1,", "a:1", "0:-1", "Hash"] {
            let wrong = text.parse::<QueueMap>().unwrap_err();
            assert_eq!(wrong, format!("expected {FORM}, given \"{text}\""));
        }
        assert_eq!(
            "1:0;1:2".parse::<QueueMap>().unwrap_err(),
            "receive queue 1 has two lists in \"1:0;1:2\""
        );
    }
}
