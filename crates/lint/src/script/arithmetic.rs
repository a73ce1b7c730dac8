//! `$((...))`: whole numbers, variables, `+ - * / %` and parentheses.

/// Deepest nesting of parentheses.
const DEPTH: usize = 16;

/// Returns the value of an expression, if it is one; `variable` returns the values that are known.
pub(super) fn eval(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Option<i64> {
    let mut reader = Reader { rest: text.trim(), variable, depth: 0 };
    let value = reader.sum()?;
    reader.rest.is_empty().then_some(value)
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
        let number = match word.starts_with(|c: char| c.is_ascii_digit()) {
            true => word.parse().ok()?,
            false => (self.variable)(word)?.trim().parse().ok()?,
        };
        self.rest = bare[len..].trim_start_matches('}').trim_start();
        Some(number)
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
        ] {
            assert_eq!(super::eval(text, &variable), value, "{text:?}");
        }
        assert_eq!(super::eval(&"(".repeat(10_000), &variable), None);
    }
}
