//! Numbers as tc writes them, with C's printf.

use txweir_core::Rate;
use txweir_core::text::value::text_of;

/// Returns a time of whole microseconds as tc prints it: three digits of a binary fraction, as C's
/// `%.3g` rounds and writes it, so that 4335 us is `4.33ms` and 4000 s is `4e+03s`.
pub(super) fn time_text(us: u64) -> String {
    let (unit, name) = match us {
        1_000_000.. => (1e6, "s"),
        1_000.. => (1e3, "ms"),
        _ => return format!("{us}us"),
    };
    // From 2^53 us, 285 years, on, the last digits are lost; three are printed.
    format!("{}{name}", three_digits(us as f64 / unit))
}

/// Returns a number of at least 1 as C's `%.3g` rounds and writes it.
pub(super) fn three_digits(value: f64) -> String {
    let places = if value <= 9.995 { 2 } else { usize::from(value <= 99.95) };
    let plain = format!("{value:.places$}");
    if value < 999.5 {
        let short = if places > 0 { plain.trim_end_matches('0').trim_end_matches('.') } else { &plain };
        return short.into();
    }
    let long = format!("{value:.2e}");
    let (digits, exponent) = long.split_once('e').unwrap_or((&long, "0"));
    format!("{}e+{exponent:0>2}", digits.trim_end_matches('0').trim_end_matches('.'))
}

/// Returns a number as C's `%.{digits}g` writes it: with an exponent below 1e-4, and from where it
/// has more digits.
pub(super) fn general(value: f64, digits: usize) -> String {
    let most = i32::try_from(digits).unwrap_or(i32::MAX) - 1;
    let long = format!("{value:.*e}", digits - 1);
    let (digits, exponent) = long.split_once('e').unwrap_or((&long, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let short = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text.to_string(),
    };
    match usize::try_from(most - exponent) {
        Ok(places) if exponent >= -4 => short(&format!("{value:.places$}")),
        _ => format!("{}e{}{:02}", short(digits), if exponent < 0 { '-' } else { '+' }, exponent.abs()),
    }
}

/// Returns a probability as tc prints the kernel's value: rounded down to parts of 2^32, with six
/// digits.
pub(super) fn probability(given: f64) -> String {
    const PARTS: f64 = 4_294_967_296.0;
    // The addend is half a millionth of a part: it makes up for the lost digits of a whole number
    // of parts.
    general((given * PARTS + 5e-7).floor() / PARTS, 6)
}

/// Returns a rate, with `iec` in units of 1024 as `tc -iec` prints it.
pub(crate) fn rate_text(rate: Rate, iec: bool) -> String {
    if !iec {
        return text_of(&rate);
    }
    const UNITS: [&str; 5] = ["", "Ki", "Mi", "Gi", "Ti"];
    let mut bits = u128::from(rate.0) * 8;
    let mut unit = 0;
    while unit < UNITS.len() - 1 && bits >= 1024 && (bits % 1024 == 0 || bits >= 1000 * 1024) {
        bits /= 1024;
        unit += 1;
    }
    format!("{bits}{}bit", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_as_c_rounds_them() {
        for (us, text) in [
            (0, "0us"),
            (999, "999us"),
            (1_000, "1ms"),
            (4_335, "4.33ms"),
            (4_345, "4.34ms"),
            (9_995, "9.99ms"),
            (9_996, "10ms"),
            (12_340, "12.3ms"),
            (99_950, "100ms"),
            (999_400, "999ms"),
            (999_600, "1e+03ms"),
            (1_500_000, "1.5s"),
            (100_000_000, "100s"),
            (3_950_000_000, "3.95e+03s"),
            (4_000_000_000, "4e+03s"),
            (123_456_000_000_000, "1.23e+08s"),
        ] {
            assert_eq!(time_text(us), text, "{us}");
        }
    }

    #[test]
    fn numbers_as_c_writes_them_in_general() {
        for (value, text) in [
            (0.0, "0"),
            (1.0, "1"),
            (0.02, "0.02"),
            (0.624_995_231, "0.624995"),
            (1.234_567, "1.23457"),
            (0.000_1, "0.0001"),
            (0.000_012_345_67, "1.23457e-05"),
            (2e-6, "2e-06"),
            (123_456.7, "123457"),
            (1_234_567.0, "1.23457e+06"),
            (999_999.7, "1e+06"),
        ] {
            assert_eq!(general(value, 6), text);
        }
    }

    #[test]
    fn probabilities_are_parts_of_2_to_the_32() {
        for (given, text) in [(0.02, "0.02"), (0.5, "0.5"), (1.0, "1"), (0.000_01, "9.99984e-06")] {
            assert_eq!(probability(given), text);
        }
    }

    #[test]
    fn rates_in_units_of_1024() {
        for (bytes, text) in [(12_500_000, "97656Kibit"), (128, "1Kibit"), (1, "8bit"), (1 << 30, "8Gibit")] {
            assert_eq!(rate_text(Rate(bytes), true), text);
        }
    }
}
