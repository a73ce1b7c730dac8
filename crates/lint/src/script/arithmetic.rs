//! `$((...))`: whole numbers, variables, `+ - * / %` and parentheses.

use super::variables::is_name;

/// Deepest nesting of parentheses.
const DEPTH: usize = 16;

/// Returns the value of an expression, if it is one; `variable` returns the values that are known.
pub(super) fn eval(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Option<i64> {
    let mut reader = Reader { rest: text.trim(), variable, depth: 0 };
    let value = reader.sum()?;
    reader.rest.is_empty().then_some(value)
}

/// Returns the names in an expression that gives a variable another value, as `A++` and `A=B` do;
/// none of one that only reads them.
pub(super) fn changed(text: &str) -> impl Iterator<Item = &str> {
    let compared = ["==", "!=", "<=", ">="].iter().fold(text.to_string(), |text, two| text.replace(two, ""));
    let gives = compared.contains('=') || text.contains("++") || text.contains("--");
    let names = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    names.filter(move |name| gives && is_name(name))
}

/// Returns a number as the shell reads it: `10`, `0x0a`, `012`.
fn number(text: &str) -> Option<i64> {
    let (text, negative) = text.strip_prefix('-').map_or((text, false), |rest| (rest, true));
    let (digits, base) = match (text.strip_prefix("0x").or(text.strip_prefix("0X")), text.strip_prefix('0')) {
        (Some(hex), _) => (hex, 16),
        (None, Some(octal)) if !octal.is_empty() => (octal, 8),
        _ => (text, 10),
    };
    let value = i64::from_str_radix(digits, base).ok()?;
    if negative { value.checked_neg() } else { Some(value) }
}

struct Reader<'a> {
    rest: &'a str,
    variable: &'a dyn Fn(&str) -> Option<String>,
    depth: usize,
}

impl Reader<'_> {
    fn take(&mut self, c: char) -> bool {
        let found = self.rest.strip_prefix(c);
        if let Some(rest) = found {
            self.rest = rest.trim_start();
        }
        found.is_some()
    }

    fn sum(&mut self) -> Option<i64> {
        let mut value = self.product()?;
        loop {
            if self.take('+') {
                value = value.checked_add(self.product()?)?;
            } else if self.take('-') {
                value = value.checked_sub(self.product()?)?;
            } else {
                return Some(value);
            }
        }
    }

    fn product(&mut self) -> Option<i64> {
        let mut value = self.atom()?;
        loop {
            if self.take('*') {
                value = value.checked_mul(self.atom()?)?;
            } else if self.take('/') {
                value = value.checked_div(self.atom()?)?;
            } else if self.take('%') {
                value = value.checked_rem(self.atom()?)?;
            } else {
                return Some(value);
            }
        }
    }

    fn atom(&mut self) -> Option<i64> {
        if self.take('(') {
            self.depth += 1;
            if self.depth > DEPTH {
                return None;
            }
            let value = self.sum()?;
            self.depth -= 1;
            return self.take(')').then_some(value);
        }
        if self.take('-') {
            self.depth += 1;
            return if self.depth > DEPTH { None } else { self.atom()?.checked_neg() };
        }
        let bare = self.rest.trim_start_matches(['$', '{']);
        let len = bare.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
        let word = &bare[..len];
        let value = match word.starts_with(|c: char| c.is_ascii_digit()) {
            // `$1`: an argument of the script.
            true if bare.len() < self.rest.len() => return None,
            true => number(word)?,
            false => number((self.variable)(word)?.trim())?,
        };
        self.rest = bare[len..].trim_start_matches('}').trim_start();
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn expressions() {
        let variable = |name: &str| (name == "A").then(|| "6".to_string());
        for (text, value) in [
            ("A*2", Some(12)),
            (" $A * (2 + ${A}) / 4 ", Some(12)),
            ("-3+10%4", Some(-1)),
            ("A/0", None),
            ("B", None),
            ("2 2", None),
            ("", None),
            ("9223372036854775807+1", None),
            ("$1 * 8", None),
            ("${1}", None),
            ("010 + 0x10", Some(24)),
            ("08", None),
        ] {
            assert_eq!(super::eval(text, &variable), value, "{text:?}");
        }
        assert_eq!(super::eval(&"(".repeat(10_000), &variable), None);
        let changed = |text| super::changed(text).collect::<Vec<_>>().join(" ");
        for (text, names) in [("A + B", ""), ("A <= B", ""), ("A++", "A"), ("A += B2", "A B2")] {
            assert_eq!(changed(text), names, "{text:?}");
        }
    }
}
