//! How long scanning takes: prints microseconds for a KiB with 100 values in every encoding, and how long building takes.
#![allow(clippy::print_stdout, clippy::cast_precision_loss, reason = "it is there to print")]

use std::time::Instant;

use toolcrib_scan::{Encodings, Scanner, json};

const ROUNDS: u32 = 200;

fn main() {
    let paragraph = "{\"id\":1234,\"name\":\"A title of a page\",\"text\":\"Words that people write, in lines.\\nMore of them \
                     with https://example.com/a/b?c=d and numbers 3.14159, 2026-11-20T08:00:00Z.\"},";
    let text = format!("[{}null]", paragraph.repeat(1_000));
    for values in [0_u32, 100, 4_096] {
        let began = Instant::now();
        let mut builder = Scanner::builder().formats();
        let encodings = if values > 100 { Encodings::USUAL } else { Encodings::ALL };
        for number in 0..values {
            builder = builder.value(
                &number.to_string(),
                &format!("{:032x}", u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)),
                encodings,
            );
        }
        let scanner = builder.build().expect("few enough");
        let built = began.elapsed();
        let began = Instant::now();
        let hits: usize = (0..ROUNDS).map(|_| json::scan(&scanner, &text).len()).sum();
        let kib = text.len() as f64 / 1024.0 * f64::from(ROUNDS);
        let micros = began.elapsed().as_secs_f64() * 1e6 / kib;
        println!("{values} values: {micros:.2} µs a KiB, {hits} hits, built in {built:?}");
    }
}
