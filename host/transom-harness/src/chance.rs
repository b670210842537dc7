//! Chance as an argument: ids and jitter drawn from a seed, so that the same inputs give the same log.

use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};
use transom_frame::MessageId;
use uuid::Builder;

/// A stream of ids and numbers that depends on its seed alone.
#[derive(Debug, Clone)]
pub struct Chance(ChaCha8Rng);

impl Chance {
    /// Equal seeds give equal ids and delays.
    pub fn new(seed: [u8; 32]) -> Chance {
        Chance(ChaCha8Rng::from_seed(seed))
    }

    /// A fresh seed for somebody else's stream.
    pub fn split(&mut self) -> [u8; 32] {
        let mut seed = [0; 32];
        self.0.fill_bytes(&mut seed);
        seed
    }

    /// The text of a UUID v4.
    pub fn uuid(&mut self) -> String {
        let mut bytes = [0; 16];
        self.0.fill_bytes(&mut bytes);
        Builder::from_random_bytes(bytes).into_uuid().to_string()
    }

    /// A fresh UUID v4 as message id (S-52).
    pub fn message_id(&mut self) -> MessageId {
        self.uuid().into()
    }

    /// Uniform in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        // 53 bits are what a double can hold.
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }
}
