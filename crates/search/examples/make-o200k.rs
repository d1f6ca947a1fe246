//! Writes `assets/o200k.bin`, the vocabulary that `tokens` counts with, from the one that `tiktoken-rs` carries:
//! `cargo run -p toolcrib-search --example make-o200k`. A test compares the file with its source.

use std::path::Path;

/// How many tokens the vocabulary has, special ones aside.
const TOKENS: u32 = 199_998;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tokenizer = tiktoken_rs::o200k_base_singleton();
    let mut file = Vec::new();
    for rank in 0..TOKENS {
        let token = tokenizer.decode_bytes(&[rank])?;
        file.push(u8::try_from(token.len())?);
        file.extend(token);
    }
    std::fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/o200k.bin"), file)?;
    Ok(())
}
