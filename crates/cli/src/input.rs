//! Texts from files and from stdin, of a bounded size.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Most bytes of a text: a policy of some two hundred thousand tc lines. A longer one is a mistake,
/// such as a device without an end.
pub const TEXT_MAX: u64 = 16 << 20;

/// Returns the name of a file and its text. `-` is stdin.
///
/// # Errors
/// One line that names the file: it cannot be read, is longer than [`TEXT_MAX`], or is no UTF-8.
pub fn text(path: &Path) -> Result<(String, String), String> {
    let (name, text) = match path.to_str() {
        Some("-") => ("<stdin>".to_owned(), bounded(io::stdin().lock(), TEXT_MAX)),
        _ => (path.display().to_string(), file(path)),
    };
    Ok((name.clone(), text.map_err(|e| format!("{name}: {e}"))?))
}

/// Returns the text of a file.
///
/// # Errors
/// As [`text`], without the name.
pub fn file(path: &Path) -> io::Result<String> {
    bounded(File::open(path)?, TEXT_MAX)
}

fn bounded(from: impl Read, most: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    from.take(most + 1).read_to_end(&mut bytes)?;
    let wrong = |said: String| io::Error::new(io::ErrorKind::InvalidData, said);
    if bytes.len() as u64 > most {
        return Err(wrong(format!("expected at most {most} bytes, given more")));
    }
    String::from_utf8(bytes).map_err(|e| wrong(format!("expected UTF-8: {}", e.utf8_error())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_a_bound_and_is_utf_8() {
        assert_eq!(bounded(&b"abcd"[..], 4).expect("it fits"), "abcd");
        assert_eq!(
            bounded(io::repeat(0), 4).unwrap_err().to_string(),
            "expected at most 4 bytes, given more"
        );
        let said = bounded(&b"a\xff"[..], 4).unwrap_err().to_string();
        assert_eq!(said, "expected UTF-8: invalid utf-8 sequence of 1 bytes from index 1");
        let said = text(Path::new("/dev/zero")).unwrap_err();
        assert_eq!(said, "/dev/zero: expected at most 16777216 bytes, given more");
    }
}
