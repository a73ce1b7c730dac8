//! Layers: within a crate no module names one above it.
//!
//! The modules at the root of a crate are its rooms. A crate may declare their order, the lowest
//! first (`[package.metadata.layers] order = [...]` in its manifest). A room then names only rooms
//! before it. In a crate without a declared order, no two rooms may depend on each other, directly
//! or through others.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// For each room the rooms that it names, each with one place of the name.
type Arrows = BTreeMap<String, BTreeMap<String, String>>;

/// Checks every crate and lists the violations.
pub fn check(root: &Path, found: &mut Vec<String>) -> Result<(), String> {
    let crates = root.join("crates");
    let entries = fs::read_dir(&crates).map_err(|e| format!("crates: {e}"))?;
    let mut dirs: Vec<PathBuf> =
        entries.flatten().map(|e| e.path()).filter(|p| p.join("src").is_dir()).collect();
    dirs.sort();
    for dir in dirs {
        let manifest =
            fs::read_to_string(dir.join("Cargo.toml")).map_err(|e| format!("{}: {e}", dir.display()))?;
        let name = dir.strip_prefix(root).unwrap_or(&dir).display().to_string();
        let arrows = arrows_of(&dir.join("src"), root);
        match declared(&manifest) {
            Some(order) => check_order(&name, &order, &arrows, found),
            None => check_cycles(&name, &arrows, found),
        }
    }
    Ok(())
}

/// Returns the order that a manifest declares.
fn declared(manifest: &str) -> Option<Vec<String>> {
    let table = manifest.split("[package.metadata.layers]").nth(1)?;
    let list = table.split("order = [").nth(1)?.split(']').next()?;
    Some(
        list.split(',')
            .map(|word| word.trim().trim_matches('"').to_owned())
            .filter(|w| !w.is_empty())
            .collect(),
    )
}

fn check_order(name: &str, order: &[String], arrows: &Arrows, found: &mut Vec<String>) {
    let place = |room: &str| order.iter().position(|o| o == room);
    for (at, room) in order.iter().enumerate() {
        if !arrows.contains_key(room) {
            found.push(format!(
                "{name}/Cargo.toml: [package.metadata.layers] lists `{room}`, which is no module"
            ));
        } else if place(room) != Some(at) {
            found.push(format!("{name}/Cargo.toml: [package.metadata.layers] lists `{room}` twice"));
        }
    }
    for (room, named) in arrows {
        let Some(at) = place(room) else {
            found.push(format!("{name}/Cargo.toml: [package.metadata.layers] does not list `{room}`"));
            continue;
        };
        for (other, line) in named {
            if place(other).is_some_and(|above| above > at) {
                found.push(format!("{line}: `{room}` names `{other}`, which is a layer above it"));
            }
        }
    }
}

fn check_cycles(name: &str, arrows: &Arrows, found: &mut Vec<String>) {
    for (room, named) in arrows {
        for (other, line) in named {
            // Each cycle is reported once for each arrow that leads back.
            if reaches(arrows, other, room) {
                found.push(format!("{line}: `{room}` names `{other}`, which depends on `{room}` ({name})"));
            }
        }
    }
}

fn reaches(arrows: &Arrows, from: &str, to: &str) -> bool {
    let (mut seen, mut next) = (BTreeSet::new(), vec![from.to_owned()]);
    while let Some(room) = next.pop() {
        if room == to {
            return true;
        }
        if seen.insert(room.clone()) {
            next.extend(arrows.get(&room).into_iter().flat_map(|named| named.keys().cloned()));
        }
    }
    false
}

/// Returns the arrows between the rooms of a crate.
fn arrows_of(src: &Path, root: &Path) -> Arrows {
    let mut files = Vec::new();
    collect(src, &mut Vec::new(), &mut files);
    let rooms: BTreeSet<String> = files.iter().filter_map(|(_, path)| path.first().cloned()).collect();
    let roots: Vec<PathBuf> = ["lib.rs", "main.rs"].iter().map(|f| src.join(f)).collect();
    let at_root: BTreeMap<String, String> = roots
        .iter()
        .filter_map(|f| fs::read_to_string(f).ok())
        .flat_map(|text| re_exports(&text, &rooms))
        .collect();
    let mut arrows: Arrows = rooms.iter().map(|room| (room.clone(), BTreeMap::new())).collect();
    for (file, path) in files {
        let (Some(room), Ok(text)) = (path.first(), fs::read_to_string(&file)) else { continue };
        let shown = file.strip_prefix(root).unwrap_or(&file).display().to_string();
        for (line, name) in named(&text, &path) {
            let other = at_root.get(&name).unwrap_or(&name);
            if other != room && rooms.contains(other) {
                let at = format!("{shown}:{line}");
                arrows.entry(room.clone()).or_default().entry(other.clone()).or_insert(at);
            }
        }
    }
    arrows
}

/// Collects every source below a folder with its module path; tests have none.
fn collect(dir: &Path, path: &mut Vec<String>, files: &mut Vec<(PathBuf, Vec<String>)>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let file = entry.path();
        let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if file.is_dir() {
            if stem != "tests" && stem != "bin" {
                path.push(stem);
                collect(&file, path, files);
                path.pop();
            }
        } else if file.extension().is_some_and(|e| e == "rs") && stem != "tests" {
            let mut own = path.clone();
            let is_root = own.is_empty() && (stem == "lib" || stem == "main");
            if stem != "mod" && !is_root {
                own.push(stem);
            }
            files.push((file, own));
        }
    }
}

/// Returns the names that the root of a crate re-exports, with the room of each.
fn re_exports(text: &str, rooms: &BTreeSet<String>) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for statement in text.split("pub use ").skip(1) {
        let statement = statement.split(';').next().unwrap_or("");
        let room = statement.split("::").next().unwrap_or("").trim().to_owned();
        if rooms.contains(&room) {
            let names = statement.rsplit("::").next().unwrap_or("");
            let words = names.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|w| !w.is_empty());
            all.extend(words.map(|word| (word.to_owned(), room.clone())));
        }
    }
    all
}

/// Returns the names that a source uses at the root of its crate, each with the number of its line.
/// Comments and unit tests do not count.
fn named(text: &str, path: &[String]) -> Vec<(usize, String)> {
    let code = &text[..tests_at(text)];
    let mut all = Vec::new();
    let mut group: Option<usize> = None;
    for (i, line) in code.lines().enumerate() {
        let line = line.split("//").next().unwrap_or("");
        if let Some(depth) = group {
            group = in_group(line, depth, &mut |name| all.push((i + 1, name)));
            continue;
        }
        for rest in at_root(line, path) {
            // A macro at the root belongs to no room; a group may continue over lines.
            match rest.strip_prefix('{') {
                Some(inner) => group = in_group(inner, 1, &mut |name| all.push((i + 1, name))),
                None => all.extend(word(rest).map(|name| (i + 1, name))),
            }
        }
    }
    all
}

/// Gives `f` the first names of the items of a `use` group, up to the end of the line. Returns the
/// depth at which the next line begins.
fn in_group(line: &str, mut depth: usize, f: &mut dyn FnMut(String)) -> Option<usize> {
    let mut begins = true;
    for (at, c) in line.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' => begins = true,
            _ if c.is_alphanumeric() && begins => {
                begins = false;
                if depth == 1 {
                    word(&line[at..]).into_iter().for_each(&mut *f);
                }
            }
            _ => {}
        }
        if depth == 0 {
            return None;
        }
    }
    Some(depth)
}

/// Returns the place where the unit tests at the end of a source begin: at `#[cfg(test)]` or
/// `#[cfg(all(test, ...))]` before an inline module.
fn tests_at(text: &str) -> usize {
    let is_tests = |from: usize| {
        let (attribute, next) = text[from..].split_once('\n').unwrap_or_default();
        let inline = next.lines().next().is_some_and(|line| line.starts_with("mod ") && line.ends_with('{'));
        inline && attribute.split(|c: char| !c.is_alphanumeric()).any(|word| word == "test")
    };
    text.match_indices("#[cfg(").map(|(at, _)| at).find(|at| is_tests(*at)).unwrap_or(text.len())
}

/// Returns the text after each path of a line to the root of the crate: `crate::`, or `super::`
/// repeated for the depth of the module.
fn at_root<'a>(line: &'a str, path: &[String]) -> Vec<&'a str> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let begins = |at: usize| !line[..at].ends_with(is_word);
    let mut all: Vec<&str> = line
        .match_indices("crate::")
        .filter(|(at, _)| begins(*at))
        .map(|(at, up)| &line[at + up.len()..])
        .collect();
    for (at, _) in line.match_indices("super::").filter(|(at, _)| begins(*at) && !line[..*at].ends_with("::"))
    {
        let mut rest = &line[at..];
        let mut ups = 0;
        while let Some(above) = rest.strip_prefix("super::") {
            (rest, ups) = (above, ups + 1);
        }
        if ups == path.len() {
            all.push(rest);
        }
    }
    all
}

/// Returns the name that a text begins with; none for a macro's.
fn word(text: &str) -> Option<String> {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    (end > 0 && !text[end..].starts_with('!')).then(|| text[..end].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrows(list: &[(&str, &str)]) -> Arrows {
        let mut all = Arrows::new();
        for (from, to) in list {
            all.entry((*to).into()).or_default();
            all.entry((*from).into()).or_default().insert((*to).into(), format!("{from}.rs:1"));
        }
        all
    }

    #[test]
    fn a_layer_names_only_those_below_it() {
        let order =
            declared("[package.metadata.layers]\norder = [\"base\", \"packet\", \"path\"]\n").unwrap();
        let mut found = Vec::new();
        check_order("c", &order, &arrows(&[("path", "base"), ("packet", "base")]), &mut found);
        assert!(found.is_empty(), "{found:?}");
        check_order("c", &order, &arrows(&[("base", "path"), ("new", "base")]), &mut found);
        assert!(found[0].contains("lists `packet`, which is no module"), "{found:?}");
        assert!(found[1].contains("base.rs:1: `base` names `path`"), "{found:?}");
        assert!(found[2].contains("does not list `new`"), "{found:?}");
        assert_eq!(found.len(), 3, "{found:?}");
        found.clear();
        check_order("c", &["a".into(), "b".into(), "a".into()], &arrows(&[("b", "a")]), &mut found);
        assert_eq!(found, ["c/Cargo.toml: [package.metadata.layers] lists `a` twice"]);
    }

    #[test]
    fn cycles_are_found_through_others() {
        let mut found = Vec::new();
        check_cycles("c", &arrows(&[("a", "b"), ("b", "c")]), &mut found);
        assert!(found.is_empty(), "{found:?}");
        check_cycles("c", &arrows(&[("a", "b"), ("b", "c"), ("c", "a")]), &mut found);
        assert_eq!(found.len(), 3, "{found:?}");
    }

    #[test]
    fn names_are_read_from_code() {
        let text = "use crate::a::X;\nuse crate::{b::{c, d}, e,\n    f::g};\n// crate::h\nfn x() { crate::i::j(crate::k!()) }\n\
                    use super::l::M;\n#[cfg(test)]\nmod tests {\n    use crate::n;\n}\n";
        let names: Vec<String> = named(text, &["room".into()]).into_iter().map(|(_, name)| name).collect();
        assert_eq!(names, ["a", "b", "e", "f", "i", "l"]);
        let deep = named("use super::l::M;\n", &["room".into(), "deep".into()]);
        assert!(deep.is_empty());
    }

    #[test]
    fn super_leads_to_the_root_from_its_depth() {
        let names = |text: &str, path: &[&str]| -> Vec<String> {
            let path: Vec<String> = path.iter().map(|part| (*part).to_string()).collect();
            named(text, &path).into_iter().map(|(_, name)| name).collect()
        };
        assert_eq!(
            names("use super::{a::X,\n    b};\nfn f() { super::c::g(super::d::h()) }\n", &["room"]),
            ["a", "b", "c", "d"]
        );
        assert_eq!(names("use super::super::a::X;\nuse super::b;\n", &["room", "deep"]), ["a"]);
        assert!(names("use my_crate::a;\nuse other::super::a;\n", &["room"]).is_empty());
    }

    #[test]
    fn unit_tests_do_not_count() {
        let names = |cfg: &str| {
            named(&format!("use crate::a;\n{cfg}\nmod x {{\n    use crate::b;\n}}\n"), &["room".into()])
        };
        assert_eq!(names("#[cfg(test)]").len(), 1);
        assert_eq!(names("#[cfg(all(test, not(loom)))]").len(), 1);
        assert_eq!(names("#[cfg(not(loom))]").len(), 2);
        // A module in a file of its own hides nothing of the code after it.
        assert_eq!(named("#[cfg(test)]\nmod tests;\nuse crate::a;\n", &["room".into()]).len(), 1);
    }
}
