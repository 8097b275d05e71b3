//! Random numbers that a seed repeats: for run ids, generated tokens and fault storms.

/// `SplitMix64`: small, and good enough for ids and dice; nothing secret is made with it.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// True with the given probability, 0 to 1.
    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        // The upper 32 bits convert to f64 without loss.
        let drawn = u32::try_from(self.next() >> 32).unwrap_or(u32::MAX);
        f64::from(drawn) / (f64::from(u32::MAX) + 1.0) < probability
    }
}
