"""A summary of the signatures of a valid record: their number, keys and owners.

The rulebook has checked each signature with its entry. This check counts them for the verdict.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rareswitch.campaigns.proof.checks import Check
from rareswitch.campaigns.rulebook.rows import Entry
from rareswitch.campaigns.rulebook.signatures import PASSKEY, PASSWORD
from rareswitch.campaigns.rulebook.signed import fingerprint_of, method_of, unsigned
from rareswitch.campaigns.rulebook.state import State

WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


@dataclass(kw_only=True)
class SignatureCheck(Check):
    """A check of signatures: the numbers of signing passkeys and of password signatures.

    >>> SignatureCheck(name="signatures", rows=1, remarks=[], passkeys=0, passwords=1).signed
    'signed by one password (as the service recorded)'
    """

    passkeys: int
    passwords: int

    @property
    def signed(self) -> str:
        """The keys that signed, in words, for the verdict."""
        parts = [_count(self.passkeys, "passkey")] if self.passkeys else []
        if self.passwords:
            parts.append(f"{_count(self.passwords, 'password')} (as the service recorded)")
        return f"signed by {' and '.join(parts)}"

    @property
    def outcome(self) -> str:
        return f"{super().outcome}, {self.signed}"


def signature_check(entries: Sequence[Entry], state: State) -> SignatureCheck | None:
    """Return the check of all signatures; None if no entry has one."""
    signed = [entry for entry in entries if method_of(entry) is not None]
    if not signed:
        return None
    by_password = [entry for entry in signed if method_of(entry) == PASSWORD]
    remarks = []
    for key in state.passkeys.values():
        mine = [one for one in signed if fingerprint_of(state, one) == key.fingerprint]
        remarks.append(
            f"{key.person}, passkey of {key.relying_party} ({key.algorithm}): "
            f"{_entries(mine)}; SHA-256 of the public key: {key.fingerprint}"
        )
    for person in dict.fromkeys(entry.actor for entry in by_password):
        mine = [entry for entry in by_password if entry.actor == person]
        remarks.append(
            f"by password, as the service recorded, without proof: {person}, {_entries(mine)}"
        )
    if without := [*unsigned(entries)]:
        remarks.append(f"decisions without a signature, with typed names: {_entries(without)}")
    passkeys = len({fingerprint_of(state, e) for e in signed if method_of(e) == PASSKEY})
    return SignatureCheck(
        name="signatures",
        rows=len(signed),
        remarks=remarks,
        passkeys=passkeys,
        passwords=len({entry.actor for entry in by_password}),
    )


def _count(number: int, noun: str) -> str:
    """Return a number in words with its noun.

    >>> _count(2, "passkey"), _count(1, "password")
    ('two passkeys', 'one password')
    """
    word = WORDS[number] if number < len(WORDS) else str(number)
    return f"{word} {noun}{'' if number == 1 else 's'}"


def _entries(entries: Iterable[Entry]) -> str:
    numbers = [str(entry.number) for entry in entries]
    return f"{'entry' if len(numbers) == 1 else 'entries'} {', '.join(numbers)}"
