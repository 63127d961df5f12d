//! Determines the rows: local chips in the driver's numbering, then remote chips.

use std::collections::HashMap;

use super::{device, numbers};
use crate::attributes::Attr;
use crate::cluster::ClusterChip;
use crate::identity::{ChipPosition, DeviceId, gaps, unique_id_candidates};
use crate::missing::{Missing, Reading};
use crate::product::{Arch, Product};
use crate::sample::{DeviceSample, Problem, Sample, Users};
use crate::snapshot::State;

/// One chip before its fields are derived.
#[derive(Debug)]
pub(super) struct DeviceRow<'a> {
    pub(super) id: DeviceId,
    pub(super) local: Option<&'a DeviceSample>,
    pub(super) via: Reading<DeviceId>,
    pub(super) metal_id: Reading<u64>,
    pub(super) arch: Reading<Arch>,
    pub(super) product: Option<&'static Product>,
    pub(super) board: Reading<String>,
    pub(super) serial: Reading<u64>,
    pub(super) position: Option<ChipPosition>,
    /// The id that UMD gave the chip, if a cluster descriptor has it.
    pub(super) unique_id: Option<u64>,
    /// The unique ids that the chip may have.
    pub(super) candidates: Vec<u64>,
}

/// Rows by their certain or possible unique ids. The value is `None` if an id matches several rows.
pub(super) struct Ids(HashMap<u64, Option<usize>>);

impl Ids {
    pub(super) fn of(rows: &[DeviceRow<'_>]) -> Self {
        let mut found = HashMap::new();
        for (index, row) in rows.iter().enumerate() {
            for id in row.unique_id.iter().chain(row.candidates.iter().filter(|_| row.unique_id.is_none())) {
                let row = found.entry(*id).or_insert(Some(index));
                *row = row.filter(|known| *known == index);
            }
        }
        Self(found)
    }

    /// Returns the only row that a unique id belongs to.
    pub(super) fn row(&self, unique_id: u64) -> Option<usize> {
        self.0.get(&unique_id).copied().flatten()
    }
}

pub(super) fn list(sample: &Sample) -> Vec<DeviceRow<'_>> {
    let mut rows: Vec<DeviceRow<'_>> = sample.devices.iter().map(|device| local_row(sample, device)).collect();
    number_locals(&mut rows, sample);
    let mut remotes = remotes_of_cluster(sample, &rows);
    // Boards that are missing in the descriptor have the standard chips of their type.
    remotes.extend(remotes_of_boards(rows.iter().filter(|row| sample.cluster.is_none() || row.metal_id.is_err()), &rows));
    remotes.sort_by_key(|row| row.via.map_or(u32::MAX, |id| id.0));
    let first = rows.iter().map(|row| row.id.0 + 1).max().unwrap_or(0);
    for (remote, id) in remotes.into_iter().zip(first..) {
        rows.push(DeviceRow { id: DeviceId(id), ..remote });
    }
    numbers::apply(&mut rows, sample);
    rows
}

/// Reports missing ids if the ids of remote chips depend on them.
pub(super) fn report_missing(rows: &[DeviceRow<'_>], problems: &mut Vec<Problem>) {
    let Some(last) = rows.iter().filter_map(|row| row.via.ok()).max() else { return };
    let is_known = |row: &&DeviceRow<'_>| row.product.is_some() || row.board.is_ok();
    let locals = rows.iter().filter(|row| row.local.is_some()).filter(is_known).map(|row| row.id.0);
    let missing: Vec<String> = gaps(0, last.0, locals)
        .into_iter()
        .map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") })
        .collect();
    if !missing.is_empty() {
        let detail = "it is missing, and what it was is not known: the ids of remote chips are not stable now; use serials";
        problems.push(Problem::new(format!("device {}", missing.join(", ")), Missing::Gone, detail));
    }
}

/// Returns the processes that have the chip open. For a remote chip, returns those that have its gateway open.
pub(super) fn holders<'a>(rows: &[DeviceRow<'a>], row: &DeviceRow<'a>) -> Reading<&'a Users> {
    let gateway = match row.via {
        Ok(via) => rows.iter().find(|other| other.id == via).and_then(|other| other.local),
        Err(_) => row.local,
    };
    gateway.ok_or(Missing::RemoteChip)?.users.as_ref().map_err(|reason| *reason)
}

fn local_row<'a>(sample: &Sample, device: &'a DeviceSample) -> DeviceRow<'a> {
    let attributes = &device.attributes;
    // If both sources of the product fail, `board` has the reason of the first.
    let named = attributes.text(Attr::CardType).ok();
    let product = named
        .and_then(Product::by_card_type)
        .or_else(|| attributes.number(Attr::SubsystemDevice).ok().filter(|_| named.is_none()).and_then(Product::by_subsystem_device));
    let board = match (named, product) {
        (Some(name), _) => Ok(name.to_owned()),
        (None, Some(product)) => Ok(product.card_type.to_owned()),
        (None, None) => Err(attributes.text(Attr::CardType).err().unwrap_or(Missing::NoSource)),
    };
    let arch = attributes
        .number(Attr::PciDevice)
        .and_then(|id| Arch::from_pci_device(id).ok_or(Missing::OutOfRange))
        .or_else(|_| attributes.text(Attr::HwmonName).and_then(|name| Arch::from_name(name).ok_or(Missing::Unparsable)))
        .or_else(|reason| product.map(|product| product.arch).ok_or(reason));
    let serial = attributes.number(Attr::Serial);
    let position = product.and_then(|product| product.local_chip);
    let shares_serial = product.is_some_and(|product| product.shares_serial);
    let known = cluster_chip(sample, device);
    DeviceRow {
        id: device.id,
        local: Some(device),
        via: Err(Missing::NoSource),
        metal_id: known.map(|chip| u64::from(chip.chip)).ok_or(Missing::NoSource),
        arch,
        product,
        board,
        serial,
        position,
        unique_id: known.and_then(|chip| chip.unique_id),
        // An id that was not read makes fewer candidates.
        candidates: unique_id_candidates(attributes.number(Attr::AsicId).ok(), serial.ok(), position, shares_serial),
    }
}

/// Returns the descriptor's chip for a local device: by PCI address if both have one, else by /dev number.
fn cluster_chip<'a>(sample: &'a Sample, device: &DeviceSample) -> Option<&'a ClusterChip> {
    // An unknown architecture fits any chip.
    let arch = device.attributes.number(Attr::PciDevice).ok().and_then(Arch::from_pci_device);
    let is_same_arch = |chip: &&ClusterChip| chip.arch.is_none() || arch.is_none() || chip.arch == arch;
    let chips: Vec<&ClusterChip> = sample.cluster.as_ref()?.chips.iter().filter(is_same_arch).collect();
    let by_bdf = chips.iter().find(|chip| chip.bdf.is_some() && chip.bdf == device.bdf.ok());
    by_bdf.or_else(|| chips.iter().find(|chip| chip.device == Some(device.id.0) && (chip.bdf.is_none() || device.bdf.is_err()))).copied()
}

/// Numbers the local chips. TT-Metal numbers them in the order of their PCI addresses. It uses only one architecture, so the numbers on a
/// mixed machine are uncertain.
fn number_locals(rows: &mut [DeviceRow<'_>], sample: &Sample) {
    if sample.cluster.is_some() {
        return;
    }
    // TT-Metal ignores a card that the driver never listed.
    let is_listed = |row: &DeviceRow<'_>| row.local.is_some_and(|local| local.was_listed);
    let mut order: Vec<usize> = (0..rows.len()).filter(|index| is_listed(&rows[*index])).collect();
    let is_mixed = order.windows(2).any(|pair| rows[pair[0]].arch != rows[pair[1]].arch);
    // Without all addresses, the order is not known.
    let bdf = |row: &DeviceRow<'_>| row.local.and_then(|local| local.bdf.ok());
    if is_mixed || order.iter().any(|index| bdf(&rows[*index]).is_none()) {
        return;
    }
    order.sort_by_key(|index| bdf(&rows[*index]));
    // A program that started before a card was lost counts that card. A program that starts now does not, if another card remains. So only
    // the numbers before the lost card are certain.
    let is_there = |index: &usize| !is_gone(&rows[*index]);
    let certain = if order.iter().any(is_there) { order.iter().take_while(|index| is_there(index)).count() } else { order.len() };
    for (metal_id, index) in (0..).zip(order.drain(..certain)) {
        rows[index].metal_id = Ok(metal_id);
    }
}

/// Returns whether a card that the driver listed is missing.
pub(super) fn is_gone(row: &DeviceRow<'_>) -> bool {
    row.local.is_some_and(|local| local.was_listed && device::state_of(&local.attributes).0 == State::Gone)
}

/// Reports boards that were identified by the PCI subsystem, because the driver prints no card type.
pub(super) fn report_boards(rows: &[DeviceRow<'_>], problems: &mut Vec<Problem>) {
    for (row, local) in rows.iter().filter_map(|row| Some((row, row.local?))) {
        let attributes = &local.attributes;
        if let (Err(reason @ Missing::NotExposed), Some(product)) = (attributes.text(Attr::CardType), row.product) {
            let detail = format!("the driver prints no card type; the board's name is that of PCI subsystem {:#06x}", product.upi);
            problems.push(Problem::new(format!("device {}", row.id), reason, detail));
        }
    }
}

/// Reports devices that are missing in a cluster descriptor. The descriptor may belong to another machine.
pub(super) fn report_strangers(sample: &Sample, rows: &[DeviceRow<'_>], problems: &mut Vec<Problem>) {
    let Some(cluster) = &sample.cluster else { return };
    let problem = |detail: String| Problem::new("cluster descriptor", Missing::NoSource, detail);
    let strangers = rows.iter().filter(|row| row.local.is_some() && row.metal_id.is_err());
    problems.extend(strangers.map(|row| problem(format!("it does not know device {}; is it another machine's?", row.id))));
    let is_here = |chip: &&ClusterChip| rows.iter().any(|row| row.metal_id == Ok(u64::from(chip.chip)));
    let absent = cluster.chips.iter().filter(|chip| chip.device.is_some()).filter(|chip| !is_here(chip)).count();
    if absent > 0 {
        problems.push(problem(format!("{absent} of its PCIe chips are not on this machine")));
    }
}

fn remotes_of_boards<'r, 'a: 'r>(gateways: impl Iterator<Item = &'r DeviceRow<'a>>, locals: &[DeviceRow<'a>]) -> Vec<DeviceRow<'a>> {
    let mut remotes = Vec::new();
    for gateway in gateways {
        let Some(product) = gateway.product else { continue };
        for position in product.remote_chips {
            remotes.push(DeviceRow {
                id: gateway.id,
                local: None,
                via: Ok(gateway.id),
                // UMD numbers remote chips in the order in which it finds them. That order follows the links, not the boards.
                metal_id: Err(Missing::NoSource),
                arch: gateway.arch,
                product: Some(product),
                board: gateway.board.clone(),
                serial: gateway.serial,
                position: Some(*position),
                unique_id: None,
                // As above.
                candidates: unique_id_candidates(None, gateway.serial.ok(), Some(*position), product.shares_serial),
            });
        }
    }
    // If there is only one remote chip, only one order is possible.
    let is_listed = |row: &&DeviceRow<'_>| row.local.is_some_and(|local| local.was_listed);
    let listed: Vec<&DeviceRow<'_>> = locals.iter().filter(is_listed).collect();
    let mut reached = remotes.iter_mut().filter(|remote| listed.iter().any(|row| Ok(row.id) == remote.via));
    if let (Some(only), None) = (reached.next(), reached.next()) {
        only.metal_id = if listed.iter().all(|row| row.metal_id.is_ok()) { Ok(listed.len() as u64) } else { Err(Missing::NoSource) };
    }
    remotes
}

/// Returns the remote chips of the descriptor, by their place on the board.
fn remotes_of_cluster<'a>(sample: &'a Sample, locals: &[DeviceRow<'a>]) -> Vec<DeviceRow<'a>> {
    let Some(cluster) = &sample.cluster else { return Vec::new() };
    let mut chips: Vec<&ClusterChip> = cluster.chips.iter().filter(|chip| chip.device.is_none()).collect();
    chips.sort_by_key(|chip| (chip.location, chip.chip));
    let row = |chip: &ClusterChip| {
        let gateway = cluster.gateway_of(chip);
        let gateway = gateway.and_then(|gateway| locals.iter().find(|row| row.metal_id == Ok(u64::from(gateway.chip))));
        let product = gateway.and_then(|gateway| gateway.product);
        let position = product.and_then(|product| product.remote_chips.first().copied());
        DeviceRow {
            id: DeviceId(0),
            local: None,
            via: gateway.map(|gateway| gateway.id).ok_or(Missing::NoSource),
            metal_id: Ok(u64::from(chip.chip)),
            arch: gateway.map_or(chip.arch.ok_or(Missing::NoSource), |gateway| gateway.arch),
            product,
            board: gateway.map_or(chip.board_type.clone().ok_or(Missing::NoSource), |gateway| gateway.board.clone()),
            serial: gateway.map_or(chip.board_id.ok_or(Missing::NoSource), |gateway| gateway.serial),
            position,
            unique_id: chip.unique_id,
            candidates: chip.unique_id.into_iter().collect(),
        }
    };
    chips.into_iter().map(row).collect()
}
