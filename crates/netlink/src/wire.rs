//! Attributes (`struct nlattr`, netlink(7)): read from bytes of a stranger, and written. Numbers
//! have the byte order of the machine.

use crate::refusal::Refusal;

/// Bytes of the head of an attribute: its length and its number.
const HEAD: usize = 4;
/// Bits of an attribute's number that are the number; the others say that it is nested, or in
/// network byte order.
const NUMBER: u16 = 0x3fff;
/// Most attributes on one level of a message. The longest lists are those of mqprio and of tables,
/// with 16 and 256 entries.
const ATTRIBUTES_MAX: usize = 4096;

/// Rounds a length up to the alignment of attributes and messages.
#[must_use]
pub const fn aligned(len: usize) -> usize {
    len.saturating_add(3) & !3
}

/// Returns the bytes of a record from `at` on as an array; zeros where the record is shorter.
fn bytes_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    if let Some(found) = bytes.get(at..).and_then(|rest| rest.get(..N)) {
        out.copy_from_slice(found);
    }
    out
}

/// A C struct. A field behind its end reads as zero.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a>(&'a [u8]);

impl<'a> Record<'a> {
    /// Returns the struct in these bytes, which may go on behind it; `name` is for the error.
    ///
    /// # Errors
    /// There are fewer than `len` bytes.
    pub fn of(bytes: &'a [u8], len: usize, name: &str) -> Result<Self, Refusal> {
        match bytes.len() < len {
            true => Err(Refusal::invalid(format!("{name}: expected {len} bytes, given {}", bytes.len()))),
            false => Ok(Self(bytes)),
        }
    }
    /// Returns the byte at an offset.
    #[must_use]
    pub fn u8(self, at: usize) -> u8 {
        u8::from_ne_bytes(bytes_at(self.0, at))
    }
    /// Returns the number of 16 bits at an offset.
    #[must_use]
    pub fn u16(self, at: usize) -> u16 {
        u16::from_ne_bytes(bytes_at(self.0, at))
    }
    /// Returns the number of 32 bits at an offset.
    #[must_use]
    pub fn u32(self, at: usize) -> u32 {
        u32::from_ne_bytes(bytes_at(self.0, at))
    }
    /// Returns the signed number of 32 bits at an offset.
    #[must_use]
    pub fn i32(self, at: usize) -> i32 {
        i32::from_ne_bytes(bytes_at(self.0, at))
    }
    /// Returns the number of 64 bits at an offset.
    #[must_use]
    pub fn u64(self, at: usize) -> u64 {
        u64::from_ne_bytes(bytes_at(self.0, at))
    }
}

/// One attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attribute<'a> {
    /// Its number.
    pub number: u16,
    /// Its value.
    pub value: &'a [u8],
}

/// The attributes of one level. Of several with the same number the last one counts, as in Linux.
#[derive(Clone, Debug)]
pub struct Attributes<'a> {
    name: &'a str,
    all: Vec<Attribute<'a>>,
}

impl<'a> Attributes<'a> {
    /// Reads attributes; `name` is that of their object, for errors.
    ///
    /// # Errors
    /// A length is shorter than a head, or longer than the rest; or there are more than 4096.
    pub fn read(mut bytes: &'a [u8], name: &'a str) -> Result<Self, Refusal> {
        let mut all = Vec::new();
        // Bound: each turn takes four bytes or more.
        while bytes.len() >= HEAD {
            let len = usize::from(u16::from_ne_bytes(bytes_at(bytes, 0)));
            let number = u16::from_ne_bytes(bytes_at(bytes, 2)) & NUMBER;
            let Some(value) = bytes.get(HEAD..len) else {
                let left = bytes.len();
                let text = format!(
                    "{name}: attribute {number}: expected a length of 4 to {left} bytes, given {len}"
                );
                return Err(Refusal::invalid(text));
            };
            if all.len() >= ATTRIBUTES_MAX {
                let text = format!("{name}: expected at most {ATTRIBUTES_MAX} attributes, given more");
                return Err(Refusal::invalid(text));
            }
            all.push(Attribute { number, value });
            bytes = bytes.get(aligned(len)..).unwrap_or(&[]);
        }
        Ok(Self { name, all })
    }

    /// Calls `f` on each attribute, in order.
    pub fn iter(&self) -> impl Iterator<Item = Attribute<'a>> {
        self.all.iter().copied()
    }
    /// Returns the value of an attribute.
    #[must_use]
    pub fn bytes(&self, number: u16) -> Option<&'a [u8]> {
        self.all.iter().rfind(|a| a.number == number).map(|a| a.value)
    }
    /// Returns the value of an attribute, which has at least `len` bytes.
    ///
    /// # Errors
    /// It has fewer.
    pub fn record(&self, number: u16, len: usize) -> Result<Option<Record<'a>>, Refusal> {
        let name = || format!("{}: attribute {number}", self.name);
        self.bytes(number).map(|bytes| Record::of(bytes, len, &name())).transpose()
    }
    /// Returns a number of 32 bits.
    ///
    /// # Errors
    /// The attribute has fewer bits.
    pub fn u32(&self, number: u16) -> Result<Option<u32>, Refusal> {
        Ok(self.record(number, 4)?.map(|r| r.u32(0)))
    }
    /// Returns a number of 64 bits.
    ///
    /// # Errors
    /// The attribute has fewer bits.
    pub fn u64(&self, number: u16) -> Result<Option<u64>, Refusal> {
        Ok(self.record(number, 8)?.map(|r| r.u64(0)))
    }
    /// Returns a text, which may end with a zero byte.
    ///
    /// # Errors
    /// It is no UTF-8, or longer than `most` bytes.
    pub fn text(&self, number: u16, most: usize) -> Result<Option<&'a str>, Refusal> {
        let Some(bytes) = self.bytes(number) else { return Ok(None) };
        let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
        let text = std::str::from_utf8(&bytes[..end]).ok().filter(|text| text.len() <= most);
        let wrong = || format!("{}: attribute {number}: expected a text of at most {most} bytes", self.name);
        text.map(Some).ok_or_else(|| Refusal::invalid(wrong()))
    }
    /// Returns the attributes in an attribute; none if it is not there.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn nested(&self, number: u16) -> Result<Self, Refusal> {
        Self::read(self.bytes(number).unwrap_or(&[]), self.name)
    }
    /// Refuses the first attribute whose number is not among these: a setting that would be without
    /// effect.
    ///
    /// # Errors
    /// There is such an attribute.
    pub fn only(&self, known: &[u16]) -> Result<(), Refusal> {
        match self.all.iter().find(|a| !known.contains(&a.number)) {
            None => Ok(()),
            Some(a) => {
                let text = format!(
                    "{}: there is no attribute {} of {} bytes here",
                    self.name,
                    a.number,
                    a.value.len()
                );
                Err(Refusal::unsupported(text))
            }
        }
    }
}

/// The mark of an attribute that has attributes within it (`NLA_F_NESTED`).
pub const NESTED: u16 = 1 << 15;

/// Bytes being written: fields of structs, and attributes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Writer(pub(crate) Vec<u8>);

impl Writer {
    /// Returns the bytes.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        self.0
    }
    /// Writes bytes of a struct.
    pub fn put(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
    /// Writes numbers of 32 bits.
    pub fn put_all(&mut self, numbers: &[u32]) {
        numbers.iter().for_each(|n| self.put(&n.to_ne_bytes()));
    }
    /// Writes an attribute.
    pub fn bytes(&mut self, number: u16, value: &[u8]) {
        self.nest(number, |w| w.put(value));
    }
    /// Writes a number of 8 bits.
    pub fn u8(&mut self, number: u16, value: u8) {
        self.bytes(number, &[value]);
    }
    /// Writes a number of 16 bits.
    pub fn u16(&mut self, number: u16, value: u16) {
        self.bytes(number, &value.to_ne_bytes());
    }
    /// Writes a number of 32 bits.
    pub fn u32(&mut self, number: u16, value: u32) {
        self.bytes(number, &value.to_ne_bytes());
    }
    /// Writes a number of 64 bits.
    pub fn u64(&mut self, number: u16, value: u64) {
        self.bytes(number, &value.to_ne_bytes());
    }
    /// Writes a text and a zero byte.
    pub fn text(&mut self, number: u16, value: &str) {
        self.nest(number, |w| {
            w.put(value.as_bytes());
            w.put(&[0]);
        });
    }
    /// Writes an attribute whose value `f` writes. A value longer than an attribute can be is left
    /// out. The number may have the mark [`NESTED`], which tc looks for at some attributes.
    pub fn nest(&mut self, number: u16, f: impl FnOnce(&mut Self)) {
        let start = self.0.len();
        self.put(&[0; 2]);
        self.put(&number.to_ne_bytes());
        f(self);
        let Ok(len) = u16::try_from(self.0.len() - start) else { return self.0.truncate(start) };
        self.0[start..start + 2].copy_from_slice(&len.to_ne_bytes());
        self.0.resize(aligned(self.0.len()), 0);
    }
}

/// Returns a number in fewer bits, the largest one if it does not fit.
#[must_use]
pub fn u32_of(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_padded_and_read_back() {
        let mut w = Writer::default();
        w.text(1, "tbf");
        w.nest(2, |w| {
            w.u8(15, 7);
            w.u32(3, 9);
        });
        w.u64(2 | 0x8000, 1);
        let bytes = w.finish();
        assert_eq!(bytes.len(), 8 + (4 + 8 + 8) + 12);
        assert_eq!(bytes[..8], [8, 0, 1, 0, b't', b'b', b'f', 0]);
        let read = Attributes::read(&bytes, "x").unwrap();
        assert_eq!(read.text(1, 16), Ok(Some("tbf")));
        // The last one of a number counts.
        assert_eq!(read.u64(2), Ok(Some(1)));
        assert_eq!(read.u32(9), Ok(None));
        let inner = Attributes::read(read.iter().nth(1).unwrap().value, "x").unwrap();
        assert_eq!((inner.u32(3), inner.bytes(15)), (Ok(Some(9)), Some(&[7][..])));
    }

    #[test]
    fn what_is_malformed_is_named() {
        let text = |bytes: &[u8]| Attributes::read(bytes, "prio").unwrap_err().text;
        assert_eq!(text(&[3, 0, 1, 0]), "prio: attribute 1: expected a length of 4 to 4 bytes, given 3");
        assert_eq!(
            text(&[9, 0, 2, 0, 1, 1]),
            "prio: attribute 2: expected a length of 4 to 6 bytes, given 9"
        );
        let two = Attributes::read(&[6, 0, 2, 0, 1, 1], "prio").unwrap();
        assert_eq!(two.u32(2).unwrap_err().text, "prio: attribute 2: expected 4 bytes, given 2");
        assert_eq!(two.only(&[1, 3]).unwrap_err().text, "prio: there is no attribute 2 of 2 bytes here");
        assert!(two.only(&[2]).is_ok());
        let many = [4, 0, 1, 0].repeat(ATTRIBUTES_MAX + 1);
        assert_eq!(text(&many), "prio: expected at most 4096 attributes, given more");
    }

    #[test]
    fn a_value_that_is_too_long_is_left_out() {
        let mut w = Writer::default();
        w.bytes(1, &[0; 70_000]);
        w.u8(2, 1);
        assert_eq!(w.finish(), [5, 0, 2, 0, 1, 0, 0, 0]);
    }
}
