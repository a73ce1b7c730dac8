//! Fills the tables of `docs/qdisc/*.md` from the declarations in the code.

use std::fs;

/// Writes the tables, or with `check` fails if one is out of date.
pub fn run(check: bool) -> Result<(), String> {
    let dir = crate::root().join("docs/qdisc");
    let mut stale = Vec::new();
    for entry in fs::read_dir(&dir).map_err(|e| format!("docs/qdisc: {e}"))? {
        let path = entry.map_err(|e| format!("docs/qdisc: {e}"))?.path();
        let Some(kind) = path.file_stem().and_then(|s| s.to_str()).filter(|s| *s != "README") else {
            continue;
        };
        let old = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let new = fill(&old, &tables(kind)?).map_err(|e| format!("{}: {e}", path.display()))?;
        if new != old {
            stale.push(kind.to_string());
            if !check {
                fs::write(&path, new).map_err(|e| format!("{}: {e}", path.display()))?;
            }
        }
    }
    match stale.as_slice() {
        [] => Ok(()),
        _ if !check => Ok(()),
        kinds => Err(format!("tables out of date, run `cargo xtask gen`: {}", kinds.join(", "))),
    }
}

/// Returns the generated text of a kind: its sections, each headed by a marker.
fn tables(kind: &str) -> Result<String, String> {
    let out = crate::cargo()
        .args(["run", "--quiet", "--locked", "--package", "txweir-cli", "--", "kinds", "--markdown", kind])
        .current_dir(crate::root())
        .output()
        .map_err(|e| format!("cargo: {e}"))?;
    if !out.status.success() {
        return Err(format!("{kind}: {}", String::from_utf8_lossy(&out.stderr)));
    }
    String::from_utf8(out.stdout).map_err(|e| format!("{kind}: {e}"))
}

/// Replaces the text between each opening marker of `generated` and `<!-- end -->`.
fn fill(page: &str, generated: &str) -> Result<String, String> {
    let mut page = page.to_string();
    for section in generated.split("<!-- generated: ").skip(1) {
        let (name, body) = section.split_once(" -->").ok_or("a marker without end")?;
        let body = body.split("<!-- end -->").next().unwrap_or("").trim();
        let open = format!("<!-- generated: {name} -->");
        let start = page.find(&open).ok_or_else(|| format!("no line {open}"))? + open.len();
        let len = page[start..].find("<!-- end -->").ok_or_else(|| format!("no end after {open}"))?;
        page.replace_range(start..start + len, &format!("\n{body}\n"));
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    #[test]
    fn fills_between_markers_only() {
        let page = "a\n<!-- generated: parameters -->\nold\n<!-- end -->\nb\n";
        let generated = "<!-- generated: parameters -->\n| new |\n<!-- end -->\n";
        let want = "a\n<!-- generated: parameters -->\n| new |\n<!-- end -->\nb\n";
        assert_eq!(super::fill(page, generated).as_deref(), Ok(want));
        assert!(super::fill("nothing", generated).is_err());
    }
}
