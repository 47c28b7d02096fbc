//! How numbers are written: in data files, and for people.

/// Decimals of means, rates and quantiles in data files.
pub const DECIMALS: usize = 6;

/// A number with `decimals` decimals, never as minus zero.
pub fn fixed(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let is_zero = !text.bytes().any(|byte| (b'1'..=b'9').contains(&byte));
    match text.strip_prefix('-') {
        Some(magnitude) if is_zero => magnitude.to_owned(),
        _ => text,
    }
}

/// A mean, rate or quantile as data files hold it.
pub fn data(value: f64) -> String {
    fixed(value, DECIMALS)
}

/// The double nearest to what [`data`] writes, so that all files hold the same number.
pub fn rounded(value: f64) -> f64 {
    data(value).parse().unwrap_or(value)
}

/// A p-value with six significant digits.
pub fn rounded_p(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

/// A count with separated thousands: `10,000`.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count with the word for what is counted: `1 run`, `10,000 runs`, `2 policies`.
pub fn plural(value: u64, word: &str) -> String {
    match (value, word.strip_suffix('y')) {
        (1, _) => format!("1 {word}"),
        (_, Some(stem)) => format!("{} {stem}ies", count(value)),
        (_, None) => format!("{} {word}s", count(value)),
    }
}

/// A number with separated thousands and `decimals` decimals.
pub fn grouped(value: f64, decimals: usize) -> String {
    let text = fixed(value, decimals);
    let (sign, magnitude) = match text.strip_prefix('-') {
        Some(magnitude) => ("-", magnitude),
        None => ("", text.as_str()),
    };
    let (whole, fraction) = magnitude.split_once('.').unwrap_or((magnitude, ""));
    let whole = whole.parse().map_or_else(|_| whole.to_owned(), count);
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{whole}{point}{fraction}")
}

/// A share as a percentage with one decimal: `61.2%`. Shares that only rounding would make 0% or
/// 100% keep the digits that show they are not.
pub fn percent(share: f64) -> String {
    format!("{}%", percentage(share))
}

fn percentage(share: f64) -> String {
    let value = share * 100.0;
    let hides = |decimals: usize| {
        let shown: f64 = fixed(value, decimals).parse().unwrap_or(value);
        (shown == 0.0 && share > 0.0) || (shown == 100.0 && share < 1.0)
    };
    let decimals = (1..4).find(|decimals| !hides(*decimals)).unwrap_or(4);
    fixed(value, decimals)
}

/// A difference of shares in percentage points, with its sign: `+36.6`.
pub fn points(difference: f64) -> String {
    signed(difference * 100.0, 1)
}

/// A number with its sign; zero has none.
pub fn signed(value: f64, decimals: usize) -> String {
    let text = fixed(value, decimals);
    let positive = !text.starts_with('-') && text.bytes().any(|b| (b'1'..=b'9').contains(&b));
    if positive { format!("+{text}") } else { text }
}

/// How many decimals dollars of this size need to show three digits; at least cents.
pub fn usd_decimals(value: f64) -> usize {
    let magnitude = value.abs();
    [(0.1, 2), (0.01, 3), (0.001, 4), (0.000_1, 5)]
        .into_iter()
        .find(|(from, _)| magnitude >= *from || magnitude == 0.0)
        .map_or(6, |(_, decimals)| decimals)
}

/// Dollars: `4.02`, `0.0123`, `1,250.00`.
pub fn usd(value: f64) -> String {
    grouped(value, usd_decimals(value))
}

/// The longer arm of an interval of a share, in percentage points: `±1.0`.
pub fn arm(share: f64, lo: f64, hi: f64) -> String {
    let arm = (hi - share).max(share - lo) * 100.0;
    if arm > 0.0 && arm < 0.05 {
        return "±<0.1".to_owned();
    }
    format!("±{}", fixed(arm, 1))
}

/// A p-value for people: `0.032`, `<0.0001`.
pub fn p_value(value: f64) -> String {
    if value < 0.0001 {
        "<0.0001".to_owned()
    } else {
        fixed(value, if value < 0.01 { 4 } else { 3 })
    }
}

/// A file name from a display name: `[a-z0-9-]`, with six hex digits of the name's hash where that
/// changed it, so that different names stay different.
pub fn slug(name: &str) -> String {
    let mut plain = String::with_capacity(name.len());
    for character in name.chars() {
        let lower = character.to_ascii_lowercase();
        if lower.is_ascii_alphanumeric() {
            plain.push(lower);
        } else if !plain.is_empty() && !plain.ends_with('-') {
            plain.push('-');
        }
    }
    let mut plain = plain.trim_end_matches('-').to_owned();
    plain.truncate(60);
    if plain == name {
        return plain;
    }
    let hash = sha256(name.as_bytes());
    let dash = if plain.is_empty() { "" } else { "-" };
    format!("{plain}{dash}{}", &hash[..6])
}

/// The SHA-256 of some bytes, in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest;
    let digest = sha2::Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A word as a shell reads it back: as it is where that is safe, else in single quotes.
pub fn shell(word: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(safe) {
        return word.to_owned();
    }
    if !word.contains(['"', '$', '`', '\\', '!']) {
        return format!("\"{word}\"");
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_has_no_sign() {
        assert_eq!(data(-1e-9), "0.000000");
        assert_eq!(fixed(-0.04, 1), "0.0");
        assert_eq!(signed(0.0, 1), "0.0");
        assert_eq!(signed(0.06, 1), "+0.1");
        assert_eq!(points(-0.083), "-8.3");
    }

    #[test]
    fn a_share_that_is_not_all_is_never_shown_as_all() {
        assert_eq!(percent(0.612), "61.2%");
        assert_eq!(percent(1.0), "100.0%");
        assert_eq!(percent(0.9999), "99.99%");
        assert_eq!(percent(0.00001), "0.001%");
        assert_eq!(percent(0.0), "0.0%");
    }

    #[test]
    fn thousands_are_separated() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(usd(1250.0), "1,250.00");
        assert_eq!(usd(-0.0123), "-0.012");
        assert_eq!(usd(0.0), "0.00");
    }

    #[test]
    fn names_become_file_names_that_stay_different() {
        assert_eq!(slug("cost-0-25"), "cost-0-25");
        assert_eq!(slug("Cost 0.25").len(), "cost-0-25-".len() + 6);
        assert_ne!(slug("a b"), slug("a_b"));
        assert_eq!(slug("é").len(), 6);
    }

    #[test]
    fn words_survive_a_shell() {
        assert_eq!(shell("reserve-0.25"), "reserve-0.25");
        assert_eq!(shell("cost reserve"), "\"cost reserve\"");
        assert_eq!(shell("it's $5"), r"'it'\''s $5'");
        assert_eq!(shell(""), "\"\"");
    }
}
