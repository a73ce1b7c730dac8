//! The seeds in `fuzz/seeds`.

use std::path::{Path, PathBuf};

use txweir_fuzzed::TARGETS;

/// Most files of a target, and most bytes of a file. The target of tc lines has a seed for each
/// kind.
const FILES_MAX: usize = 64;
const BYTES_MAX: usize = 4096;

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// Returns the seeds of a target, in the order of their names.
pub fn of(target: &str) -> Vec<(String, Vec<u8>)> {
    let dir = fuzz().join("seeds").join(target);
    let entries = std::fs::read_dir(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    let mut all: Vec<(String, Vec<u8>)> = entries
        .map(|entry| {
            let path = entry.expect("an entry").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            (name, std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display())))
        })
        .collect();
    all.sort();
    all
}

#[test]
fn each_target_has_few_and_short_seeds_and_its_file_for_libfuzzer() {
    let manifest = std::fs::read_to_string(fuzz().join("Cargo.toml")).expect("fuzz/Cargo.toml");
    for target in TARGETS {
        let seeds = of(target.name);
        assert!((10..=FILES_MAX).contains(&seeds.len()), "{}: {} seeds", target.name, seeds.len());
        for (name, bytes) in seeds {
            assert!(bytes.len() <= BYTES_MAX, "{}/{name}: {} bytes", target.name, bytes.len());
        }
        let file = format!("fuzz_targets/{}.rs", target.name);
        assert!(manifest.contains(&file), "fuzz/Cargo.toml: no {file}");
        let text = std::fs::read_to_string(fuzz().join(&file)).unwrap_or_else(|e| panic!("{file}: {e}"));
        assert!(text.contains(&format!("txweir_fuzzed::{}(data)", target.name)), "{file}");
    }
}
