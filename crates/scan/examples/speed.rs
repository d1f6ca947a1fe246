//! How long scanning takes: prints microseconds for a KiB with 100 values in every encoding and with 100 canaries, beside
//! those of copying and of comparing byte by byte, and how long building takes.
#![allow(clippy::print_stdout, clippy::cast_precision_loss, reason = "it is there to print")]

use std::time::{Duration, Instant};

use toolcrib_scan::{CanaryScanner, Encodings, Scanner, json};

const ROUNDS: u32 = 200;

fn main() {
    let paragraph = "{\"id\":1234,\"name\":\"A title of a page\",\"text\":\"Words that people write, in lines.\\nMore of them \
                     with https://example.com/a/b?c=d and numbers 3.14159, 2026-11-20T08:00:00Z.\"},";
    let text = format!("[{}null]", paragraph.repeat(1_000));
    for values in [0_u32, 100, 4_096] {
        let began = Moment::now();
        let mut builder = Scanner::builder().formats();
        let encodings = if values > 100 { Encodings::USUAL } else { Encodings::ALL };
        for number in 0..values {
            builder = builder.value(
                &number.to_string(),
                &format!("{:032x}", u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)),
                encodings,
            );
        }
        let scanner = builder.build();
        let built = began.elapsed();
        let began = Moment::now();
        let hits: usize = (0..ROUNDS).map(|_| json::scan(&scanner, &text).len()).sum();
        let kib = text.len() as f64 / 1024.0 * f64::from(ROUNDS);
        let micros = began.elapsed().as_secs_f64() * 1e6 / kib;
        println!("{values} values: {micros:.2} µs a KiB, {hits} hits, built in {built:?}");
    }
    canaries(&text);
}

/// A hundred canaries, in a text as above and in one with what a JSON text in it needs of escapes.
fn canaries(text: &str) {
    let token = |number: u32| {
        let hash = u128::from(number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        let letter = |at: u32| char::from(b"abcdefghijklmnopqrstuvwxyz234567"[(hash >> (5 * at) & 31) as usize]);
        (0..24).map(letter).collect::<String>()
    };
    let tokens: Vec<String> = (0..100).map(token).collect();
    let began = Moment::now();
    let scanner = CanaryScanner::new(&tokens);
    println!("100 canaries: built in {:?}", began.elapsed());
    let nested = format!("[\"{}\"]", text.replace('\\', "\\\\").replace('"', "\\\""));
    for (name, text) in [("100 canaries", text), ("100 canaries, JSON in JSON", &nested)] {
        let began = Moment::now();
        let hits: usize = (0..ROUNDS).map(|_| scanner.scan(std::hint::black_box(text)).len()).sum();
        report(name, text, began, hits);
    }
    let began = Moment::now();
    let copied: usize = (0..ROUNDS).map(|_| std::hint::black_box(text).to_owned().len()).sum();
    report("copying", text, began, copied);
    let began = Moment::now();
    let summed: usize = (0..ROUNDS)
        .map(|_| {
            std::hint::black_box(text)
                .bytes()
                .fold(0, |sum, byte| usize::wrapping_add(usize::wrapping_mul(sum, 31), usize::from(byte)))
                % 2
        })
        .sum();
    report("a hash byte by byte", text, began, summed);
}

fn report(name: &str, text: &str, began: Moment, count: usize) {
    let kib = text.len() as f64 / 1024.0 * f64::from(ROUNDS);
    let micros = began.elapsed().as_secs_f64() * 1e6 / kib;
    println!("{name}: {micros:.2} µs a KiB ({count})");
}

/// A moment in the time that this thread has had a processor, where Linux says it: other programs do not count.
#[derive(Clone, Copy)]
struct Moment {
    at: Instant,
    on_processor: Option<Duration>,
}

impl Moment {
    fn now() -> Self {
        let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
        let nanos = stat.as_deref().and_then(|text| text.split(' ').next()).and_then(|text| text.parse().ok());
        Self { at: Instant::now(), on_processor: nanos.map(Duration::from_nanos) }
    }

    fn elapsed(self) -> Duration {
        let now = Self::now();
        let on_processor = now.on_processor.zip(self.on_processor).map(|(now, began)| now - began);
        on_processor.unwrap_or(now.at - self.at)
    }
}
