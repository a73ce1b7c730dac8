//! The names of hosts, and their numbers.

use std::collections::HashMap;

/// Hosts by name. A name is found in a time that does not grow with the number of hosts.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    list: Vec<String>,
    numbers: HashMap<String, u32>,
}

impl Names {
    /// Gives the next number to a name; returns false if the name has one already.
    pub(super) fn add(&mut self, name: &str) -> bool {
        if self.numbers.contains_key(name) {
            return false;
        }
        self.numbers.insert(name.to_owned(), self.list.len() as u32);
        self.list.push(name.to_owned());
        true
    }
    /// Returns the number of a name.
    pub(super) fn number(&self, name: &str) -> Option<u32> {
        self.numbers.get(name).copied()
    }
    /// Returns the name of a host.
    pub(super) fn name(&self, number: u32) -> &str {
        self.list.get(number as usize).map_or("", String::as_str)
    }
    /// Returns all names, by number.
    pub(super) fn list(&self) -> &[String] {
        &self.list
    }
    /// Returns all names, by number.
    pub(super) fn into_list(self) -> Vec<String> {
        self.list
    }
}
