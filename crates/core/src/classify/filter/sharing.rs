//! Blocks that several places share by a number (`ingress_block N`, `egress_block N`), and
//! restrictions on the filters of a block.

use alloc::format;

use super::Rule;
use super::chain::{Block, BlockId, Filters};
use crate::classify::packet::PortId;
use crate::packet::headers::ethertype;
use crate::text::error::{ConfigError, ErrorKind, Object, Reason};

/// Properties of a shared block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SharedBlock {
    number: u32,
    /// Number of places that share it.
    places: u32,
}

impl Filters {
    /// Gives a place of a port the block with a number, which is made for the first place. Each
    /// call must be paired with one of [`delete_block`](Self::delete_block) for that port.
    pub fn share(&mut self, number: u32, port: PortId) -> BlockId {
        self.actions.block_ports_mut().join(number, port);
        let block = match self.numbers.get(&number) {
            Some(block) => *block,
            None => {
                let block = self.add_block();
                self.numbers.insert(number, block);
                block
            }
        };
        if let Ok(found) = self.block_mut(block) {
            let places = found.shared.map_or(0, |shared| shared.places);
            found.shared = Some(SharedBlock { number, places: places.saturating_add(1) });
        }
        block
    }

    /// Returns the block with a number, if any place has it.
    pub fn shared(&self, number: u32) -> Option<BlockId> {
        self.numbers.get(&number).copied()
    }

    /// Returns the number of each shared block, the lowest first.
    pub fn shared_blocks(&self) -> impl Iterator<Item = (u32, BlockId)> + '_ {
        self.numbers.iter().map(|(number, block)| (*number, *block))
    }

    /// Removes one place of a port from those that share the block. True if it was the last.
    pub(super) fn unshare(&mut self, block: BlockId, port: PortId) -> bool {
        if let Some(number) = self.block(block).and_then(Block::number) {
            self.actions.block_ports_mut().leave(number, port);
        }
        let Ok(found) = self.block_mut(block) else { return false };
        match &mut found.shared {
            None => true,
            Some(shared) if shared.places > 1 => {
                shared.places -= 1;
                false
            }
            Some(SharedBlock { number, .. }) => {
                let number = *number;
                found.shared = None;
                self.numbers.remove(&number);
                true
            }
        }
    }
}

impl Block {
    /// Returns the number of the block, if places share it.
    pub const fn number(&self) -> Option<u32> {
        match self.shared {
            Some(shared) => Some(shared.number),
            None => None,
        }
    }

    /// Refuses filters that refer to the qdisc of their place, which a shared block does not have:
    /// flow, which computes its classes, and fw without a mark, whose marks name them.
    pub(super) fn takes(&self, rule: &Rule, handle: Option<u32>) -> Result<(), ConfigError> {
        let Some(number) = self.number() else { return Ok(()) };
        match rule {
            Rule::Flow(_) => {
                let expected = "a qdisc whose classes are computed";
                let err = ConfigError::new(
                    ErrorKind::Conflict,
                    Object::Filter(Some("flow")),
                    expected,
                    format!("block {number}"),
                );
                Err(err.key("kind"))
            }
            Rule::Fw(_) if handle.is_none() => {
                let err = ConfigError::new(ErrorKind::Missing, Object::Filter(Some("fw")), "a mark", "");
                Err(err.key("handle").reason(Reason::SharedBlock))
            }
            _ => Ok(()),
        }
    }

    /// Refuses a filter outside the template of the chain.
    pub(super) fn fits(&self, chain: u32, protocol: u16, rule: &Rule) -> Result<(), ConfigError> {
        let Some(template) = self.chain(chain).and_then(|chain| chain.template.as_deref()) else {
            return Ok(());
        };
        // A filter for such a protocol reads the tag.
        let is_tag = |protocol| matches!(protocol, ethertype::VLAN | ethertype::SERVICE_VLAN);
        let (expected, given) = match (&template.rule, rule) {
            (Rule::Flower(_), Rule::Flower(_)) if is_tag(protocol) && !is_tag(template.protocol) => {
                ("a protocol that is no tag, as the template of the chain has", "a tag")
            }
            (Rule::Flower(template), Rule::Flower(rule)) if rule.within(template) => return Ok(()),
            (Rule::Flower(_), Rule::Flower(_)) => {
                ("fields and bits that the template of the chain has", "others")
            }
            (template, rule) => {
                let expected = format!("{}, for which chain {chain} was made", template.kind());
                return Err(
                    ConfigError::new(ErrorKind::Conflict, Object::Chain, expected, rule.kind()).key("kind")
                );
            }
        };
        Err(ConfigError::new(ErrorKind::Conflict, Object::Filter(Some("flower")), expected, given))
    }
}
