//! Golden outputs. Update with `INSTA_UPDATE=always`, and read the difference.

use insta::assert_snapshot;
use ttmon_model::fields::{DeviceField, Section};
use ttmon_model::snapshot::State;
use ttmon_model::{Kind, Missing, Snapshot};

use super::{machine, printed, style};
use crate::{
    APPS, CsvOptions, GPU, ProgramReports, Style, banks, blocks, csv_apps, csv_fields, csv_gpu, help_fields, list, memory, memory_end,
    query, reports, snapshot, who,
};

const WIDTHS: [usize; 5] = [80, 100, 120, 160, 200];
const CSV: CsvOptions = CsvOptions { header: true, units: true };

/// Prints the snapshot at several widths, in Unicode and in ASCII.
fn screens(machine: &Snapshot, widths: &[usize]) -> String {
    let screen = |width: usize, ascii: bool| {
        let style = Style { ascii, ..style(width) };
        format!("{width} columns\n{}", printed(|out| snapshot(machine, &style, out)))
    };
    let unicode = widths.iter().map(|width| screen(*width, false));
    unicode.chain(widths.iter().map(|width| screen(*width, true))).collect::<Vec<_>>().join("\n")
}

#[test]
fn screens_of_each_machine() {
    assert_snapshot!("screens_n300", screens(&machine::n300(), &WIDTHS));
    assert_snapshot!("screens_mixed", screens(&machine::mixed(), &WIDTHS));
    assert_snapshot!("screens_galaxy", screens(&machine::galaxy(), &[80, 200]));
    assert_snapshot!("screens_blank", screens(&machine::blank(), &[80, 120]));
    assert_snapshot!("screens_troubled", screens(&machine::troubled(), &WIDTHS));
    assert_snapshot!("screens_statuses", screens(&machine::statuses(), &WIDTHS));
    assert_snapshot!("screens_hostile", screens(&machine::hostile(), &WIDTHS));
}

#[test]
fn an_unused_remote_chip_points_at_its_gateway() {
    let mut machine = machine::mixed();
    machine.processes.clear();
    machine.devices.retain(|device| device.via.is_ok());
    assert!(!machine.devices.is_empty());
    for device in &mut machine.devices {
        device.memory.dram.used = Err(Missing::NotTracked);
    }
    let screen = printed(|out| snapshot(&machine, &style(80), out));
    let gateway = machine.devices[0].via.unwrap().0;
    assert!(screen.contains(&format!("Users of a remote chip hold its gateway: see device {gateway}")), "{screen}");
}

#[test]
fn colours_mean_health() {
    let style = Style { colors: true, show_processes: false, ..style(80) };
    let screen = printed(|out| snapshot(&machine::troubled(), &style, out)) + &printed(|out| snapshot(&machine::mixed(), &style, out));
    assert_snapshot!("colors", screen.replace('\u{1b}', "ESC"));
}

#[test]
fn lists() {
    let all = |print: fn(&Snapshot, &Style<'_>, &mut dyn std::io::Write) -> std::io::Result<()>| {
        let one = |(name, snapshot)| format!("{name}\n{}", printed(|out| print(&snapshot, &style(80), out)));
        machine::all().into_iter().map(one).collect::<Vec<_>>().join("\n")
    };
    assert_snapshot!("list", all(list));
    assert_snapshot!("who", all(who));
}

/// The allocators of processes with the hook.
#[test]
fn memory_of_hooked_processes() {
    let machine = machine::hooked();
    let screens = |print: fn(&Snapshot, &Style<'_>, &mut dyn std::io::Write) -> std::io::Result<()>| {
        let screen = |width: usize| {
            let whole = |out: &mut Vec<u8>| {
                print(&machine, &style(width), out)?;
                memory_end(&machine, &style(width), out)
            };
            format!("{width} columns\n{}", printed(whole))
        };
        [80, 120].map(screen).join("\n")
    };
    assert_snapshot!("mem", screens(|machine, style, out| memory(machine, false, style, out)));
    assert_snapshot!("mem_banks", screens(banks));
    assert_snapshot!("mem_blocks", screens(blocks));
    let files = reports(&machine).into_iter().map(|file| format!("{}\n{}", file.name, file.text));
    assert_snapshot!("mem_csv", files.collect::<Vec<_>>().join("\n"));
}

/// With one allocator, the files have MemoryReporter's own names.
#[test]
fn reports_of_one_allocator_have_no_prefix() {
    let mut machine = machine::hooked();
    machine.allocators.truncate(1);
    let names: Vec<String> = reports(&machine).into_iter().map(|file| file.name).collect();
    assert_eq!(names, ["memory_usage_summary.csv", "l1_usage_summary.csv", "detailed_memory_usage.csv", "memory_blocks.csv"]);
    machine.allocators.clear();
    assert_eq!(reports(&machine), []);
    assert!(printed(|out| banks(&machine, &style(80), out)).starts_with("No tracked process has an allocator."));
}

/// Each program adds its rows once, below one heading.
#[test]
fn programs_are_reported_once() {
    let machine = machine::hooked();
    let mut programs = ProgramReports::default();
    let files = programs.next(&machine);
    let summaries: Vec<_> = files.iter().filter(|file| file.name.ends_with("_program_memory_usage_summary.csv")).collect();
    assert!(!summaries.is_empty() && files.len() == summaries.len() * 3, "{files:?}");
    assert!(summaries[0].text.starts_with("Program ID, Total Allocatable Size (B),"), "{}", summaries[0].text);
    assert_eq!(summaries.iter().filter(|file| file.text.contains("Program ID")).count(), 1, "{summaries:?}");
    let mut own = machine.clone();
    own.circulars.truncate(1);
    let program = own.circulars[0].entry.program;
    let text: Vec<String> = ProgramReports::default().next(&own).into_iter().map(|file| file.text).collect();
    assert!(text[0].lines().nth(1).unwrap().starts_with(&format!("{program},")), "{}", text[0]);
    assert!(text[1].starts_with("This report indicates") && text[1].contains("\nProgram ID, Largest"), "{}", text[1]);
    assert!(text[2].starts_with(&format!("{program},DRAM\n,Total allocatable (B):,")), "{}", text[2]);
    assert_eq!(programs.next(&machine), []);
}

/// The reason why there are no banks has a width that fits any screen.
#[test]
fn a_reason_is_not_cut() {
    let mut machine = machine::hooked();
    for allocator in &mut machine.allocators {
        allocator.kinds = Default::default();
        allocator.coverage = Err(Missing::NoSource);
    }
    let text = printed(|out| banks(&machine, &style(80), out));
    assert!(text.contains("N/A (") && !text.contains("..") && !text.contains('…'), "{text}");
}

/// A selection of devices removes allocators before the one that a program uses.
#[test]
fn a_program_keeps_its_allocator_in_a_selection() {
    let mut machine = machine::hooked();
    let circular = machine.circulars[0].clone();
    let of_program = |machine: &Snapshot| ProgramReports::default().next(machine);
    machine.circulars = vec![circular.clone()];
    let whole = of_program(&machine);
    let used = machine.allocators.iter().find(|one| one.process == circular.process && one.slot == circular.slot).unwrap().clone();
    machine.allocators.insert(0, ttmon_model::snapshot::Allocator { slot: used.slot + 1, kinds: Default::default(), ..used.clone() });
    assert_eq!(of_program(&machine), whole);
    machine.allocators.retain(|allocator| allocator.slot != used.slot);
    assert_eq!(of_program(&machine), []);
}

#[test]
fn queries() {
    assert_snapshot!("query_n300", printed(|out| query(&machine::n300(), &[], &style(80), out)));
    let sections = [Section::Temperature, Section::Performance];
    assert_snapshot!("query_sections", printed(|out| query(&machine::troubled(), &sections, &style(80), out)));
}

/// Files of the PCI device do not wait for the firmware.
#[test]
fn only_values_of_the_firmware_wait_for_it() {
    let mut machine = machine::n300();
    let device = &mut machine.devices[0];
    device.state = State::Starting;
    (device.numa_node, device.temperature) = (Err(Missing::NoSource), Err(Missing::NoSource));
    let text = printed(|out| query(&machine, &[], &style(80), out));
    let line = |name: &str| text.lines().find(|line| line.trim_start().starts_with(name)).unwrap_or_default().to_owned();
    assert!(line("temperature:").contains("the firmware does not answer yet"), "{text}");
    assert!(!line("numa_node:").contains("firmware"), "{text}");
}

/// If the screen has too few rows, processes are more important than the breakdown.
#[test]
fn a_low_screen_shows_every_process_row() {
    let lines = |rows| printed(|out| snapshot(&machine::mixed(), &Style { rows, ..style(80) }, out));
    let (whole, low) = (lines(None), lines(Some(20)));
    assert!(whole.contains("Memory Breakdown:") && !low.contains("Memory Breakdown:"), "{low}");
    assert!(low.contains("Processes:"));
    assert_eq!(lines(Some(whole.lines().count())), whole);
}

/// Buffers, circular buffers and kernels are separate for any number of devices.
#[test]
fn the_breakdown_of_many_devices_keeps_its_split() {
    let whole = printed(|out| snapshot(&machine::galaxy(), &style(80), out));
    let devices = whole.lines().filter(|line| line.starts_with("Device ")).count();
    assert!(devices > 4, "{whole}");
    assert_eq!(whole.lines().filter(|line| line.starts_with("    L1: Buffers ") && line.contains("CBs ")).count(), devices, "{whole}");
}

/// The most detailed form that fits the screen is shown: blocks, two lines, or one line per device.
#[test]
fn the_breakdown_takes_the_room_there_is() {
    let machine = machine::mixed();
    let screen = |rows| printed(|out| snapshot(&machine, &Style { rows, ..style(80) }, out));
    let block = screen(None);
    let at = |rows| screen(Some(rows));
    let rows = block.lines().count();
    assert_eq!(at(rows), block);
    let split = at(rows - 1);
    assert!(split.contains("    L1: Buffers ") && split.lines().count() < rows, "{split}");
    let short = at(split.lines().count() - 1);
    assert!(short.contains("Memory Breakdown:") && !short.contains("Buffers "), "{short}");
    assert!(!at(short.lines().count() - 1).contains("Memory Breakdown:"));
}

/// `ttmon mem` draws bars for devices in use; with `-a` for idle ones too.
#[test]
fn memory_has_bars() {
    let machine = machine::mixed();
    let shown = |is_all| printed(|out| memory(&machine, is_all, &style(80), out));
    let bars = |text: &str, title: &str| text.lines().filter(|line| line.starts_with(title) && line.contains('[')).count();
    let devices = |text: &str| text.lines().filter(|line| line.starts_with("Device ")).count();
    let (some, all) = (shown(false), shown(true));
    assert!(bars(&some, "  DRAM ") > 0 && bars(&some, "  L1 ") > 0, "{some}");
    assert!(devices(&some) < devices(&all) && devices(&all) == machine.devices.len(), "{all}");
}

#[test]
fn fields_as_csv() {
    let fields = ["id", "name", "temperature", "health_reasons", "memory.used", "heartbeat_alive", "memory.kinds.l1.used", "power"]
        .map(|name| DeviceField::find(name).unwrap());
    let print = |options| printed(|out| csv_fields(&machine::mixed(), &fields, options, &Style::plain("0.1.0"), out));
    assert_snapshot!(print(CSV), @"
    id, name, temperature [C], health_reasons, memory.used [B], heartbeat_alive, memory.kinds.l1.used [B], power [W]
    0, Wormhole_B0, 54.312, , 3221225472, N/A, 20971520, 38.0
    1, Wormhole_B0, 71.0, temperature 71 of 75 °C, 11811160064, N/A, 41943040, 38.0
    2, Blackhole, 54.312, , N/A, N/A, N/A, 38.0
    3, Blackhole, 54.312, , 0, N/A, 0, 38.0
    4, Wormhole_B0, N/A, , 0, N/A, 0, N/A
    ");
    let bare = print(CsvOptions { header: false, units: false });
    assert!(bare.starts_with("0, Wormhole_B0, 54.312, ,"), "{bare}");
    let headed = print(CsvOptions { header: true, units: false });
    assert!(headed.starts_with("id, name, temperature, health_reasons, memory.used,"), "{headed}");
}

#[test]
fn queries_of_nvidia_smi_are_printed_alike() {
    let names = "timestamp,index,count,name,uuid,serial,pci.bus_id,driver_version,temperature.gpu,power.draw,power.limit,memory.total,\
        memory.used,memory.free,utilization.gpu,clocks.sm,clocks.gr,clocks.max.sm,pcie.link.gen.current,pcie.link.gen.max,\
        pcie.link.width.current,pcie.link.width.max,fan.speed";
    let fields: Vec<_> = names.split(',').map(|name| GPU.find(name).unwrap()).collect();
    assert_snapshot!("query_gpu", printed(|out| csv_gpu(&machine::n300(), &fields, CSV, &style(80), out)));
    let memory = [GPU.find("memory.used").unwrap()];
    let options = CsvOptions { header: true, units: false };
    assert_snapshot!(printed(|out| csv_gpu(&machine::n300(), &memory, options, &style(80), out)), @"
    memory.used [MiB]
    2457
    800
    ");
    let apps = ["pid", "process_name", "used_memory", "gpu_uuid"].map(|name| APPS.find(name).unwrap());
    let print = |machine: &Snapshot| printed(|out| csv_apps(machine, &apps, CSV, &style(80), out));
    assert_snapshot!(print(&machine::statuses()) + &print(&machine::hostile()), @"
    pid, process_name, used_gpu_memory [MiB], gpu_uuid
    100, python3, 1 MiB, A51C000000000000
    100, python3, 1024 MiB, N/A
    101, test_app, N/A, A51C000000000000
    102, secret, N/A, A51C000000000001
    103, N/A, N/A, A51C000000000000
    pid, process_name, used_gpu_memory [MiB], gpu_uuid
    500, ·[31mred·]0;title·, N/A, A51C000000000000
    501, two·lines··and a tab, N/A, A51C000000000000
    502, ·txt.exe, N/A, A51C000000000000
    503, a·2J·b, N/A, A51C000000000000
    504, 名前が長いプロセス🙂, N/A, A51C000000000000
    ");
}

#[test]
fn help() {
    assert_snapshot!("help_fields", printed(|out| help_fields(&style(80), out)));
}

/// It is unknown how a program was started, so the message has no advice.
#[test]
fn unknown_banks_are_explained_without_advice() {
    let mut machine = machine::hooked();
    machine.allocators.truncate(1);
    for kind in Kind::ALL {
        machine.allocators[0].kinds[kind].iter_mut().for_each(|item| item.banks = Err(Missing::NotTracked));
    }
    let text = |machine: &Snapshot| printed(|out| banks(machine, &style(120), out)) + &printed(|out| blocks(machine, &style(120), out));
    assert_eq!(text(&machine).matches("N/A (the hook has not seen the banks of this allocator)").count(), 2);
    machine.allocators[0].coverage = Err(Missing::NoSource);
    assert_eq!(text(&machine).matches("N/A (the program reports buffers without banks").count(), 2);
    assert!(!text(&machine).contains("start it with"));
}
