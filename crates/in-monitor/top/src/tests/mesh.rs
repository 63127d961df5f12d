//! Positions of chips on the test machines.

use ttmon_model::cluster::{Cluster, ClusterChip, ClusterPlace};
use ttmon_model::mesh::{Link, LinkKind, Tile, of};
use ttmon_model::{DeviceId, Missing};

use super::{drawn, machine, text, watched};
use crate::state::View;
use crate::theme::Theme;

/// Values are never cut, because x16 would become x1.
#[test]
fn no_value_of_a_tile_is_cut() {
    for width in 40..200 {
        let mut state = watched(&machine::galaxy(), (width, 40), Theme::default(), 1);
        state.view = View::Mesh;
        let screen = text(&drawn(&state));
        for (part, whole) in [("Gen4", "Gen4 x16"), ("38", "38W"), ("L1 ", "B"), ("GB", "GB ")] {
            let is_whole = |line: &str| line.matches(part).count() <= format!("{line} ").matches(whole).count();
            assert!(screen.lines().skip(2).all(is_whole), "{width} {part}: {screen}");
        }
    }
}

/// Without a limit, the sparkline of a tile reaches its full height at its highest value.
#[test]
fn a_tile_without_a_limit_has_a_sparkline() {
    let mut snapshot = machine::n300();
    snapshot.devices[0].temperature_limit = Err(Missing::NoSource);
    let mut state = watched(&snapshot, (80, 24), Theme::default(), 70);
    (state.view, state.settings.metric) = (View::Mesh, crate::metric::by_name("temperature").unwrap());
    let screen = text(&drawn(&state));
    assert!(screen.contains("no limit to measure against") && screen.contains(state.theme.glyphs().spark[7]), "{screen}");
}

#[test]
fn every_chip_has_a_place_of_its_own() {
    for (name, snapshot) in machine::all() {
        let mesh = of(&snapshot, None);
        assert_eq!(mesh.tiles.len(), snapshot.devices.len(), "{name}");
        for (index, tile) in mesh.tiles.iter().enumerate() {
            assert!(tile.row < mesh.rows && tile.column < mesh.columns, "{name}: {tile:?}");
            let is_same = |other: &Tile| (other.row, other.column) == (tile.row, tile.column);
            assert!(!mesh.tiles[..index].iter().any(is_same), "{name}: {tile:?}");
        }
    }
}

#[test]
fn a_galaxy_has_trays_and_an_n300_its_second_chip_below() {
    let galaxy = of(&machine::galaxy(), None);
    assert_eq!((galaxy.rows, galaxy.columns, galaxy.frames.len()), (4, 8, 4));
    let pair = of(&machine::n300(), None);
    assert_eq!((pair.rows, pair.columns, pair.frames.len()), (2, 1, 1));
    assert_eq!(pair.kind(&pair.links[0]), LinkKind::Internal);
    assert_eq!(galaxy.kind(&Link { ends: (DeviceId(0), DeviceId(31)), count: None }), LinkKind::Cable);
}

/// Both chips of a p300 are on PCIe. The driver does not publish which one is the first.
#[test]
fn chips_with_one_serial_are_one_board() {
    let mut snapshot = machine::galaxy();
    snapshot.devices.truncate(4);
    for (index, device) in snapshot.devices.iter_mut().enumerate() {
        device.board = Ok("p300c".into());
        device.serial = Ok(format!("0100046{}", index / 2));
    }
    let mesh = of(&snapshot, None);
    assert_eq!((mesh.rows, mesh.columns, mesh.frames.len()), (2, 2, 2));
    assert_eq!(mesh.origin, "2 x p300c, 2x2, second chip below the first");
    assert_eq!(mesh.tile(DeviceId(3)).map(|tile| (tile.row, tile.column)), Some((1, 1)));
}

/// Four boards of two chips in a ring, as UMD describes a T3000. Chips are at their coordinates, with links between neighbours and across.
#[test]
fn a_descriptor_wins() {
    let mut snapshot = machine::galaxy();
    snapshot.devices.truncate(8);
    let chip = |(number, (x, y)): (u32, (u16, u16))| ClusterChip {
        chip: number,
        arch: None,
        unique_id: None,
        device: None,
        bdf: None,
        board_id: None,
        board_type: None,
        location: None,
        place: Some(ClusterPlace { rack: 0, shelf: 0, y, x }),
    };
    let places = [(1, 0), (1, 1), (2, 0), (2, 1), (0, 0), (0, 1), (3, 0), (3, 1)];
    let mut cluster = Cluster { chips: (0..).zip(places).map(chip).collect(), links: vec![(0, 2, 2), (0, 1, 2), (4, 6, 1), (0, 99, 1)] };
    for (number, device) in (0..).zip(&mut snapshot.devices) {
        device.metal_id = Ok(number);
    }
    let mesh = of(&snapshot, Some(&cluster));
    assert_eq!((mesh.rows, mesh.columns, mesh.links.len()), (2, 4, 3));
    assert_eq!(mesh.tile(DeviceId(4)).map(|tile| (tile.row, tile.column)), Some((0, 0)));
    let near: Vec<bool> = mesh.links.iter().map(|link| mesh.neighbours(link).is_some()).collect();
    assert_eq!(near, [true, true, false]);
    // If two chips have the same position, or one has none, the product decides the positions. The links stay.
    cluster.chips[3].place = cluster.chips[2].place;
    assert_eq!(of(&snapshot, Some(&cluster)).origin, "boards by id");
    assert_eq!(of(&snapshot, Some(&cluster)).links.len(), 3);
    // Positions as far apart as the format allows.
    for (x, y) in [(u16::MAX, 0), (0, u16::MAX)] {
        cluster.chips[3].place = Some(ClusterPlace { rack: 0, shelf: 0, y, x });
        assert_eq!(of(&snapshot, Some(&cluster)).origin, "boards by id");
    }
}
