//! JSON of tc, read with everything that a configuration needs: members in their order, also those
//! of one name (u32 prints each of its matches as `match`), and the digits of numbers as they are.
//! A text may have more behind the value.

/// Most levels of lists and objects: those of a filter's action in a dump take eight.
const DEPTH_MAX: usize = 32;
/// Most values of a text, which bounds the memory to some 100 MB.
pub(super) const VALUES_MAX: usize = 1_000_000;

/// Most members of an object: a filter of u32 has two for each of its at most 128 matches.
const MEMBERS_MAX: usize = 512;

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    /// Its digits.
    Number(String),
    Text(String),
    List(Vec<Value>),
    Object(Vec<(String, Value)>),
}

impl Value {
    /// Returns it as a message shows it: words whole, lists and objects by their brackets.
    pub(super) fn said(&self) -> String {
        match self {
            Self::Null => "null".into(),
            Self::Bool(on) => on.to_string(),
            Self::Number(digits) => digits.clone(),
            Self::Text(text) => format!("\"{text}\""),
            Self::List(_) => "a list".into(),
            Self::Object(_) => "an object".into(),
        }
    }
}

/// A reader of the values of a text.
pub(super) struct Reader<'a> {
    text: &'a str,
    at: usize,
    values: usize,
}

/// A mistake, and its place in the text.
pub(super) struct Wrong {
    pub(super) at: usize,
    pub(super) message: String,
}

type Read<T> = Result<T, Wrong>;

impl<'a> Reader<'a> {
    /// Returns a reader at the start of a text.
    pub(super) const fn new(text: &'a str) -> Self {
        Self { text, at: 0, values: 0 }
    }
    /// Passes blanks and the ends of lines, and returns the rest.
    pub(super) fn rest(&mut self) -> &'a str {
        let rest = &self.text[self.at..];
        let rest = rest.trim_start_matches([' ', '\t', '\r', '\n']);
        self.at = self.text.len() - rest.len();
        rest
    }
    /// Returns the present place.
    pub(super) const fn at(&self) -> usize {
        self.at
    }
    /// Takes the rest of the present line.
    pub(super) fn line(&mut self) -> &'a str {
        let rest = &self.text[self.at..];
        let line = rest.split('\n').next().unwrap_or(rest);
        self.at += line.len();
        line
    }
    /// Reads the value that begins here.
    pub(super) fn value(&mut self) -> Read<Value> {
        self.nested(0)
    }

    fn nested(&mut self, depth: usize) -> Read<Value> {
        self.values += 1;
        if self.values > VALUES_MAX {
            return Err(self.wrong(format!("expected at most {VALUES_MAX} values, given more")));
        }
        if depth > DEPTH_MAX {
            return Err(self.wrong(format!("expected at most {DEPTH_MAX} levels, given more")));
        }
        match self.rest().bytes().next() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.list(depth),
            Some(b'"') => self.text().map(Value::Text),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => {
                let words =
                    [("null", Value::Null), ("true", Value::Bool(true)), ("false", Value::Bool(false))];
                for (word, value) in words {
                    if self.eat(word) {
                        return Ok(value);
                    }
                }
                Err(self.expected("a value of JSON"))
            }
        }
    }

    fn object(&mut self, depth: usize) -> Read<Value> {
        let mut members = Vec::new();
        self.at += 1;
        if self.eat("}") {
            return Ok(Value::Object(members));
        }
        // Bound: each turn takes a byte of the text, and `values` counts the members.
        loop {
            if !self.rest().starts_with('"') {
                return Err(self.expected("the name of a member in quotes"));
            }
            let key = self.text()?;
            if !self.eat(":") {
                return Err(self.expected("\":\""));
            }
            members.push((key, self.nested(depth + 1)?));
            if members.len() > MEMBERS_MAX {
                return Err(self.wrong(format!("expected at most {MEMBERS_MAX} members, given more")));
            }
            if self.eat("}") {
                return Ok(Value::Object(members));
            }
            if !self.eat(",") {
                return Err(self.expected("\",\" or \"}\""));
            }
        }
    }

    fn list(&mut self, depth: usize) -> Read<Value> {
        let mut items = Vec::new();
        self.at += 1;
        if self.eat("]") {
            return Ok(Value::List(items));
        }
        // Bound: each turn takes a byte of the text, and `values` counts the items.
        loop {
            items.push(self.nested(depth + 1)?);
            if self.eat("]") {
                return Ok(Value::List(items));
            }
            if !self.eat(",") {
                return Err(self.expected("\",\" or \"]\""));
            }
        }
    }

    /// Takes a number (RFC 8259 section 6).
    fn number(&mut self) -> Read<Value> {
        let rest = &self.text[self.at..];
        let end = rest.find(|c: char| !matches!(c, '0'..='9' | '-' | '+' | '.' | 'e' | 'E'));
        let digits = &rest[..end.unwrap_or(rest.len())];
        if digits.parse::<f64>().is_err() || digits.len() > 64 {
            return Err(self.expected("a number"));
        }
        self.at += digits.len();
        Ok(Value::Number(digits.into()))
    }

    /// Takes a text in quotes (RFC 8259 section 7).
    fn text(&mut self) -> Read<String> {
        self.at += 1;
        let mut out = String::new();
        let mut chars = self.text[self.at..].char_indices();
        // Bound: the characters of the text.
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.at += at + 1;
                    return Ok(out);
                }
                '\\' => match chars.next().map(|(_, c)| c) {
                    Some('n') => out.push('\n'),
                    Some('t') => out.push('\t'),
                    Some('r') => out.push('\r'),
                    Some('b') => out.push('\u{8}'),
                    Some('f') => out.push('\u{c}'),
                    Some(c @ ('"' | '\\' | '/')) => out.push(c),
                    Some('u') => {
                        let digits: String = chars.by_ref().take(4).map(|(_, c)| c).collect();
                        // Words of tc need no surrogates: a half of a pair is no character.
                        let known = u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32);
                        out.push(known.unwrap_or(char::REPLACEMENT_CHARACTER));
                    }
                    _ => {
                        self.at += at;
                        return Err(self.expected("an escape of JSON"));
                    }
                },
                c if c < ' ' => {
                    self.at += at;
                    return Err(self.wrong("a text has the end of a line in it".into()));
                }
                c => out.push(c),
            }
        }
        Err(self.wrong("a text has no closing quote".into()))
    }

    /// Takes a word if it stands here.
    fn eat(&mut self, word: &str) -> bool {
        let found = self.rest().starts_with(word);
        self.at += if found { word.len() } else { 0 };
        found
    }

    fn expected(&mut self, what: &str) -> Wrong {
        let given = match self.rest().chars().next() {
            Some(c) => format!("\"{}\"", c.escape_debug()),
            None => "the end".into(),
        };
        self.wrong(format!("expected {what}, given {given}"))
    }

    const fn wrong(&self, message: String) -> Wrong {
        Wrong { at: self.at, message }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Value, String> {
        Reader::new(text).value().map_err(|w| format!("{}: {}", w.at, w.message))
    }

    #[test]
    fn members_of_one_name_and_digits_stay() {
        let number = |digits: &str| Value::Number(digits.into());
        let text = r#" {"m":{"a":1.50e-05},"m":[],"t":"\u0041\"\n","n":null,"f":false}"#;
        let expected = Value::Object(vec![
            ("m".into(), Value::Object(vec![("a".into(), number("1.50e-05"))])),
            ("m".into(), Value::List(Vec::new())),
            ("t".into(), Value::Text("A\"\n".into())),
            ("n".into(), Value::Null),
            ("f".into(), Value::Bool(false)),
        ]);
        assert_eq!(read(text), Ok(expected));
    }

    #[test]
    fn mistakes_have_their_places() {
        for (text, said) in [
            ("", "0: expected a value of JSON, given the end"),
            ("[1", "2: expected \",\" or \"]\", given the end"),
            ("{\"a\" 1}", "5: expected \":\", given \"1\""),
            ("{a:1}", "1: expected the name of a member in quotes, given \"a\""),
            ("[-]", "1: expected a number, given \"-\""),
            ("\"a", "1: a text has no closing quote"),
            ("\"a\\q\"", "2: expected an escape of JSON, given \"\\\\\""),
            ("tru", "0: expected a value of JSON, given \"t\""),
        ] {
            assert_eq!(read(text), Err(said.into()), "{text}");
        }
        assert_eq!(read(&"[".repeat(1000)), Err("33: expected at most 32 levels, given more".into()));
        let many = format!("[{}1]", "1,".repeat(VALUES_MAX));
        assert_eq!(read(&many), Err("1999999: expected at most 1000000 values, given more".into()));
    }
}
