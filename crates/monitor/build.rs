//! How the shared library is linked.

fn main() {
    // Reading threads may still be on their way out, or stuck in the driver, when a program closes the library.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rerun-if-changed=build.rs");
}
