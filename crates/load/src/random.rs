//! Repeatable random numbers, for the arrivals of an open loop.

/// Steele, Lea and Flood's generator (OOPSLA 2014): small, seeded, and identical everywhere.
#[derive(Clone, Debug)]
pub(crate) struct SplitMix64(u64);

impl SplitMix64 {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 up to, but not including, 1, with 53 random bits.
    pub(crate) fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A number of the exponential distribution with mean 1, by inversion.
    pub(crate) fn exponential(&mut self) -> f64 {
        // This is never the logarithm of zero.
        -(1.0 - self.fraction()).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_mix_gives_the_published_sequence() {
        let mut random = SplitMix64::new(1_234_567);
        assert_eq!(random.next(), 6_457_827_717_110_365_317);
        assert_eq!(random.next(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn fractions_and_exponentials_have_their_means() {
        let mut random = SplitMix64::new(7);
        let count = 100_000;
        let fractions: f64 = (0..count).map(|_| random.fraction()).sum();
        let exponentials: f64 = (0..count).map(|_| random.exponential()).sum();
        assert!((fractions / f64::from(count) - 0.5).abs() < 0.005);
        assert!((exponentials / f64::from(count) - 1.0).abs() < 0.02);
    }
}
