//! Rates that qdiscs of several devices share by name: checked before a change, joined after it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use txweir_core::path::rates::SharedRates;
use txweir_core::{ConfigError, Tree};

use super::{Device, Devices};

/// The rates that qdiscs of some devices share by name, for all owners of such devices.
pub type Rates = Arc<Mutex<SharedRates>>;

/// Returns them; a thread that has panicked has left them whole.
pub(super) fn lock(rates: &Rates) -> MutexGuard<'_, SharedRates> {
    rates.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Checks that the devices of these names could have these trees in the place of their own.
///
/// # Errors
/// Names the first qdisc or class with another rate than others of its name.
pub(super) fn check(devices: &mut dyn Devices, trees: &[(&str, &Tree)]) -> Result<(), ConfigError> {
    let Some(rates) = devices.rates() else { return Ok(()) };
    let (rates, asking) = (lock(&rates), trees.iter().map(|(_, tree)| *tree).collect::<Vec<_>>());
    let mut asked = rates.ask(&asking)?;
    for (name, _) in trees {
        if let Some(device) = devices.device(name) {
            device.each_copy(&mut |trees| trees.trees().for_each(|tree| asked.without(tree)));
        }
    }
    asked.check(&asking)
}

/// Joins the qdiscs of a device to the rates that they name; its trees are checked.
pub(super) fn join(rates: &Rates, device: &mut dyn Device) {
    let agreed = lock(rates).rates_of(device.tree().trees());
    device.configure(&mut |qdiscs| qdiscs.join(&agreed));
}
