//! `Out`: output as text and as JSON at once, so that neither form can differ from the other.

use crate::json::quote;

/// Text and JSON of one object being written: members written between `open` and `close` belong to
/// one JSON object.
#[derive(Debug, Default)]
pub(crate) struct Out {
    text: String,
    json: String,
}

impl Out {
    /// Returns an empty text, and an open JSON object.
    pub(crate) fn new() -> Self {
        Self { text: String::new(), json: "{".into() }
    }
    /// Writes text alone.
    pub(crate) fn text(&mut self, text: &str) {
        self.text.push_str(text);
    }
    /// Writes a member that is JSON already, and its text.
    pub(crate) fn raw(&mut self, key: &str, json: &str, text: &str) {
        self.key(key);
        self.json.push_str(json);
        self.text.push_str(text);
    }
    /// Writes a number.
    pub(crate) fn uint(&mut self, key: &str, value: impl Into<u64>, text: &str) {
        self.raw(key, &value.into().to_string(), text);
    }
    /// Writes a word.
    pub(crate) fn int(&mut self, key: &str, value: i64, text: &str) {
        self.raw(key, &value.to_string(), text);
    }
    pub(crate) fn word(&mut self, key: &str, value: &str, text: &str) {
        self.raw(key, &quote(value), text);
    }
    /// Writes a flag that is set: `true`.
    pub(crate) fn flag(&mut self, key: &str, text: &str) {
        self.raw(key, "true", text);
    }
    /// Begins an object within this one.
    pub(crate) fn open(&mut self, key: &str) {
        self.key(key);
        self.json.push('{');
    }
    /// Begins a list within this object.
    pub(crate) fn open_list(&mut self, key: &str) {
        self.key(key);
        self.json.push('[');
    }
    /// Begins an object in a list.
    pub(crate) fn open_item(&mut self) {
        self.comma();
        self.json.push('{');
    }
    /// Ends an object.
    pub(crate) fn close(&mut self) {
        self.json.push('}');
    }
    /// Ends a list.
    pub(crate) fn close_list(&mut self) {
        self.json.push(']');
    }
    /// Returns the text, and the object.
    pub(crate) fn finish(mut self) -> (String, String) {
        self.json.push('}');
        (self.text, self.json)
    }

    fn comma(&mut self) {
        if !self.json.ends_with(['{', '[']) {
            self.json.push(',');
        }
    }
    fn key(&mut self, key: &str) {
        self.comma();
        self.json.push_str(&quote(key));
        self.json.push(':');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_json_grow_together() {
        let mut out = Out::new();
        out.word("kind", "gact", "gact ");
        out.open("prob");
        out.uint("val", 0u32, "val 0");
        out.close();
        out.open_list("actions");
        out.open_item();
        out.flag("on", "\n");
        out.close();
        out.open_item();
        out.close();
        out.close_list();
        out.text("!");
        let json = r#"{"kind":"gact","prob":{"val":0},"actions":[{"on":true},{}]}"#;
        assert_eq!(out.finish(), ("gact val 0\n!".into(), json.into()));
    }
}
