//! Ethertypes by their tc names (tc(8), "protocol").

/// Number and name; where a number has two names, tc prints the first.
const NAMES: [(u16, &str); 53] = [
    (0x0060, "loop"),
    (0x0200, "pup"),
    (0x0201, "pupat"),
    (0x0800, "ip"),
    (0x0800, "ipv4"),
    (0x0805, "x25"),
    (0x0806, "arp"),
    (0x08ff, "bpq"),
    (0x0a00, "ieeepup"),
    (0x0a01, "ieeepupat"),
    (0x6000, "dec"),
    (0x6001, "dna_dl"),
    (0x6002, "dna_rc"),
    (0x6003, "dna_rt"),
    (0x6004, "lat"),
    (0x6005, "diag"),
    (0x6006, "cust"),
    (0x6007, "sca"),
    (0x8035, "rarp"),
    (0x809b, "atalk"),
    (0x80f3, "aarp"),
    (0x8137, "ipx"),
    (0x86dd, "ipv6"),
    (0x8863, "ppp_disc"),
    (0x8864, "ppp_ses"),
    (0x884c, "atmmpoa"),
    (0x8884, "atmfate"),
    (0x0001, "802_3"),
    (0x0002, "ax25"),
    (0x0003, "all"),
    (0x0004, "802_2"),
    (0x0005, "snap"),
    (0x0006, "ddcmp"),
    (0x0007, "wan_ppp"),
    (0x0008, "ppp_mp"),
    (0x0009, "localtalk"),
    (0x000c, "can"),
    (0x0010, "ppptalk"),
    (0x0011, "tr_802_2"),
    (0x0015, "mobitex"),
    (0x0016, "control"),
    (0x0017, "irda"),
    (0x0018, "econet"),
    (0x88ca, "tipc"),
    (0x88cc, "LLDP"),
    (0x8892, "profinet"),
    (0x88a2, "aoe"),
    (0x88a4, "ethercat"),
    (0x8100, "802.1Q"),
    (0x88a8, "802.1ad"),
    (0x8847, "mpls_uc"),
    (0x8848, "mpls_mc"),
    (0x6558, "teb"),
];

/// Returns all names that a line may use.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    NAMES.iter().map(|(_, name)| *name)
}

/// Returns the number of a name, or of a number as C writes it.
pub(crate) fn number(word: &str) -> Option<u16> {
    let named = NAMES.iter().find(|(_, name)| name.eq_ignore_ascii_case(word)).map(|(n, _)| *n);
    named.or_else(|| {
        let digits = word.strip_prefix("0x").unwrap_or(word);
        let radix = if digits.len() < word.len() { 16 } else { 10 };
        u16::from_str_radix(digits, radix).ok().filter(|_| !digits.starts_with('+'))
    })
}

/// Returns the name of a number, as tc prints it.
pub(crate) fn name(number: u16) -> String {
    let found = NAMES.iter().find(|(n, _)| *n == number);
    found.map_or_else(|| format!("[{number}]"), |(_, name)| (*name).to_string())
}
