//! Traffic classes: the priorities, and the transmit queues, that belong together (IEEE 802.1Q).

use alloc::vec::Vec;

use crate::text::error::{ConfigError, ErrorKind, Object};

pub use crate::law::gates::CLASSES_MAX;

/// Adjacent queues: those of a traffic class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// Number of queues.
    pub count: u16,
    /// The first queue, 0-based.
    pub offset: u16,
}

/// Traffic classes: the class of each of the sixteen priorities, and the queues of each class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrafficClasses {
    map: [u8; 16],
    ranges: Vec<Range>,
}

impl TrafficClasses {
    /// Returns one class for each range, at most 16; all map entries must be below their number.
    pub fn new(map: [u8; 16], ranges: &[Range]) -> Result<Self, ConfigError> {
        if !(1..=CLASSES_MAX).contains(&ranges.len()) {
            let expected = "1 to 16 traffic classes";
            return Err(ConfigError::new(
                ErrorKind::OutOfRange,
                Object::TrafficClasses,
                expected,
                ranges.len(),
            )
            .key("num_tc"));
        }
        if let Some(bad) = map.iter().find(|tc| usize::from(**tc) >= ranges.len()) {
            let expected = alloc::format!("traffic classes below {}", ranges.len());
            return Err(
                ConfigError::new(ErrorKind::OutOfRange, Object::TrafficClasses, expected, bad).key("map")
            );
        }
        Ok(Self { map, ranges: ranges.to_vec() })
    }
    /// Returns the class of a priority: its low four bits count.
    #[inline]
    pub fn class(&self, priority: u32) -> usize {
        usize::from(self.map[(priority & 15) as usize])
    }
    /// Returns the first class that has a queue.
    pub fn class_of_queue(&self, queue: u16) -> Option<usize> {
        self.ranges.iter().position(|r| queue >= r.offset && queue - r.offset < r.count)
    }
    /// Returns the queues of each class.
    pub fn ranges(&self) -> &[Range] {
        &self.ranges
    }
    /// Returns the class of each priority.
    pub const fn map(&self) -> &[u8; 16] {
        &self.map
    }
}
