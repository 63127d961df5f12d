//! A device of the document.

use ttmon_model::identity::ChipPosition;
use ttmon_model::memory::{Bar, Figure, KindMemory, Memory, Source};
use ttmon_model::snapshot::{Firmware, Health, Location, Pcie, State};
use ttmon_model::units::{Amperes, BytesPerSecond, Celsius, Megahertz, Rpm, Volts, Watts, WordsPerSecond};
use ttmon_model::{Arch, Device, DeviceId, KernelType, KernelTypes, KernelUse, Missing, PerKind, Reading};

use super::item::Item;

pub(super) fn read(item: &Item<'_>) -> Option<Device> {
    let celsius = |name: &str| item.float(name).map(Celsius);
    let megahertz = |name: &str| item.whole(name).map(Megahertz);
    Some(Device {
        id: id(item.whole("id").ok()?)?,
        metal_id: item.whole("metal_id"),
        arch: item.meaning("arch", |name| [Arch::Wormhole, Arch::Blackhole, Arch::Grayskull].into_iter().find(|arch| arch.name() == name)),
        board: item.text("board"),
        chip: item.meaning("chip", |letter| [ChipPosition::Left, ChipPosition::Right].into_iter().find(|chip| chip.letter() == letter)),
        location: if item.text("location").as_deref() == Ok("remote") { Location::Remote } else { Location::Local },
        via: item.whole("via").and_then(|number| id(number).ok_or(Missing::Unparsable)),
        bdf: item.meaning("bdf", |text| text.parse().ok()),
        asic_id: item.text("asic_id"),
        unique_id: item.meaning("unique_id", |text| text.parse().ok()),
        serial: item.text("serial"),
        numa_node: item.whole("numa_node"),
        state: item.meaning("state", State::from_name).unwrap_or(State::Unknown),
        health: item.meaning("health", Health::from_name).unwrap_or(Health::Unknown),
        health_reasons: item.texts("health_reasons"),
        temperature: celsius("temperature"),
        temperature_limit: celsius("temperature_limit"),
        power: item.float("power").map(Watts),
        power_limit: item.float("power_limit").map(Watts),
        voltage: item.float("voltage").map(Volts),
        voltage_limit: item.float("voltage_limit").map(Volts),
        current: item.float("current").map(Amperes),
        current_limit: item.float("current_limit").map(Amperes),
        fan: item.whole("fan_rpm").map(Rpm),
        aiclk: megahertz("aiclk_mhz"),
        axiclk: megahertz("axiclk_mhz"),
        arcclk: megahertz("arcclk_mhz"),
        aiclk_limit: megahertz("aiclk_limit_mhz"),
        heartbeat: item.whole("heartbeat"),
        heartbeat_alive: item.truth("heartbeat_alive"),
        therm_trip_count: item.whole("therm_trip_count"),
        pcie: pcie(item),
        firmware: firmware(item),
        memory: memory(item),
    })
}

pub(super) fn id(number: u64) -> Option<DeviceId> {
    u32::try_from(number).ok().map(DeviceId)
}

fn pcie(item: &Item<'_>) -> Pcie {
    Pcie {
        gen_now: item.whole("pcie_gen"),
        width: item.whole("pcie_width"),
        gen_max: item.whole("pcie_gen_max"),
        width_max: item.whole("pcie_width_max"),
        // Only a judge of health needs it, and the document has the judgement.
        slot_width_max: Err(Missing::NoSource),
        to_device: item.float("pcie_to_device_bytes_per_s").map(BytesPerSecond),
        from_device: item.float("pcie_from_device_bytes_per_s").map(BytesPerSecond),
        to_device_words: item.float("pcie_to_device_words_per_s").map(WordsPerSecond),
        from_device_words: item.float("pcie_from_device_words_per_s").map(WordsPerSecond),
    }
}

fn firmware(item: &Item<'_>) -> Firmware {
    Firmware {
        bundle: item.text("firmware"),
        m3_app: item.text("m3_fw"),
        m3_boot: item.text("m3_bl_fw"),
        arc: item.text("arc_fw"),
        eth: item.text("eth_fw"),
        tt_flash: item.text("tt_flash"),
    }
}

fn memory(item: &Item<'_>) -> Memory {
    let memory = item.part("memory");
    let whole = |name: &str| memory.as_ref().map_or(Err(Missing::NotExposed), |memory| memory.whole(name));
    let bar = |total: &str, used: &str, free: &str| Bar { total: whole(total), used: whole(used), free: whole(free) };
    let kinds = memory.as_ref().and_then(|memory| memory.part("kinds"));
    Memory {
        kinds: PerKind::from_fn(|kind| {
            let kind = kinds.as_ref().and_then(|kinds| kinds.part(kind.name()));
            let whole = |name: &str| kind.as_ref().map_or(Err(Missing::NotExposed), |kind| kind.whole(name));
            KindMemory { total: whole("total"), capacity: whole("capacity"), free: whole("free"), figure: figure(kind.as_ref()) }
        }),
        dram: bar("total", "used", "free"),
        l1: bar("l1_total", "l1_used", "l1_free"),
        untracked_processes: whole("untracked_processes").unwrap_or(0),
        holders: whole("holders"),
        hidden_processes: whole("hidden_processes").unwrap_or(0),
        stale_bytes: whole("stale_bytes").unwrap_or(0),
    }
}

/// What is known of one kind of memory.
pub(super) fn figure(kind: Option<&Item<'_>>) -> Figure {
    let Some(kind) = kind else { return Figure::missing(Missing::NotExposed) };
    Figure {
        used: kind.whole("used"),
        allocated: kind.whole("allocated"),
        peak: kind.whole("peak"),
        peak_time: kind.moment("peak_time"),
        count: kind.whole("count"),
        source: source(kind),
        kernel_types: kind.part("types").map(|types| Box::new(kernel_types(&types))),
    }
}

fn kernel_types(item: &Item<'_>) -> KernelTypes {
    let mut types = KernelTypes::default();
    for kernel_type in KernelType::ALL {
        if let Some(one) = item.part(kernel_type.name()) {
            types.add(kernel_type, KernelUse { used: one.whole("used").unwrap_or(0), count: one.whole("count").unwrap_or(0) });
        }
    }
    types
}

pub(super) fn source(item: &Item<'_>) -> Reading<Source> {
    item.meaning("source", Source::from_name)
}
