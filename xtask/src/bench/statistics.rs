//! What many samples come to. Where the samples come from is left to the measurements.

/// The sample in the middle, or between the two in the middle.
pub fn median(samples: &[f64]) -> Option<f64> {
    let sorted = sorted(samples);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    Some((sorted.get(middle.checked_sub(1)?)? + upper) / 2.0)
}

/// The smallest sample that is not exceeded by this many of a hundred samples.
pub fn percentile(samples: &[f64], percent: usize) -> Option<f64> {
    let sorted = sorted(samples);
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

/// How much `y` grows with each `x`, by least squares; none when `x` never changes.
pub fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let count = points.len() as f64;
    let (sum_x, sum_y) = points.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0, y + point.1));
    let (mean_x, mean_y) = (sum_x / count, sum_y / count);
    let spread: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    let shared: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    (spread > 0.0).then(|| shared / spread)
}

fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_stands_in_the_middle() {
        for (samples, expected) in [
            (&[][..], None),
            (&[3.0], Some(3.0)),
            (&[9.0, 1.0, 2.0], Some(2.0)),
            (&[4.0, 1.0, 2.0, 9.0], Some(3.0)),
        ] {
            assert_eq!(median(samples), expected);
        }
    }

    #[test]
    fn a_percentile_is_one_of_the_samples() {
        let samples: Vec<f64> = (1..=30).rev().map(f64::from).collect();
        assert_eq!(percentile(&samples, 95), Some(29.0));
        assert_eq!(percentile(&samples, 100), Some(30.0));
        assert_eq!(percentile(&samples, 0), Some(1.0));
        assert_eq!(percentile(&[], 95), None);
    }

    #[test]
    fn the_slope_of_a_line_is_its_own() {
        let points: Vec<(f64, f64)> =
            [100.0, 200.0, 1000.0].map(|x| (x, 7000.0 + 61.5 * x)).to_vec();
        let found = slope(&points).expect("x changes");
        assert!((found - 61.5).abs() < 1e-9, "{found}");
        assert_eq!(slope(&[(1.0, 2.0), (1.0, 3.0)]), None);
        assert_eq!(slope(&[]), None);
    }
}
