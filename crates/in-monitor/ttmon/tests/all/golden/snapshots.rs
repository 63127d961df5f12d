//! Snapshots of machines, in every format.

use super::check;
use super::machine::Fixed;

/// Every kind of fault that needs no waiting, each on its own device.
const FAULTS: &str = "n300x2,p150x8,driver=2.9,fault=stale:0,fault=gone:1,fault=reset:2,fault=eacces:3,fault=eio:4,fault=garbage:5,\
                      fault=hot:6,fault=throttle:7,fault=starting:8,fault=link:9";

const TABLES: [&str; 8] = ["", "COLUMNS=200", "--ascii", "-L", "who", "topo", "dmon -c 1 -s pucvmt", "pmon -c 1"];

/// `queried` are the devices of which the text has all values.
fn checks(name: &str, machine: &Fixed, queried: &str) {
    check(&format!("json/{name}.json"), &machine.output("--json"));
    check(&format!("query/{name}.txt"), &machine.output(&format!("-q -i {queried}")));
    check(&format!("tables/{name}.txt"), &machine.transcript(&TABLES));
}

#[test]
fn generated_snapshots_of_an_n150() {
    checks("n150", &Fixed::with_ledgers("n150,procs=2"), "0");
}

#[test]
fn generated_snapshots_of_a_t3k() {
    checks("t3k", &Fixed::with_ledgers("t3k"), "0,4");
}

#[test]
fn generated_snapshots_of_blackhole_boards() {
    checks("p150", &Fixed::new("p150,driver=2.10"), "0");
    checks("p300", &Fixed::new("p300"), "0-1");
}

#[test]
fn generated_snapshots_of_an_old_driver() {
    checks("driver-2.5", &Fixed::new("n300,driver=2.5,fault=reset:0"), "0-1");
}

#[test]
fn generated_snapshots_of_faults() {
    let machine = Fixed::new(FAULTS);
    checks("faults", &machine, "1,5-6");
    let lines = ["check", "check --healthy --max-temp 50 --min-free-dram 10G --no-stale", "check 9 --count 1", "check 77", "check --json"];
    check("doctor.txt", &machine.transcript(&["doctor", "doctor --json"]));
    check("check.txt", &machine.transcript(&lines));
}

#[test]
fn generated_snapshots_of_a_galaxy() {
    let machine = Fixed::new("galaxy");
    check("json/galaxy.json", &machine.output("--json -d 0,31"));
    check("tables/galaxy.txt", &machine.transcript(&["", "COLUMNS=200", "-L", "who", "topo"]));
}

#[test]
fn generated_csv() {
    let machine = Fixed::with_ledgers("t3k");
    let names = |flag: &str| -> String {
        let text = machine.output(flag);
        let names: Vec<&str> =
            text.lines().skip(1).filter_map(|line| line.split([' ', ',']).next().filter(|name| !name.is_empty())).collect();
        names.join(",")
    };
    let [fields, gpu, apps] = ["--help-fields", "--help-query-gpu", "--help-query-compute-apps"].map(names);
    let lines = [
        format!("--fields {fields} --format csv"),
        "--fields id,temperature,power,memory.used --format csv,noheader,nounits -d 0-1".to_owned(),
        format!("--query-gpu={gpu} --format=csv"),
        "--query-gpu=index,name,memory.used --format=csv,noheader,nounits".to_owned(),
        format!("--query-compute-apps={apps} --format=csv"),
        "--fields nothing".to_owned(),
    ];
    check("csv.txt", &machine.transcript(&lines.each_ref().map(String::as_str)));
}
