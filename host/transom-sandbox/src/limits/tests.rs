//! Arithmetic of limits. What a guest sees of them is told in `crate::tests`.

use super::*;

const PAGE: usize = 64 << 10;

#[test]
fn memories_are_counted_together() {
    let mut meter = Meter::new(&Limits { memory_bytes: 10 * PAGE as u64, ..Limits::default() });
    for (current, desired, allowed, used) in [
        (0, 4 * PAGE, true, 4),
        // A second memory.
        (0, 5 * PAGE, true, 9),
        (4 * PAGE, 6 * PAGE, false, 9),
        (5 * PAGE, 6 * PAGE, true, 10),
        (6 * PAGE, 7 * PAGE, false, 10),
    ] {
        assert_eq!(meter.memory_growing(current, desired, None).unwrap(), allowed);
        assert_eq!(meter.memory_bytes(), used * PAGE as u64);
    }
    let refused =
        Refused { limit: "memory_bytes", found: 11 * PAGE as u64, allowed: 10 * PAGE as u64 };
    assert_eq!(meter.refused(), Some(refused));
    meter.begin_call(1);
    assert_eq!(meter.refused(), None);
}

#[test]
fn growth_that_failed_after_all_is_taken_back_once() {
    let mut meter = Meter::new(&Limits::default());
    assert!(meter.memory_growing(0, 4 * PAGE, None).unwrap());
    assert!(meter.memory_growing(4 * PAGE, 9 * PAGE, None).unwrap());
    for _ in 0..2 {
        meter.memory_grow_failed(wasmtime::Error::msg("no memory")).unwrap();
        assert_eq!(meter.memory_bytes(), 4 * PAGE as u64);
    }
}

#[test]
fn tables_are_counted_together() {
    let mut meter = Meter::new(&Limits { table_elements: 100, ..Limits::default() });
    assert!(meter.table_growing(0, 60, None).unwrap());
    assert!(!meter.table_growing(0, 60, None).unwrap());
    assert_eq!(
        meter.refused(),
        Some(Refused { limit: "table_elements", found: 120, allowed: 100 })
    );
}

#[test]
fn time_grows_with_what_is_read() {
    let limits = Limits { call_base_ms: 1_000, call_ms_per_mib: 100, ..Limits::default() };
    for (bytes, ms) in [
        (0, 1_000),
        (1000, 1_000),
        (1 << 20, 1_100),
        (160 << 20, 17_000),
        (u64::MAX, 1_759_218_604_442_599),
    ] {
        assert_eq!(limits.call_ms(bytes), ms, "{bytes} bytes");
    }
    assert_eq!(Limits { call_ms_per_mib: u64::MAX, ..limits }.call_ms(u64::MAX), u64::MAX);
}

#[test]
fn limits_follow_the_units_of_a_door() {
    // S-9: 160 MiB a line; bytes, text and frame of it lie in the guest at once (decision 54).
    let large = Limits::for_units(160 << 20);
    assert!(large.memory_bytes >= 640 << 20 && large.bytes_per_call > 320 << 20);
    assert_eq!(Limits::for_units(0), Limits::default());
    assert_eq!(Limits::for_units(u64::MAX).memory_bytes, u64::MAX);
}

#[test]
fn only_the_threads_own_time_counts() {
    let mut meter = Meter::new(&Limits::default());
    meter.begin_call(100);
    for (now_ms, ticks) in [
        (5_000, Some(11)),
        (5_000, Some(11)),
        (5_060, Some(5)),
        (5_099, Some(2)),
        (5_100, None),
        (5_300, None),
    ] {
        let verdict = match meter.tick(Duration::from_millis(now_ms)) {
            UpdateDeadline::Continue(ticks) => Some(ticks),
            _ => None,
        };
        assert_eq!(verdict, ticks, "at {now_ms} ms");
    }
    assert_eq!(meter.spent_ms(), 300);
    // The next call starts anew.
    meter.begin_call(100);
    assert!(matches!(meter.tick(Duration::from_millis(9_000)), UpdateDeadline::Continue(11)));
    assert_eq!(meter.spent_ms(), 0);
}

#[test]
fn a_call_that_may_take_long_is_looked_at_often() {
    let mut meter = Meter::new(&Limits::default());
    meter.begin_call(3_600_000);
    assert!(matches!(meter.tick(Duration::from_millis(1)), UpdateDeadline::Continue(11)));
}
