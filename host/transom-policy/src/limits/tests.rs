//! Defaults and what follows from them.

use super::{KEYS, Limits, MIB};

#[test]
fn every_default_is_within_what_its_key_allows() {
    for key in KEYS {
        let value = *(key.field)(&mut Limits::default());
        assert!((key.least..=key.most).contains(&value), "{} = {value}", key.name);
    }
}

#[test]
fn every_key_sets_a_field_of_its_own() {
    for key in KEYS {
        let mut limits = Limits::default();
        *(key.field)(&mut limits) = 7;
        for other in KEYS {
            let value = *(other.field)(&mut limits.clone());
            assert_eq!(value == 7, other.name == key.name, "{} through {}", other.name, key.name);
        }
    }
}

#[test]
fn a_large_unit_buys_time_and_an_endless_loop_on_a_small_one_does_not() {
    let limits = Limits { call_ms_base: 500, call_ms_per_mib: 100, ..Limits::default() };
    assert_eq!(limits.call_ms(0), 500);
    assert_eq!(limits.call_ms(1000), 500);
    assert_eq!(limits.call_ms(MIB), 600);
    assert_eq!(limits.call_ms(160 * MIB), 16_500);

    let generous = Limits { call_ms_per_mib: u64::MAX, ..Limits::default() };
    assert_eq!(generous.call_ms(2 * MIB), u64::MAX, "a sum never wraps");
}
