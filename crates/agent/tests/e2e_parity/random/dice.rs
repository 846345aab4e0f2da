//! Chance that can be repeated: the same seed gives the same throws on every machine.

/// The generator known as SplitMix64: small, and good enough to pick test cases.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn throw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below a limit, which is not 0.
    pub(crate) fn below(&mut self, limit: u32) -> u32 {
        u32::try_from(self.throw() % u64::from(limit)).unwrap()
    }

    /// True in so many out of a hundred cases.
    pub(crate) fn is(&mut self, percent: u32) -> bool {
        self.below(100) < percent
    }

    /// One of several.
    pub(crate) fn one<T: Clone>(&mut self, of: &[T]) -> T {
        let index = self.below(u32::try_from(of.len()).unwrap());
        of.get(usize::try_from(index).unwrap()).unwrap().clone()
    }

    /// In any order.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(u32::try_from(last + 1).unwrap());
            items.swap(last, usize::try_from(other).unwrap());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_itself_and_another_does_not() {
        let throws = |seed| {
            let mut dice = Dice::new(seed);
            [(); 8].map(|()| dice.below(1000))
        };
        assert_eq!(throws(7), throws(7));
        assert_ne!(throws(7), throws(8));
        let mut items: Vec<u32> = (0..50).collect();
        Dice::new(1).shuffle(&mut items);
        assert_ne!(items, (0..50).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..50).collect::<Vec<_>>());
    }
}
