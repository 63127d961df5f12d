//! `ttmon topo`: a matrix of the connections between devices.

use std::io::{self, Write};

use ttmon_model::cluster::Cluster;
use ttmon_model::{Device, Snapshot};

use crate::quantity::ABSENT;
use crate::snapshot::origin_mark;
use crate::style::Style;
use crate::text::print_aligned;

const LEGEND: &str = "  X     the device itself
  ETHn  n Ethernet links, from a cluster descriptor (--cluster FILE)
  ETH   Ethernet on the same board
  NODE  PCIe, on the same NUMA node
  SYS   PCIe, across NUMA nodes
  PCI   PCIe, the NUMA nodes are not known
  -     not known: a remote chip on another board; a cluster descriptor would show it";

/// Prints the matrix, the NUMA node of each device, and a legend.
pub fn topology(snapshot: &Snapshot, cluster: Option<&Cluster>, style: &Style<'_>, out: &mut dyn Write) -> io::Result<()> {
    let label = |device: &Device| format!("dev{}", device.id);
    let mut head: Vec<String> = std::iter::once(String::new()).chain(snapshot.devices.iter().map(label)).collect();
    head.extend(["NUMA".to_owned(), "Board".to_owned()]);
    let mut rows = vec![head];
    for one in &snapshot.devices {
        let mut row = vec![label(one)];
        row.extend(snapshot.devices.iter().map(|other| connection(one, other, cluster)));
        row.push(one.numa_node.map_or_else(|_| ABSENT.to_owned(), |node| node.to_string()));
        row.push(one.label());
        rows.push(row);
    }
    print_aligned(&rows, style, out)?;
    writeln!(out, "\n{LEGEND}")?;
    match origin_mark(snapshot) {
        "" => Ok(()),
        mark => writeln!(out, "\n{mark}"),
    }
}

fn connection(one: &Device, other: &Device, cluster: Option<&Cluster>) -> String {
    if one.id == other.id {
        return "X".to_owned();
    }
    if let Some(links) = cluster.and_then(|cluster| links(cluster, one, other)) {
        return format!("ETH{links}");
    }
    if one.via == Ok(other.id) || other.via == Ok(one.id) {
        return "ETH".to_owned();
    }
    match (one.bdf.is_ok() && other.bdf.is_ok(), one.numa_node, other.numa_node) {
        (false, ..) => "-",
        (true, Ok(here), Ok(there)) if here == there => "NODE",
        (true, Ok(_), Ok(_)) => "SYS",
        (true, ..) => "PCI",
    }
    .to_owned()
}

fn links(cluster: &Cluster, one: &Device, other: &Device) -> Option<u32> {
    let chip = |device: &Device| device.metal_id.ok().and_then(|id| u32::try_from(id).ok());
    let ends = (chip(one)?, chip(other)?);
    let found = cluster.links.iter().find(|(from, to, _)| (*from, *to) == ends || (*to, *from) == ends);
    found.map(|(_, _, count)| *count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{machine, printed};

    #[test]
    fn every_two_devices_have_a_cell() {
        for (name, snapshot) in machine::all() {
            let text = printed(|out| topology(&snapshot, None, &Style::plain("0.1.0"), out));
            let rows: Vec<Vec<&str>> =
                text.lines().take(snapshot.devices.len() + 1).map(|line| line.split_whitespace().collect()).collect();
            for (index, row) in rows.iter().skip(1).enumerate() {
                assert!(row.len() >= snapshot.devices.len() + 2, "{name}: {text}");
                assert_eq!(row[index + 1], "X", "{name}: {text}");
            }
        }
    }

    #[test]
    fn links_of_a_descriptor_are_counted() {
        let (_, snapshot) = machine::all().into_iter().find(|(_, snapshot)| snapshot.devices.len() > 1).unwrap();
        let id = |index: usize| u32::try_from(snapshot.devices[index].metal_id.unwrap()).unwrap();
        let cluster = Cluster { chips: Vec::new(), links: vec![(id(0), id(1), 4)] };
        assert_eq!(connection(&snapshot.devices[1], &snapshot.devices[0], Some(&cluster)), "ETH4");
    }
}
