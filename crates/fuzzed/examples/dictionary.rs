//! Prints the dictionary of the fuzz targets in libFuzzer's form: a quoted word a line.

fn main() {
    for word in txweir_fuzzed::dictionary::words() {
        println!("{word:?}");
    }
}
