//! What a connection does while its peer does not read (decision 21).
//! Counting the bytes is left to the driver.

use transom_policy::Limits;

use crate::effect::Effect;

/// The two marks on unwritten output, and where it stands between them.
///
/// Each mark is left at half of it: at the mark itself, every unit written would start what the next one stops.
#[derive(Debug)]
pub(crate) struct Marks {
    rest: u64,
    stop: u64,
    pressure: Pressure,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pressure {
    /// Everything flows.
    Low,
    /// Subscriptions rest; answers still flow and reading goes on, so that a cancel is heard.
    Resting,
    /// Reading rests too.
    Stopped,
}

impl Marks {
    pub(crate) fn new(limits: &Limits) -> Marks {
        Marks {
            rest: limits.unwritten_bytes_rest,
            stop: limits.unwritten_bytes_stop,
            pressure: Pressure::Low,
        }
    }

    /// Takes in how much is unwritten and puts out what changes.
    pub(crate) fn unwritten(&mut self, out: &mut Vec<Effect>, bytes: u64) {
        let before = self.pressure;
        self.pressure = self.pressure_at(bytes);

        let notices = |pressure| pressure == Pressure::Low;
        let reading = |pressure| pressure != Pressure::Stopped;
        let (was, is) = (before, self.pressure);
        // Rising, subscriptions rest before reading does; falling, reading goes on first.
        if notices(was) && !notices(is) {
            out.push(Effect::Notices(false));
        }
        if reading(was) != reading(is) {
            out.push(Effect::Reading(reading(is)));
        }
        if !notices(was) && notices(is) {
            out.push(Effect::Notices(true));
        }
    }

    fn pressure_at(&self, bytes: u64) -> Pressure {
        let stopped_stays = self.pressure == Pressure::Stopped && bytes > self.stop / 2;
        let resting_stays = self.pressure != Pressure::Low && bytes > self.rest / 2;
        if bytes >= self.stop || stopped_stays {
            Pressure::Stopped
        } else if bytes >= self.rest || resting_stays {
            Pressure::Resting
        } else {
            Pressure::Low
        }
    }
}
