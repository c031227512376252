//! Pictures for people, as SVG: the areas of an aggregate by how full they are, and where the parts
//! of a LUN lie.
//!
//! ```text
//! space map:  a line of cells for each device       layout:  device ▲    ▬ part: the longer its
//!             ▓▓▓▒▒░░░····                                          │  ▬    runs, the darker
//!             ▓▓▒▒▒░······                                          └────────▶ offset in the LUN
//! ```
//!
//! Colours are steps of one scale, so that they can be told apart without colour, too.

use std::fmt::Write as _;

use crate::{LunLayout, MappedDevice, Size, SpaceMap};

/// Width of the cells of a device, or of a LUN.
const WIDTH: u64 = 1024;
/// Space around what is drawn.
const MARGIN: u64 = 16;
/// Height of a line of text.
const LINE: u64 = 20;
/// Height of a device.
const ROW: u64 = 24;
/// From light to dark: how much is in use, or how long runs are.
const SCALE: [&str; 6] = [
    "#eef3f7", "#c9dcea", "#97bfd9", "#5c9bc4", "#2c74a6", "#0f4c75",
];
/// What cannot be read.
const UNKNOWN: &str = "#c0392b";

/// Returns the space map as a picture.
#[must_use]
pub fn of_space(map: &SpaceMap) -> String {
    let height = top_of(map.devices.len() as u64, ROW);
    let mut text = begin(height, &format!("Aggregate {}", map.aggregate));
    label(&mut text, LINE, &title(map));
    for (device, number) in map.devices.iter().zip(0..) {
        let top = top_of(number, ROW);
        label(&mut text, top + LINE - 6, &device.path);
        cells(&mut text, top + LINE, device);
    }
    text += "</svg>\n";
    text
}

/// Where the device with this number begins, with a line of text above it, if each has this height.
fn top_of(number: u64, height: u64) -> u64 {
    LINE * 2 + number * (LINE + height + 8)
}

/// Where the part `at` of `count` begins, and how wide it is.
fn across(at: usize, count: usize) -> (u64, u64) {
    let (at, count) = (at as u64, count as u64);
    let (from, to) = (at * WIDTH / count, (at + 1) * WIDTH / count);
    (MARGIN + from, (to - from).max(1))
}

fn title(map: &SpaceMap) -> String {
    format!(
        "aggregate {}: {} in use, {} free; dark is full, light is empty",
        map.aggregate,
        Size(map.used_bytes),
        Size(map.free_bytes)
    )
}

fn cells(text: &mut String, top: u64, device: &MappedDevice) {
    for (at, cell) in device.cells.iter().enumerate() {
        let (left, width) = across(at, device.cells.len());
        let (colour, said) = match cell {
            Some(percent) => (
                shade(u64::from(*percent), 100),
                format!("{percent} % in use"),
            ),
            None => (UNKNOWN, "cannot be read".to_owned()),
        };
        let offset = Size(at as u64 * device.cell_bytes);
        let place = (left, top, width, ROW);
        rectangle(text, place, colour, &format!("from {offset}: {said}"));
    }
}

/// Returns where the parts of a LUN lie, as a picture; of an estimate only.
#[must_use]
pub fn of_layout(layout: &LunLayout) -> String {
    /// Height of a device.
    const DEVICE: u64 = 160;
    let mut devices: Vec<&str> = Vec::new();
    for path in layout.parts.iter().filter_map(|it| it.device.as_deref()) {
        if !devices.contains(&path) {
            devices.push(path);
        }
    }
    let name = layout.lun.as_deref().unwrap_or_default();
    let height = top_of(devices.len() as u64, DEVICE);
    let mut text = begin(height, &format!("LUN {name}"));
    let said = format!(
        "LUN {name}: {} in runs of {}; across: offset in the LUN, down: place on the device; dark \
        is in order, light is scattered",
        Size(layout.passed_bytes),
        Size(layout.run_bytes_before)
    );
    label(&mut text, LINE, &said);
    let offsets = layout.parts.iter().filter_map(|it| it.device_offset_bytes);
    let farthest = offsets.max().unwrap_or(0).max(1);
    for (device, number) in devices.iter().zip(0..) {
        let top = top_of(number, DEVICE);
        label(&mut text, top + LINE - 6, device);
        let frame = (MARGIN, top + LINE, WIDTH, DEVICE);
        rectangle(&mut text, frame, "#f7f7f7", device);
        let parts = layout.parts.iter().enumerate();
        for (at, part) in parts.filter(|(_, part)| part.device.as_deref() == Some(*device)) {
            let (left, width) = across(at, layout.parts.len());
            let offset = part.device_offset_bytes.unwrap_or(0);
            let down = u128::from(offset) * u128::from(DEVICE - 6) / u128::from(farthest);
            let down = u64::try_from(down).unwrap_or(0);
            let run = part.bytes.checked_div(part.run_count).unwrap_or(0);
            let place = (left, top + LINE + down, width, 6);
            let said = format!(
                "from {} of the LUN: {} in runs of {}",
                Size(at as u64 * layout.part_bytes),
                Size(part.bytes),
                Size(run)
            );
            rectangle(&mut text, place, shade(scale_of(run), SCALE_MAX), &said);
        }
    }
    text += "</svg>\n";
    text
}

/// The longest run that the scale tells from longer ones: 2⁸ blocks.
const SCALE_MAX: u64 = 8;

/// Position of a length on a scale of doublings: 0 for one block, at most 8.
#[must_use]
pub fn scale_of(run_bytes: u64) -> u64 {
    let doublings = (run_bytes / 4096).checked_ilog2().unwrap_or(0);
    u64::from(doublings).min(SCALE_MAX)
}

fn shade(part: u64, whole: u64) -> &'static str {
    let steps = SCALE.len() as u64 - 1;
    let step = (part.min(whole) * steps).div_ceil(whole);
    SCALE[usize::try_from(step).expect("a few")]
}

fn begin(height: u64, title: &str) -> String {
    let width = WIDTH + 2 * MARGIN;
    let title = escaped(title);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
        font-family=\"sans-serif\" font-size=\"13\"><title>{title}</title>\n\
        <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
    )
}

fn label(text: &mut String, base: u64, said: &str) {
    let said = escaped(said);
    let _ = writeln!(
        text,
        "<text x=\"{MARGIN}\" y=\"{base}\" fill=\"#222222\">{said}</text>"
    );
}

/// Draws a rectangle that says what it is if one points at it.
fn rectangle(
    text: &mut String,
    (x, y, width, height): (u64, u64, u64, u64),
    colour: &str,
    said: &str,
) {
    let said = escaped(said);
    let _ = writeln!(
        text,
        "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{colour}\">\
        <title>{said}</title></rect>"
    );
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LayoutPart;

    #[test]
    fn a_space_map_has_a_rectangle_for_each_cell() {
        let map = SpaceMap {
            aggregate: "pool".to_owned(),
            devices: vec![MappedDevice {
                path: "/d/<0>".to_owned(),
                cell_bytes: 1 << 30,
                cells: vec![Some(0), Some(1), Some(100), None],
            }],
            ..SpaceMap::default()
        };
        let picture = of_space(&map);
        // One of them is the background.
        assert_eq!(picture.matches("<rect").count(), 1 + 4);
        for colour in [SCALE[0], SCALE[1], SCALE[5], UNKNOWN] {
            assert_eq!(picture.matches(colour).count(), 1, "{colour}");
        }
        assert!(picture.contains("/d/&lt;0&gt;"), "paths are text");
        assert!(picture.contains("from 2.0 GiB: 100 % in use"));
    }

    #[test]
    fn a_layout_has_a_rectangle_for_each_part_at_its_place() {
        let part = |device: Option<&str>, offset, run_count| LayoutPart {
            bytes: 1 << 20,
            run_count,
            device: device.map(str::to_owned),
            device_offset_bytes: offset,
        };
        let layout = LunLayout {
            lun: Some("vol/db".to_owned()),
            part_bytes: 1 << 20,
            parts: vec![
                part(Some("/d/0"), Some(0), 1),
                part(None, None, 0),
                part(Some("/d/1"), Some(1 << 30), 256),
            ],
            ..LunLayout::default()
        };
        let picture = of_layout(&layout);
        assert_eq!(picture.matches("<rect").count(), 1 + 2 + 2);
        assert!(picture.contains("1.0 MiB in runs of 1.0 MiB"));
        assert!(picture.contains("1.0 MiB in runs of 4.0 KiB"));
        assert_eq!(picture.matches(SCALE[5]).count(), 1, "in order");
    }
}
