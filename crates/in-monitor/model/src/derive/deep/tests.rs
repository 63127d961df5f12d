use super::*;
use crate::deep::SubDevice;

const SECOND: Duration = Duration::from_secs(1);

fn counters(timestamp: u64, busy: u64) -> Counters {
    Counters { timestamp, busy, sub_devices: vec![SubDevice { workers: 64, completed: 64, ..SubDevice::default() }], ..Counters::default() }
}

fn dispatch(pairs: &[(Counters, Counters)], elapsed: Duration) -> Dispatch {
    let queue = |(before, now): &(Counters, Counters)| Queue { now: now.clone(), before: Some(before.clone()) };
    Dispatch { worker_cores: None, elapsed: Some(elapsed), queues: pairs.iter().map(queue).collect() }
}

fn derived(arch: Arch, tags: &[(u16, u32)], dispatch: Reading<Dispatch>) -> Device {
    let mut device = Device { arch: Ok(arch), fan_rpm: Err(Missing::NotOnThisArch), ..Device::absent() };
    take(&mut device, &Ok(DeepSample { age: SECOND, tags: tags.to_vec(), dispatch }));
    device
}

fn utilization_of(pairs: &[(Counters, Counters)]) -> Reading<f64> {
    derived(Arch::Wormhole, &[], Ok(dispatch(pairs, SECOND))).utilization
}

#[test]
fn utilization_is_the_share_of_the_chips_time_with_work() {
    for (worked, share) in [(0, 0.0), (370_000_000, 0.37), (1_000_000_000, 1.0)] {
        assert_eq!(utilization_of(&[(counters(5, 77), counters(1_000_000_005, 77 + worked))]), Ok(share));
    }
    // A share above 100 % is reported as 100 %.
    assert_eq!(utilization_of(&[(counters(0, 0), counters(10, 11))]), Ok(1.0));
}

#[test]
fn counters_wrap() {
    let (near, after) = (u64::MAX - 9, 990);
    assert_eq!(utilization_of(&[(counters(near, u64::MAX), counters(after, 499))]), Ok(0.5));
    let mut pair = (counters(0, 0), counters(1000, 0));
    (pair.0.programs, pair.1.programs) = (u32::MAX - 4, 95);
    assert_eq!(derived(Arch::Wormhole, &[], Ok(dispatch(&[pair], SECOND))).programs_per_s, Ok(100.0));
}

#[test]
fn work_in_flight_counts_while_workers_are_missing() {
    let at_work = |since, completed| {
        let part = SubDevice { workers: 64, completed, launched: since, runtime: 0 };
        Counters { busy_since: since, sub_devices: vec![part], ..counters(1000, 100) }
    };
    assert_eq!(utilization_of(&[(counters(0, 100), at_work(600, 63))]), Ok(0.4));
    // All workers have finished, but the start time is still set.
    assert_eq!(utilization_of(&[(counters(0, 100), at_work(600, 64))]), Ok(0.0));
    // The start time is later than now.
    assert_eq!(utilization_of(&[(counters(0, 100), at_work(1001, 0))]), Ok(0.0));
}

#[test]
fn the_busiest_queue_is_the_devices_utilization() {
    let device = derived(
        Arch::Blackhole,
        &[],
        Ok(dispatch(&[(counters(0, 0), counters(1000, 250)), (counters(0, 0), counters(1000, 750))], SECOND)),
    );
    assert_eq!((device.utilization, device.queue_utilization), (Ok(0.75), Ok(vec![0.25, 0.75])));
}

#[test]
fn a_chip_whose_time_stands_still_is_idle_and_later_stale() {
    let still = [(counters(7, 3), counters(7, 3))];
    assert_eq!(utilization_of(&still), Ok(0.0));
    let device = derived(Arch::Wormhole, &[], Ok(dispatch(&still, 2 * SECOND)));
    assert_eq!((device.utilization, device.programs_per_s), (Err(Missing::Stale), Err(Missing::Stale)));
}

#[test]
fn counters_of_another_program_or_half_written_ones_give_no_share() {
    // The clock of a new program begins at 0. A value read during a carry is wrong by 2^32.
    for now in [counters(10, 10), counters(5_000_000_000 + (1 << 33), 10)] {
        assert_eq!(utilization_of(&[(counters(5_000_000_000, 10), now)]), Err(Missing::FirstSample));
    }
    assert_eq!(utilization_of(&[(counters(0, 500), counters(1000, 100))]), Ok(0.0));
    let first = Dispatch { elapsed: None, ..dispatch(&[(counters(0, 0), counters(1, 1))], SECOND) };
    assert_eq!(derived(Arch::Wormhole, &[], Ok(first)).utilization, Err(Missing::FirstSample));
}

#[test]
fn a_chip_that_nobody_holds_is_idle() {
    let device = derived(Arch::Wormhole, &[], Err(Missing::NotHeld));
    assert_eq!((device.utilization, device.core_efficiency, device.programs_per_s), (Ok(0.0), Ok(0.0), Ok(0.0)));
    assert_eq!(device.queue_utilization, Err(Missing::NotHeld));
    let device = derived(Arch::Wormhole, &[], Err(Missing::SlowDispatch));
    assert_eq!(device.utilization, Err(Missing::SlowDispatch));
}

#[test]
fn core_efficiency_counts_each_core() {
    let now = Counters { average_runtime: 200, ..counters(1000, 900) };
    let mut dispatch = dispatch(&[(counters(0, 0), now)], SECOND);
    dispatch.worker_cores = Some(64);
    assert_eq!(derived(Arch::Wormhole, &[], Ok(dispatch.clone())).core_efficiency, Ok(0.2));
    // In addition, half of the cores were busy for the last 500 cycles.
    dispatch.queues[0].now.sub_devices[0] = SubDevice { workers: 64, completed: 32, launched: 500, runtime: 0 };
    assert_eq!(derived(Arch::Wormhole, &[], Ok(dispatch.clone())).core_efficiency, Ok(0.45));
    dispatch.worker_cores = None;
    assert_eq!(derived(Arch::Wormhole, &[], Ok(dispatch)).core_efficiency, Err(Missing::NotExposed));
}

#[test]
fn tags_become_fields() {
    let device = derived(
        Arch::Blackhole,
        &[
            (13, 35 << 16),
            (21, 0x0007_3FFF),
            (22, 0x5555),
            (23, 16_000),
            (25, 0x0002_000B),
            (28, 0x130D_0000),
            (34, 0x2FFF),
            (35, 0x000F),
            (36, 0xFF),
            (42, 0x2A2B_2C2D),
            (43, 0x2E2F_3031),
            (44, 0x0101_0101),
            (45, 0x0101_0101),
            (46, 0x0100_0200),
            (47, 0),
            (48, 0),
            (49, 0xFF00_0000),
            (50, 0b101),
            (51, 49),
            (53, 300),
            (54, 77),
            (69, 1 << 16 | 4),
        ],
        Err(Missing::NoSource),
    );
    assert_eq!(device.board_temperature, Ok(Celsius(35.0)));
    assert_eq!(device.eth_links, Ok(["0:up", "1:up", "2:up", "3:down"].map(str::to_owned).to_vec()));
    assert_eq!(device.eth_links_up, Ok(3));
    assert_eq!((device.gddr_trained, device.gddr_speed_mts, device.gddr_fw), (Ok(true), Ok(16_000), Ok("2.11".to_owned())));
    assert_eq!(device.gddr_temperatures.map(|all| all[..6].to_vec()), Ok(vec![45.0, 44.0, 43.0, 42.0, 49.0, 48.0]));
    assert_eq!(device.gddr_temperature, Ok(Celsius(49.0)));
    assert_eq!((device.gddr_corrected_errors, device.gddr_uncorrected_errors), (Ok(258), Ok(2)));
    assert_eq!((device.board_power, device.board_power_limit), (Ok(Watts(77.0)), Ok(Watts(300.0))));
    assert_eq!(device.throttle_reasons, Ok(vec!["temperature".to_owned()]));
    assert_eq!((device.tensix_cores, device.input_current), (Ok(130), Err(Missing::NotExposed)));
    assert_eq!(device.deep_age_s, Ok(1.0));
}

#[test]
fn values_that_are_none_or_nonsense_are_missing() {
    let device = derived(
        Arch::Wormhole,
        &[(13, 0), (21, 0xFFFF_0000), (28, 0x5011_0000), (41, 0xFFFF_FFFF), (51, 200), (54, 0), (59, 0), (69, 4 << 16)],
        Err(Missing::NoSource),
    );
    assert_eq!(device.board_temperature, Err(Missing::NoSource));
    // Bundle 80.17 is older than 18.4.
    assert_eq!(device.eth_links, Err(Missing::NotExposed));
    assert_eq!((device.fan_rpm, device.gddr_temperature), (Err(Missing::NoSource), Err(Missing::OutOfRange)));
    assert_eq!((device.board_power, device.tensix_cores), (Err(Missing::NoSource), Err(Missing::OutOfRange)));
    assert_eq!(device.throttle_reasons, Ok(Vec::new()));
    let fan = derived(Arch::Wormhole, &[(41, 0xFFFF_05DC)], Err(Missing::NoSource)).fan_rpm;
    assert_eq!(fan, Ok(Rpm(1500)));
}
