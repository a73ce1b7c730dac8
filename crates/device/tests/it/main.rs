//! The tests of the devices, in one binary: links against the kernel's own stack.

mod forward;
mod netns;
mod vhost;
mod vxlan;
mod xdp;
