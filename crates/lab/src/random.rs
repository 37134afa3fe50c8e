//! Seeded random numbers, for the order of cells, the draws of the bootstrap, and the choices of
//! soaking clients.

/// Steele, Lea and Flood's generator (OOPSLA 2014): small, seeded, and identical everywhere.
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// A sequence that depends on the seed alone.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is so small that the bias of a remainder does not matter.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// A number between 0 and 1, neither included.
    pub fn uniform(&mut self) -> f64 {
        (self.below(1 << 52) as f64 + 0.5) / (1_u64 << 52) as f64
    }

    /// A number of the normal distribution with mean 0 and deviation 1 (Box & Muller 1958).
    pub fn normal(&mut self) -> f64 {
        let (one, other) = (self.uniform(), self.uniform());
        (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * other).cos()
    }
}

/// The algorithm is Fisher and Yates's.
pub(crate) fn shuffle<T>(items: &mut [T], random: &mut SplitMix64) {
    for last in (1..items.len()).rev() {
        items.swap(last, random.below(last as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_mix_gives_the_published_sequence() {
        let mut random = SplitMix64(1_234_567);
        assert_eq!(random.next(), 6_457_827_717_110_365_317);
        assert_eq!(random.next(), 3_203_168_211_198_807_973);
    }
}
