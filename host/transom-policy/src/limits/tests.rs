//! Defaults and what follows from them.

use super::{DOOR_LIMITS, LIMIT_KEYS, LIMITS, Limits, MIB};
use crate::keys::Literal;

#[test]
fn every_default_is_within_what_its_key_allows() {
    for limit in LIMIT_KEYS {
        let value = *limit.field(&mut Limits::default());
        assert!((limit.least()..=limit.most()).contains(&value), "{} = {value}", limit.key.name);
        assert_eq!(limit.key.default, Some(Literal::Number(value)), "{}", limit.key.name);
    }
}

#[test]
fn every_key_sets_a_field_of_its_own() {
    for limit in LIMIT_KEYS {
        let mut limits = Limits::default();
        *limit.field(&mut limits) = 7;
        for other in LIMIT_KEYS {
            let value = *other.field(&mut limits.clone());
            let (name, through) = (other.key.name, limit.key.name);
            assert_eq!(value == 7, name == through, "{name} through {through}");
        }
    }
}

#[test]
fn a_door_may_set_what_bounds_the_door() {
    assert_eq!(LIMITS.names(), LIMIT_KEYS.map(|limit| limit.key.name));
    assert_eq!(
        DOOR_LIMITS.names(),
        [
            "unit-bytes-max",
            "nesting-max",
            "pending-requests-max",
            "unwritten-bytes-rest",
            "unwritten-bytes-stop",
            "live-notices-max",
            "connections-max",
            "sessions-max",
        ]
    );
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
