//! The card's clock on the guest's.
//!
//! Before and after the command, the guest reads its own clock, the card's, and its own again. Each such
//! exchange bounds how far the clocks are apart: the card's reading lies between the two of the guest.
//! The tightest one at each end gives offset and drift, and half its width is the error.
//!
//! Within that error, causes decide: a command reaches the card after the driver began to write it, and
//! the driver's handler runs after the card sent its interrupt ([`Clock::moved`]).

use serde::Serialize;

use crate::capture::Exchange;

/// How the card's clock was put on the guest's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Clock {
    /// A time of the card, in ns.
    card: i64,
    /// The guest's time then.
    guest: i64,
    /// How much faster the guest's clock runs, in parts of 10⁹.
    pub drift: i64,
    /// How far a time may be off, in ns.
    pub error: i64,
}

impl Clock {
    /// Fits it. Without exchanges there is none.
    pub(crate) fn fit(exchanges: &[Exchange]) -> Option<Self> {
        let (first, last) = exchanges.split_at(split(exchanges));
        let (first, last) = (tightest(first)?, tightest(last));
        let (card, guest) = (first.card, middle(first));
        let wide = |exchange: Exchange| (exchange.after - exchange.before) / 2;
        let Some(last) = last else {
            return Some(Self { card, guest, drift: 0, error: wide(first) });
        };
        let (apart, elapsed) = (last.card.checked_sub(card)?, middle(last).checked_sub(guest)?);
        let gain = i128::from(elapsed.checked_sub(apart)?) * 1_000_000_000;
        let drift = gain.checked_div(apart.into()).unwrap_or(0).try_into().ok()?;
        Some(Self { card, guest, drift, error: wide(first).max(wide(last)) })
    }

    /// Moves it so that nothing has an effect before its cause, as far as its error allows that.
    /// `earliest` and `latest` are how far it must and may be moved, in ns.
    pub(crate) fn moved(&self, earliest: i64, latest: i64) -> i64 {
        let by = match earliest <= latest {
            true => 0.clamp(earliest, latest),
            false => earliest / 2 + latest / 2,
        };
        by.clamp(-self.error, self.error)
    }

    /// The guest's time at a time of the card.
    pub(crate) fn guest(&self, card: i64) -> i64 {
        let since = i128::from(card) - i128::from(self.card);
        let since = since + since * i128::from(self.drift) / 1_000_000_000;
        self.guest.saturating_add(since.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
    }
}

/// Where those after the command begin: behind the largest gap.
fn split(exchanges: &[Exchange]) -> usize {
    let gaps = exchanges.windows(2).enumerate().map(|(index, pair)| match pair {
        [one, next] => (next.before.saturating_sub(one.after), index + 1),
        _ => (0, 0),
    });
    gaps.max().map_or(exchanges.len(), |(_, index)| index)
}

fn tightest(exchanges: &[Exchange]) -> Option<Exchange> {
    exchanges.iter().copied().min_by_key(|exchange| exchange.after - exchange.before)
}

fn middle(exchange: Exchange) -> i64 {
    exchange.before + (exchange.after - exchange.before) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offset_and_drift_are_found_within_the_error() {
        // The guest's clock is 1 s ahead and gains 100 parts of a million.
        let guest = |card: i64| 1_000_000_000 + card + card / 10_000;
        let exchange = |card: i64, slack: i64| Exchange {
            before: guest(card) - slack,
            after: guest(card) + 2 * slack,
            card,
        };
        let list = [
            exchange(1_000, 900),
            exchange(5_000, 20),
            exchange(9_000, 500),
            exchange(3_000_000_000, 30),
            exchange(3_000_010_000, 700),
        ];
        let clock = Clock::fit(&list).unwrap();
        assert_eq!(clock.error, 45);
        for card in [0, 5_000, 1_500_000_000, 3_000_000_000] {
            let off = (clock.guest(card) - guest(card)).abs();
            assert!(off <= clock.error, "{card}: {off}");
        }
    }

    #[test]
    fn causes_come_first_as_far_as_the_error_allows() {
        let exchange = Exchange { before: 0, after: 200, card: 0 };
        let clock = Clock::fit(&[exchange]).unwrap();
        for ((earliest, latest), by) in
            [((-5, 5), 0), ((20, 50), 20), ((-50, -20), -20), ((60, 20), 40), ((500, 900), 100)]
        {
            assert_eq!(clock.moved(earliest, latest), by, "{earliest} to {latest}");
        }
    }

    #[test]
    fn without_exchanges_there_is_no_clock() {
        assert_eq!(Clock::fit(&[]), None);
        let one = Exchange { before: 10, after: 14, card: 2 };
        assert_eq!(Clock::fit(&[one]).map(|clock| clock.guest(3)), Some(13));
    }
}
