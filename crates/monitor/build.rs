//! How the shared library is linked.

fn main() {
    // Reading threads may still be on their way out, or stuck in the driver, when a program closes the library.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // A program that is linked with a library without a name, by its path, looks for it at that path for ever.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libttmon_monitor.so");
    println!("cargo::rerun-if-changed=build.rs");
}
