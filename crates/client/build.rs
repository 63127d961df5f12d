//! How the shared library is linked.

fn main() {
    // What a closed library had mapped would look like another writer's ledger to the next copy of it, which would stay off for ever.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rerun-if-changed=build.rs");
}
