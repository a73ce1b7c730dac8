//! tc's own sentences: those by which it refuses words before it asks the kernel. They are those of
//! tc 6.1.

use std::borrow::Cow;
use std::fmt;

/// The sentence for a line that ends where a word is needed.
pub(crate) const INCOMPLETE: &str = "Command line is not complete. Try option \"help\"";
/// The refusal of a block's number by later tc, with its next line in it. tc 6.1 has no such word.
pub(crate) const NO_BLOCK_NUMBER: &str = "invalid block IDbad action parsing";

/// A sentence by which tc refuses words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sentence<'a> {
    /// The line ends where a word is needed.
    Incomplete,
    /// A word that is none of an object's.
    WhatIs(&'a str),
    /// The value of a key of a filter or an action.
    Illegal(&'a str),
    /// A word, and the thing that it is not.
    Argument(&'a str, &'a str),
    /// A key that must be there.
    Required(&'a str),
    /// A key that is there already, and the word after it.
    Duplicate(&'a str, &'a str),
    /// A place behind another one.
    DuplicateParent(&'a str),
    /// A form of address, and the word that does not have it.
    Rather(&'a str, &'a str),
    /// A part of a filter that a line must name.
    MustSpecify(&'a str),
    /// An object, and a verb that it does not have.
    UnknownVerb(&'a str, &'a str),
    /// A device that does not exist.
    NoDevice(&'a str),
    /// A block that no device has.
    NoBlock(u32),
}

impl fmt::Display for Sentence<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Incomplete => f.write_str(INCOMPLETE),
            Self::WhatIs(word) => write!(f, "What is \"{word}\"?"),
            Self::Illegal(key) => write!(f, "Illegal \"{key}\""),
            Self::Argument(word, not) => write!(f, "Error: argument \"{word}\" is wrong: {not}"),
            Self::Required(key) => write!(f, "Error: argument \"{key}\" is required"),
            Self::Duplicate(key, word) => {
                write!(f, "Error: duplicate \"{key}\": \"{word}\" is the second value.")
            }
            Self::DuplicateParent(place) => write!(f, "Error: \"{place}\" is duplicate parent ID"),
            Self::Rather(form, word) => write!(f, "Error: {form} is expected rather than \"{word}\"."),
            Self::MustSpecify(part) => write!(f, "Must specify filter {part}"),
            Self::UnknownVerb(object, verb) => {
                write!(f, "Command \"{verb}\" is unknown, try \"tc {object} help\".")
            }
            Self::NoDevice(name) => write!(f, "Cannot find device \"{name}\""),
            Self::NoBlock(number) => write!(f, "Cannot find block \"{number}\""),
        }
    }
}

impl From<Sentence<'_>> for Cow<'static, str> {
    fn from(sentence: Sentence<'_>) -> Self {
        Self::Owned(sentence.to_string())
    }
}
