//! The fleet view of the page in Chromium, with a real store.

use std::process::Command;

use ttmon_testing::until;

use super::{HOSTS, Hosts, NO_RECEIVER, fleet};
use crate::{TTMON, Tool, repository, run};

/// The folder of the fonts with which the page is measured.
const FONTS: Tool = Tool { variable: "TTMON_TEST_FONTS", stage: "fleet" };

#[test]
#[ignore = "needs Prometheus and Chromium: cargo xtask ci --only fleet"]
fn the_fleet_view_shows_the_hosts_of_a_real_store() {
    let hosts = Hosts::start(*HOSTS, true);
    let store = hosts.prometheus(NO_RECEIVER);
    // The page lists the hosts of the recording rules, which are evaluated after the scrapes.
    let lists_all = || fleet(store.port, &[]).is_some_and(|fleet| fleet["hosts"].as_array().is_some_and(|hosts| hosts.len() == *HOSTS));
    until("all hosts from the rules", lists_all);
    let mut page = Command::new("node");
    page.arg("test/page.mjs").arg(TTMON).args(["--store", &format!("http://127.0.0.1:{}", store.port), "--only", "fleet view"]);
    print!("{}", run(page.current_dir(repository("web")).env("PAGE_FONTS", FONTS.path())));
}
