//! `ttmon run` and the commands it starts. This program is its own guinea pig: started again with a script in
//! `RUNNING_SCRIPT` it is a program that reports buffers, or does other things that programs do.
#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

mod as_root;
mod plainly;
mod program;
mod signals;
mod terminal;
mod told;
mod tools;

type Case = (&'static str, fn());

fn main() {
    if let Ok(script) = std::env::var(program::SCRIPT) {
        return program::run(&script);
    }
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let mut cases = [plainly::CASES, signals::CASES, terminal::CASES, told::CASES].concat();
    match std::env::var_os(as_root::ASKED_FOR) {
        Some(_) => cases.extend(as_root::CASES),
        None => println!("NOT RUN without {}: what only root can try; cargo xtask ci --only root does", as_root::ASKED_FOR),
    }
    let mut passed = 0;
    for (name, case) in cases {
        if wanted.is_empty() || wanted.iter().any(|word| name.contains(word.as_str())) {
            // A failing case panics, which ends the program with an error and its message.
            case();
            println!("test {name} ... ok");
            passed += 1;
        }
    }
    println!("\ntest result: ok. {passed} passed; 0 failed");
}
