//! Pictures of text made small: as few colours as are needed, a byte each. A browser writes three bytes for each point.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;

const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";
/// How many colours a picture keeps; others become the nearest of them.
const COLOURS: usize = 64;

type Colour = [u8; 3];

/// A picture, point by point.
struct Picture {
    width: usize,
    height: usize,
    points: Vec<Colour>,
}

/// The same picture in fewer colours.
pub(super) fn small(png: &[u8]) -> Vec<u8> {
    let picture = read(png);
    let mut counts: HashMap<Colour, usize> = HashMap::new();
    for point in &picture.points {
        *counts.entry(*point).or_default() += 1;
    }
    let mut palette: Vec<(Colour, usize)> = counts.into_iter().collect();
    // By colour where counts are equal, so that one picture is always written in the same way.
    palette.sort_by_key(|(colour, count)| (usize::MAX - count, *colour));
    let all: Vec<Colour> = palette.into_iter().map(|(colour, _)| colour).collect();
    let palette = &all[..all.len().min(COLOURS)];
    let nearest = |colour: &Colour| {
        let distance =
            |other: &Colour| -> u32 { colour.iter().zip(other).map(|(a, b)| u32::from(a.abs_diff(*b)).pow(2)).sum() };
        (0..palette.len()).min_by_key(|index| distance(&palette[*index])).unwrap()
    };
    let places: HashMap<Colour, u8> =
        all.iter().map(|colour| (*colour, u8::try_from(nearest(colour)).unwrap())).collect();
    let mut rows = Vec::new();
    for row in picture.points.chunks(picture.width) {
        rows.push(0);
        rows.extend(row.iter().map(|point| places[point]));
    }
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::best());
    packed.write_all(&rows).unwrap();
    let mut written = SIGNATURE.to_vec();
    let size = [picture.width, picture.height].map(|side| u32::try_from(side).unwrap().to_be_bytes()).concat();
    // Eight bits a point, which name a colour of the palette.
    put(&mut written, *b"IHDR", &[&size[..], &[8, 3, 0, 0, 0]].concat());
    put(&mut written, *b"PLTE", &palette.concat());
    put(&mut written, *b"IDAT", &packed.finish().unwrap());
    put(&mut written, *b"IEND", &[]);
    written
}

fn put(written: &mut Vec<u8>, kind: [u8; 4], bytes: &[u8]) {
    let mut sum = flate2::Crc::new();
    sum.update(&kind);
    sum.update(bytes);
    written.extend(u32::try_from(bytes.len()).unwrap().to_be_bytes());
    written.extend(kind);
    written.extend(bytes);
    written.extend(sum.sum().to_be_bytes());
}

/// Reads what a browser writes: eight bits for each of three or four parts of a colour, line by line.
fn read(png: &[u8]) -> Picture {
    let mut rest = png.strip_prefix(SIGNATURE).expect("it is a PNG");
    let (mut head, mut packed) = ([0; 13], Vec::new());
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let length = u32::from_be_bytes(*length) as usize;
        let (kind, bytes) = (&after[..4], &after[4..4 + length]);
        match kind {
            b"IHDR" => head.copy_from_slice(bytes),
            b"IDAT" => packed.extend_from_slice(bytes),
            _ => {}
        }
        rest = &after[8 + length..];
    }
    let side = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().unwrap()) as usize;
    let (width, height) = (side(0), side(4));
    let parts = match head[8..] {
        [8, 2, 0, 0, 0] => 3,
        [8, 6, 0, 0, 0] => 4,
        _ => panic!("a PNG of another kind: {head:?}"),
    };
    let mut rows = Vec::new();
    ZlibDecoder::new(&packed[..]).read_to_end(&mut rows).unwrap();
    let mut before = vec![0; width * parts];
    let mut points = Vec::with_capacity(width * height);
    for row in rows.chunks(1 + width * parts) {
        let mut line = row[1..].to_vec();
        unfilter(row[0], parts, &before, &mut line);
        points.extend(line.chunks(parts).map(|point| [point[0], point[1], point[2]]));
        before = line;
    }
    Picture { width, height, points }
}

/// Takes back what makes a line pack better (PNG, section 9).
fn unfilter(filter: u8, parts: usize, before: &[u8], line: &mut [u8]) {
    for at in 0..line.len() {
        line[at] = line[at].wrapping_add(predicted(filter, at.checked_sub(parts), &before[..=at], line));
    }
}

/// What a part of a point is expected to be, from the points before it: `left` is the place of the one beside it.
fn predicted(filter: u8, left: Option<usize>, before: &[u8], line: &[u8]) -> u8 {
    let up = before[before.len() - 1];
    let (left, corner) = left.map_or((0, 0), |left| (line[left], before[left]));
    match filter {
        0 => 0,
        1 => left,
        2 => up,
        3 => u8::try_from(u16::midpoint(left.into(), up.into())).unwrap(),
        4 => {
            let [a, b, c] = [left, up, corner].map(i16::from);
            let sum = a + b - c;
            let [to_a, to_b, to_c] = [a, b, c].map(|part| (sum - part).abs());
            match (to_a <= to_b && to_a <= to_c, to_b <= to_c) {
                (true, _) => left,
                (false, true) => up,
                (false, false) => corner,
            }
        }
        _ => panic!("unknown filter {filter}"),
    }
}

#[test]
fn what_is_read_is_what_was_written() {
    // The same points by each way of writing a line.
    let points: Vec<Colour> = (0..180_u8).map(|at| [at / 3, 7, 255 - at / 3]).collect();
    for filter in 0..=4 {
        let mut packed = ZlibEncoder::new(Vec::new(), Compression::fast());
        let mut before = vec![0; 90];
        for row in points.chunks(30) {
            let line = row.concat();
            packed.write_all(&[filter]).unwrap();
            let mut filtered = Vec::new();
            for at in 0..line.len() {
                filtered.push(line[at].wrapping_sub(predicted(filter, at.checked_sub(3), &before[..=at], &line)));
            }
            packed.write_all(&filtered).unwrap();
            before = line;
        }
        let mut png = SIGNATURE.to_vec();
        put(&mut png, *b"IHDR", &[0, 0, 0, 30, 0, 0, 0, 6, 8, 2, 0, 0, 0]);
        put(&mut png, *b"IDAT", &packed.finish().unwrap());
        put(&mut png, *b"IEND", &[]);
        let read = read(&png);
        assert_eq!((read.width, read.height), (30, 6));
        assert_eq!(read.points, points, "filter {filter}");
        assert!(small(&png).starts_with(SIGNATURE));
    }
}
