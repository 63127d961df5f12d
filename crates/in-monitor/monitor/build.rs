//! Sets the linker options of the shared library.

fn main() {
    // When a program closes the library, reading threads may still be ending or may be stuck in the driver. So the library is never
    // unloaded.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // Without a soname, a program that is linked with the library by its path would always load it from that path.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libttmon_monitor.so");
    println!("cargo::rerun-if-changed=build.rs");
}
