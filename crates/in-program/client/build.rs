//! Sets how the shared library is linked.

fn main() {
    // An unloaded library would leave its ledger mapped. To the next loaded copy this would seem to be another writer's ledger, and that
    // copy would stay off.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // A program that is linked by path with a library without a soname searches it only at this path.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libttmon_client.so");
    println!("cargo::rerun-if-changed=build.rs");
}
