//! A link layer as tc writes it.

use crate::base::link::LinkLayer;
use crate::text::value::{Json, Refusal, Show, Value, Words};

impl Show for LinkLayer {
    fn text(&self, f: &mut dyn core::fmt::Write) -> core::fmt::Result {
        f.write_str(match self {
            Self::Ethernet => "ethernet",
            Self::Atm => "atm",
        })
    }
    fn json(&self) -> Json {
        Json::Text(crate::text::value::text_of(self))
    }
}

impl Value for LinkLayer {
    const EXPECTED: &'static str = "ethernet, atm or adsl";
    fn take(words: &mut Words<'_>) -> Result<Self, Refusal> {
        match words.value()? {
            "ethernet" => Ok(Self::Ethernet),
            "atm" | "adsl" => Ok(Self::Atm),
            _ => Err(Refusal::NotSuch),
        }
    }
}
