//! Finds words that reveal a developer's machine: its paths, and hosts of package registries.

use super::code::is_word;
use super::{File, Finding};

/// Joined from halves, so that this file passes its own rule.
const REGISTRY_HOSTS: &[&str] = &[
    concat!("crates", ".io"),
    concat!("pypi", ".org"),
    concat!("python", "hosted.org"),
    concat!("npm", "js.org"),
    concat!("npm", "js.com"),
    concat!("yarn", "pkg.com"),
    concat!("proxy.", "golang.org"),
    concat!("ruby", "gems.org"),
];

/// The name of cargo's default registry in every Cargo.lock, which is a repository and not a host.
const LOCK_FILE_NAME: &str = concat!("crates", ".io-index");

/// Common directories. A checkout directly below one is found by its own path.
const SHARED: &[&str] = &["/", "/tmp", "/home", "/root", "/opt", "/srv", "/src", "/mnt", "/usr/src", "/usr/local", "/var/tmp", "/dev/shm"];

pub(super) fn registry_hosts(file: &File) -> Vec<Finding> {
    file.each_line(|line| {
        let line = line.to_lowercase().replace(LOCK_FILE_NAME, "");
        let hosts = REGISTRY_HOSTS.iter().filter(|host| line.contains(**host));
        hosts.map(|host| format!("names the registry host {host}: where packages come from is the machine's affair")).collect::<Vec<_>>()
    })
}

/// Returns the paths that only this machine has: the parent directory of the checkout, and the user's home.
pub(super) fn places(root: &str, home: Option<&str>) -> Vec<String> {
    let above = root.rsplit_once('/').map_or("/", |(above, _)| above);
    let checkout = if above.is_empty() || SHARED.contains(&above) { root } else { above };
    let mut places = vec![checkout.to_owned()];
    match home.map(|home| home.trim_end_matches('/')) {
        None | Some("") => {}
        // Every machine has a home of root. Only the tools below it reveal this machine.
        Some(home) if SHARED.contains(&home) => places.extend([".cargo", ".rustup"].map(|tool| format!("{home}/{tool}"))),
        Some(home) => places.push(home.to_owned()),
    }
    places
}

pub(super) fn places_of_this_machine(file: &File, places: &[String]) -> Vec<Finding> {
    file.each_line(|line| {
        let named = places.iter().filter(|place| names_path(line, place));
        named.map(|place| format!("names {place}, which is a place of this machine")).collect::<Vec<_>>()
    })
}

/// Whether the line contains the absolute path or one below it. `/proc/1/home/bo` and `/home/bob` do not contain `/home/bo`.
fn names_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + path.len()..].chars().next();
        let goes_on_before = before.is_some_and(|character| is_word(character) || "./~*}])>-$".contains(character));
        let goes_on_after = after.is_some_and(|character| is_word(character) || character == '-');
        !goes_on_before && !goes_on_after
    })
}

#[cfg(test)]
mod tests {
    use super::super::said;
    use super::*;

    #[test]
    fn registry_hosts_are_found() {
        for host in REGISTRY_HOSTS {
            let file = File::new("README.md", format!("one\nfrom https://{}/simple\n", host.to_uppercase()));
            let said = said(&registry_hosts(&file));
            assert_eq!(said.len(), 1, "{host}");
            assert!(said[0].starts_with(&format!("README.md:2: names the registry host {host}")), "{}", said[0]);
        }
        let lock = format!("source = \"registry+https://github.com/rust-lang/{LOCK_FILE_NAME}\"\n");
        assert_eq!(registry_hosts(&File::new("Cargo.lock", lock)), []);
    }

    #[test]
    fn places_are_the_directory_above_and_the_home() {
        assert_eq!(places("/builds/ana/ttmon", Some("/home/ana/")), ["/builds/ana", "/home/ana"]);
        assert_eq!(places("/tmp/ttmon", None), ["/tmp/ttmon"]);
        assert_eq!(places("/ttmon", Some("/")), ["/ttmon"]);
        let of_root = places("/builds/ttmon", Some("/root"));
        assert_eq!(of_root, ["/builds".to_owned(), format!("/{}/.cargo", "root"), format!("/{}/.rustup", "root")]);
    }

    #[test]
    fn paths_of_the_machine_are_found() {
        let places = places("/builds/ana/ttmon", Some("/home/bo"));
        let text = "cd /builds/ana/ttmon\n/proc/1/home/bo, /home/bob, {root}/home/bo\n\"/home/bo/a\"\nls /home/bo\n/builds/anatomy\n";
        let findings = places_of_this_machine(&File::new("a.md", text), &places);
        assert_eq!(
            said(&findings),
            [
                "a.md:1: names /builds/ana, which is a place of this machine",
                "a.md:3: names /home/bo, which is a place of this machine",
                "a.md:4: names /home/bo, which is a place of this machine",
            ]
        );
    }
}
