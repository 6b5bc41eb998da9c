"""Blackjack-v1 as a finite model: cards are drawn from an infinite deck.

A hand is (sum, whether an ace counts as 11). A state is (the player's sum, the dealer's card,
whether the player has such an ace), numbered like the observation space in `OneHot`.
"""

from collections import Counter
from functools import cache

import numpy as np

from rareswitch.gym import FiniteModel

CARDS = {card: (4 if card == 10 else 1) / 13.0 for card in range(1, 11)}
STATES = [(total, card, ace) for total in range(32) for card in range(11) for ace in range(2)]
NUMBERS = {state: number for number, state in enumerate(STATES)}
Hand = tuple[int, int]


def hit(hand: Hand, card: int) -> Hand:
    """Return the hand with one more card; an ace counts as 11 unless that is a bust."""
    total, ace = hand[0] - 10 * hand[1] + card, hand[1] or card == 1
    return (total + 10, 1) if ace and total + 10 <= 21 else (total, 0)


@cache
def dealt(hand: Hand) -> dict[int, float]:
    """Return the distribution of the final score of the dealer, who draws below 17; 0 is a bust."""
    if hand[0] >= 17:
        return {hand[0] if hand[0] <= 21 else 0: 1.0}
    ends: Counter[int] = Counter()
    for card, chance in CARDS.items():
        for score, then in dealt(hit(hand, card)).items():
            ends[score] += chance * then
    return dict(ends)


def model() -> FiniteModel:
    """Return the model; action 0 sticks and action 1 draws another card."""
    shape = (len(STATES), 2, len(CARDS))
    probabilities, rewards = np.zeros((2, *shape))
    next_states, ended = np.zeros(shape, np.int64), np.ones(shape, bool)
    for number, (total, shown, ace) in enumerate(STATES):
        if shown == 0 or total > 21:
            continue  # no such observation
        probabilities[number, 0, 0] = 1.0
        ends = dealt(hit((0, 0), shown))
        rewards[number, 0, 0] = sum(p * np.sign(total - score) for score, p in ends.items())
        for k, (card, chance) in enumerate(CARDS.items()):
            probabilities[number, 1, k] = chance
            after, has_ace = hit((total, ace), card)
            if after > 21:
                rewards[number, 1, k] = -1.0
            else:
                next_states[number, 1, k] = NUMBERS[after, shown, has_ace]
                ended[number, 1, k] = False
    initial = np.zeros(len(STATES))
    for first, second, shown in np.ndindex(10, 10, 10):
        total, ace = hit(hit((0, 0), first + 1), second + 1)
        chance = CARDS[first + 1] * CARDS[second + 1] * CARDS[shown + 1]
        initial[NUMBERS[total, shown + 1, ace]] += chance
    return FiniteModel(
        probabilities=probabilities,
        next_states=next_states,
        rewards=rewards,
        ended=ended,
        initial=initial,
    )
