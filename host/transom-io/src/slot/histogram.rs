//! How long things took: counts by duration, from any thread, in a fixed space.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// Buckets to each doubling: a figure is at most an eighth too large.
const STEPS: usize = 8;
const STEP_BITS: u32 = STEPS.trailing_zeros();

/// Below this, in nanoseconds, everything is one bucket.
const LEAST_BITS: u32 = 10;

/// From a microsecond to a minute.
const DOUBLINGS: usize = 26;

/// Bounds for those who scrape: powers of four in nanoseconds, about 1 µs to 1 s.
pub(crate) const SCRAPED_BITS: [u32; 11] = [10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30];

/// Counts by duration.
#[derive(Debug)]
pub struct Histogram {
    buckets: [AtomicU64; 1 + DOUBLINGS * STEPS],
    nanos: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram {
            buckets: [const { AtomicU64::new(0) }; 1 + DOUBLINGS * STEPS],
            nanos: AtomicU64::new(0),
        }
    }
}

impl Histogram {
    /// Counts one.
    pub fn record(&self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let bucket = bucket(nanos).min(self.buckets.len() - 1);
        if let Some(count) = self.buckets.get(bucket) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).sum()
    }

    /// How long all of them took together.
    pub fn total(&self) -> Duration {
        Duration::from_nanos(self.nanos.load(Ordering::Relaxed))
    }

    /// The duration that this share of them does not exceed, at most an eighth too large; zero where there are none.
    pub fn quantile(&self, share: f64) -> Duration {
        let counts: Vec<u64> =
            self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).collect();
        let all: u64 = counts.iter().sum();
        let wanted = ((all as f64) * share).ceil() as u64;
        let mut seen = 0;
        for (at, count) in counts.iter().enumerate() {
            seen += count;
            if *count > 0 && seen >= wanted {
                return Duration::from_nanos(upper(at));
            }
        }
        Duration::ZERO
    }

    /// How many took less than two to the power of `bits` nanoseconds.
    pub(crate) fn below(&self, bits: u32) -> u64 {
        let last = bucket(1 << bits);
        self.buckets.iter().take(last).map(|bucket| bucket.load(Ordering::Relaxed)).sum()
    }
}

fn bucket(nanos: u64) -> usize {
    if nanos < 1 << LEAST_BITS {
        return 0;
    }
    let doubling = nanos.ilog2();
    let step = (nanos >> (doubling - STEP_BITS)) as usize & (STEPS - 1);
    1 + (doubling - LEAST_BITS) as usize * STEPS + step
}

/// The end of a bucket.
fn upper(bucket: usize) -> u64 {
    let Some(above) = bucket.checked_sub(1) else { return 1 << LEAST_BITS };
    let (doubling, step) = (above / STEPS, above % STEPS);
    let begin = 1u64 << (doubling as u32 + LEAST_BITS);
    begin + (begin >> STEP_BITS) * (step as u64 + 1)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Histogram, SCRAPED_BITS, bucket, upper};

    #[test]
    fn a_duration_lies_in_its_bucket_and_close_to_its_end() {
        for nanos in
            [1, 1023, 1024, 1025, 1151, 1152, 4095, 4096, 37_000, 1_000_000, 59_999_999_999]
        {
            let at = bucket(nanos);
            assert!(nanos < upper(at), "{nanos} in {at}");
            assert!(at == 0 || nanos >= upper(at - 1), "{nanos} in {at}");
            assert!(nanos < 1024 || upper(at) - nanos <= nanos / 8 + 1, "{nanos} in {at}");
        }
    }

    #[test]
    fn quantiles_and_bounds_count_the_same_things() {
        let histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.5), Duration::ZERO);
        for micros in 1..=100 {
            histogram.record(Duration::from_micros(micros));
        }
        histogram.record(Duration::from_secs(3600));
        assert_eq!(histogram.count(), 101);
        let half = histogram.quantile(0.5).as_nanos();
        assert!((50_000..60_000).contains(&half), "{half}");
        assert!(
            histogram.quantile(1.0) > Duration::from_secs(30),
            "what is too long is the longest"
        );
        assert_eq!(histogram.below(16), 65, "2^16 ns are 65.5 µs");
        assert_eq!(SCRAPED_BITS.map(|bits| histogram.below(bits)).last(), Some(&100));
    }
}
