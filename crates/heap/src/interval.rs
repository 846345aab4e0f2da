//! How many bytes are between two samples, and what a sample stands for.
//!
//! Distances are random with a mean, as Go's are: at a fixed distance a program that allocates in a rhythm would be seen in
//! one place only. An allocation of `size` bytes is then sampled with a probability of `1 - e^(-size/MEAN)`, and stands for
//! that many like it.

/// Mean distance, in bytes: Go's.
pub(crate) const MEAN: u32 = 512 * 1024;

/// The next state of a generator of random numbers (xorshift); never 0.
pub(crate) fn next(state: u64) -> u64 {
    let mut x = state.max(1);
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    x
}

/// A distance from a random number; at most 44 times the mean, at least 1.
pub(crate) fn distance(random: u64) -> usize {
    // 32 bits are exact in a float, and above 0 there is a logarithm.
    let part = (f64::from(high_half(random)) + 1.0) / (f64::from(u32::MAX) + 1.0);
    usize::try_from(whole(-part.ln() * f64::from(MEAN))).unwrap_or(usize::MAX).max(1)
}

/// How many allocations of this size a sample stands for.
pub(crate) fn weight(size: usize) -> f64 {
    let size = f64::from(u32::try_from(size).unwrap_or(u32::MAX));
    let probability = -(-size / f64::from(MEAN)).exp_m1();
    if probability > 0.0 { 1.0 / probability } else { 1.0 }
}

/// A number without its fraction.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "such a cast stops at the limits"
)]
pub(crate) fn whole(number: f64) -> u64 {
    number.round() as u64
}

fn high_half(random: u64) -> u32 {
    u32::try_from(random >> 32).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_have_their_mean() {
        let (mut state, mut sum) = (1, 0_u64);
        const MANY: u32 = 100_000;
        for _ in 0..MANY {
            state = next(state);
            sum += distance(state) as u64;
        }
        let mean = sum / u64::from(MANY);
        assert!((500_000..550_000).contains(&mean), "{mean}");
        assert!(distance(0) >= 1 && distance(u64::MAX) >= 1);
    }

    #[test]
    fn large_allocations_stand_for_themselves_and_small_ones_for_many() {
        assert!((weight(64 << 20) - 1.0).abs() < 1e-9);
        assert!((weight(64) - 8192.5).abs() < 1.0);
        assert!(weight(usize::MAX) >= 1.0 && weight(0) >= 1.0);
    }
}
