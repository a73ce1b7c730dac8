//! Names the shared library as programs look for it: its first number changes with the interface.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libtxweir.so.0");
    println!("cargo::rerun-if-changed=build.rs");
}
