//! Chance with a seed that can be set again.

use std::{
    env,
    hash::{BuildHasher as _, RandomState},
    hint,
};

/// A sequence of numbers.
pub(super) struct Dice(u64);

impl Dice {
    /// From `KILLED_SEED`, or from the system; printed, for whoever has to play it again.
    pub(super) fn new() -> Dice {
        let seed = match env::var("KILLED_SEED") {
            Ok(seed) => seed.parse().expect("KILLED_SEED is a number"),
            Err(_) => RandomState::new().hash_one("dice"),
        };
        eprintln!("KILLED_SEED={seed}");
        Dice(seed)
    }

    /// The next number (SplitMix64).
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`.
    pub(super) fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).expect("a small number");
        usize::try_from(self.next() % end).expect("a small number")
    }

    /// Whether the one case in so many is there.
    pub(super) fn one_in(&mut self, cases: usize) -> bool {
        self.below(cases) == 0
    }

    /// One of these.
    pub(super) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// How many frames a life is watched before its end: often a few, at times many.
    pub(super) fn frames(&mut self) -> usize {
        let most = self.pick(&[20, 100, 400, 900]);
        1 + self.below(most)
    }

    /// Passes a random, short time, so that a kill falls anywhere between two frames.
    pub(super) fn tarry(&mut self) {
        for _ in 0..self.below(2_000_000) {
            hint::spin_loop();
        }
    }
}
