//! How the shared library is linked.

fn main() {
    // The mapping of a closed library would look like another writer's ledger to the next loaded copy, which would then stay
    // disabled.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // A program that is linked with a library without a name, by its path, looks for it at that path for ever.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libttmon_client.so");
    println!("cargo::rerun-if-changed=build.rs");
}
