//! Links without start files and libraries, so that the loader has less to do in every child process.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for argument in ["-nostartfiles", "-nodefaultlibs", "-Wl,-z,norelro", "-Wl,--hash-style=gnu", "-Wl,-soname,libttmon_stub.so"] {
        println!("cargo:rustc-cdylib-link-arg={argument}");
    }
}
