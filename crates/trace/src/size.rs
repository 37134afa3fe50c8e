//! Sizes in quarter powers of two. An exact size could tell which file was asked for; a rounded one
//! still costs a server the same.

/// Sizes up to here are exact, in bytes. Above it, whole bytes are finer than the rounding.
const EXACT: u64 = 32;

/// The nearest quarter power of two, at most 9.1 % off. Sizes below 32 bytes stay as they are.
pub fn quantised(bytes: u64) -> u64 {
    if bytes < EXACT {
        return bytes;
    }
    let quarters = (4.0 * (bytes as f64).log2()).round();
    // The small addend keeps whole powers whole, whatever the last bit of `exp2` is.
    ((quarters / 4.0).exp2() + 1e-9) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_at_most_nine_percent_off() {
        let sizes = (0..200_000).chain((18..63).map(|power| (1 << power) + 12_345));
        for bytes in sizes {
            let off = quantised(bytes).abs_diff(bytes) as f64 / bytes.max(1) as f64;
            assert!(off < 0.091, "{bytes} became {}", quantised(bytes));
        }
    }

    #[test]
    fn a_rounded_size_stays_as_it_is() {
        for bytes in (0..100_000).chain([1 << 20, 1 << 40]) {
            assert_eq!(quantised(quantised(bytes)), quantised(bytes), "{bytes}");
        }
        assert_eq!(
            [quantised(1024), quantised(65_536), quantised(1 << 30)],
            [1024, 65_536, 1 << 30]
        );
    }
}
