//! Sizes as people write them: `512M`, `8G`.

/// Parses a whole number of bytes, with K, M, G or T for binary units.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text} is not a size: write a whole number with K, M, G or T, for example 8G");
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'K' | b'k') => (&text[..text.len() - 1], 10),
        Some(b'M' | b'm') => (&text[..text.len() - 1], 20),
        Some(b'G' | b'g') => (&text[..text.len() - 1], 30),
        Some(b'T' | b't') => (&text[..text.len() - 1], 40),
        _ => (text, 0),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    match number.checked_mul(1 << shift) {
        Some(0) => Err("a size of 0 holds nothing".into()),
        Some(bytes) => Ok(bytes),
        None => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::parse_size;

    #[test]
    fn units_are_binary_and_anything_else_is_refused() {
        assert_eq!(parse_size("4096"), Ok(4096));
        assert_eq!(parse_size("64k"), Ok(64 << 10));
        assert_eq!(parse_size("8G"), Ok(8 << 30));
        assert_eq!(parse_size("2T"), Ok(2 << 40));
        for wrong in ["", "G", "8 G", "-1", "1.5G", "8GB", "99999999999T", "0", "0M", "+3", "é"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }
}
