//! The test programs that cargo has built.

use std::path::PathBuf;

/// A test program, by a message of cargo (`--message-format=json`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestProgram {
    /// The folder of its package, in which cargo would run it.
    pub folder: PathBuf,
    /// The name of its target.
    pub target: String,
    /// True for a file below `tests`, false for the tests within a library or a program.
    pub beside: bool,
    pub file: PathBuf,
}

impl TestProgram {
    /// Reads every test program from the messages of a build, in their order.
    pub fn all(messages: &str) -> Vec<Self> {
        messages.lines().filter_map(Self::read).collect()
    }

    /// Reads one message; `None` if it is of no test program.
    fn read(line: &str) -> Option<Self> {
        let value = |key: &str| line.split(&format!("\"{key}\":\"")).nth(1)?.split('"').next();
        if !line.contains("\"test\":true},\"features\"") {
            return None;
        }
        let manifest = PathBuf::from(value("manifest_path")?);
        let (_, target) = line.split_once("\"target\":{")?;
        Some(Self {
            folder: manifest.parent()?.into(),
            target: target.split("\"name\":\"").nth(1)?.split('"').next()?.into(),
            beside: target.starts_with("\"kind\":[\"test\"]"),
            file: value("executable")?.into(),
        })
    }

    /// Returns the name of the folder of its package.
    pub fn package(&self) -> String {
        self.folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_programs_are_known_from_other_artifacts() {
        let line = |kind: &str, test: bool, file: &str| {
            format!(
                "{{\"reason\":\"compiler-artifact\",\"manifest_path\":\"/a/crates/core/Cargo.toml\",\
                 \"target\":{{\"kind\":[\"{kind}\"],\"crate_types\":[\"lib\"],\"name\":\"it\",\"test\":true}},\
                 \"profile\":{{\"opt_level\":\"2\",\"test\":{test}}},\"features\":[],\"executable\":{file}}}\n"
            )
        };
        let messages = line("lib", true, "\"/b/core-1\"")
            + &line("lib", false, "null")
            + &line("example", false, "\"/b/example\"")
            + "{\"reason\":\"build-finished\"}\n"
            + &line("test", true, "\"/b/it-1\"");
        let program = |beside, file: &str| TestProgram {
            folder: "/a/crates/core".into(),
            target: "it".into(),
            beside,
            file: file.into(),
        };
        let all = TestProgram::all(&messages);
        assert_eq!(all, [program(false, "/b/core-1"), program(true, "/b/it-1")]);
        assert_eq!(all[0].package(), "core");
    }
}
