//! The lab's TCP against recordings of Linux's: packet by packet over a wire with given faults
//! ([`exact`]), and by sums and percentiles through real queueing disciplines ([`matrix`]). The
//! format is that of `spec/tcp/README.md`.

pub mod cases;
pub mod exact;
pub mod matrix;

use serde::Deserialize;

/// Content of a text of JSON lines, by its first line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Runs of the matrix.
    Matrix,
    /// Packet-exact cases.
    Exact,
    /// Something else.
    Other,
}

/// Returns the content of a text: runs of the matrix have a topology, packet-exact cases have acts.
pub fn content(text: &str) -> Content {
    #[derive(Deserialize)]
    struct Keys {
        topology: Option<serde::de::IgnoredAny>,
        acts: Option<serde::de::IgnoredAny>,
    }
    let first = text.lines().find(|l| !l.trim().is_empty()).unwrap_or("");
    match serde_json::from_str::<Keys>(first) {
        Ok(Keys { topology: Some(_), .. }) => Content::Matrix,
        Ok(Keys { acts: Some(_), .. }) => Content::Exact,
        _ => Content::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_what_its_first_line_is() {
        assert_eq!(content("\n{\"name\":\"a\",\"topology\":\"router\"}\n"), Content::Matrix);
        assert_eq!(content("{\"acts\":[]}"), Content::Exact);
        assert_eq!(content("{\"txweir-trace\":1}"), Content::Other);
        assert_eq!(content("no JSON"), Content::Other);
        assert_eq!(content(""), Content::Other);
    }
}
