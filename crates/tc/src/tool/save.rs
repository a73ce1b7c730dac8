//! The batch that makes the qdiscs of all devices again.

use super::Devices;
use crate::show;

/// The lines that make the qdiscs of every device as they are now, without loss: give them to `-b`, with `--atomic` if
/// packets are to stay where they are. A default root and what is queued or counted is not in them.
pub fn save(devices: &mut dyn Devices) -> String {
    let mut out = String::new();
    for name in devices.names() {
        let Some(device) = devices.device(&name) else { continue };
        out.push_str(&show::commands(device.tree(), Some(&name)));
        if let Some(hook) = device.hook() {
            out.push_str(&format!("qdisc replace dev {name} {}\n", hook.name()));
        }
    }
    out
}
