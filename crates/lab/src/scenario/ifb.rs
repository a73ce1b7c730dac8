//! The ifbs of hosts, and policies that wait until every device of the net exists.

use toml::Spanned;
use txweir_core::base::rng::Rng;
use txweir_core::path::txpath::PathConfig;
use txweir_core::{Env, Role};
use txweir_tc::Policy;

use super::names::Names;
use super::{Scenario, ScenarioError};
use crate::net::Net;
use crate::nic::{NicConfig, targets};

/// A policy that names devices which may not exist yet.
pub(super) struct Later<'a> {
    nic: u32,
    text: &'a Spanned<String>,
    policy: Policy,
}

/// An ifb that was made.
pub(super) struct Made<'a> {
    pub(super) host: u32,
    pub(super) name: &'a str,
    pub(super) later: Option<Later<'a>>,
}

impl Scenario {
    /// Applies the policy of a NIC, unless its actions name devices.
    pub(super) fn apply<'a>(
        &self,
        net: &mut Net,
        nic: u32,
        text: Option<&'a Spanned<String>>,
    ) -> Result<Option<Later<'a>>, ScenarioError> {
        let Some(text) = text else { return Ok(None) };
        let policy = self.policy(text)?;
        if !targets(&policy).is_empty() {
            return Ok(Some(Later { nic, text, policy }));
        }
        net.apply(nic, &policy).map_err(|d| self.policy_error(text, &d))?;
        Ok(None)
    }

    /// Applies the policies that had to wait.
    pub(super) fn apply_later(&self, net: &mut Net, all: Vec<Later<'_>>) -> Result<(), ScenarioError> {
        for Later { nic, text, policy } in all {
            net.apply(nic, &policy).map_err(|d| self.policy_error(text, &d))?;
        }
        Ok(())
    }

    /// Makes the ifbs.
    pub(super) fn ifbs<'a>(
        &'a self,
        net: &mut Net,
        hosts: &Names,
        seed: u64,
    ) -> Result<Vec<Made<'a>>, ScenarioError> {
        let mut all: Vec<Made<'_>> = Vec::new();
        for (table, nth) in self.file.ifb.iter().zip(0_u64..) {
            let t = table.get_ref();
            let (host, name) = (self.find(hosts, &t.host)?, t.name.get_ref().as_str());
            if all.iter().any(|made| made.host == host && made.name == name) || hosts.number(name).is_some() {
                let message = format!("ifb name: expected one not in use, given \"{name}\"");
                return Err(self.error(t.name.span(), message));
            }
            // Another stream than those of links.
            let seed = Rng::new(Rng::new(!seed).next_u64() ^ (u64::MAX - nth)).next_u64();
            let tx_queue_len = t.txqueuelen.unwrap_or(NicConfig::IFB_QUEUE);
            let env = Env { tx_queue_len, seed, ..Env::default() };
            let path = PathConfig { env, role: Role::Forwarder, ..PathConfig::default() };
            let nic =
                net.ifb(host, name, NicConfig::ifb(path, seed)).map_err(|e| self.error(table.span(), e))?;
            let later = self.apply(net, nic, t.policy.as_ref())?;
            all.push(Made { host, name, later });
        }
        Ok(all)
    }
}
