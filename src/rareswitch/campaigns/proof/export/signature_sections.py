"""The sections of a report about signatures and comments; omitted if there are none."""

from collections.abc import Iterator
from typing import Any

from rareswitch.campaigns.proof.export.blocks import Block, Facts, Section, Table
from rareswitch.campaigns.rulebook.approval import Approval
from rareswitch.campaigns.rulebook.signed import (
    FEW_DIGITS,
    comments_on,
    decisions_of,
    method_of,
    signed_line,
    signed_plain,
)
from rareswitch.campaigns.rulebook.state import Candidate, State


def signature_sections(facts: Facts) -> Iterator[Section]:
    """Yield the signatures with name, time and meaning, their keys, and all comments."""
    state, signed = facts.state, [one for one in facts.entries if method_of(one) is not None]
    if signed:
        rows = [_row(signed_plain(state, entry)) for entry in signed]
        blocks: list[Block] = [
            "A passkey signed SHA-256(subject ‖ protocol ‖ head of the ledger ‖ meaning), and the "
            "ledger holds its signature: verify_export.py checks it again. A signature by password "
            "is a statement of the service, without proof.",
            Table(("entry", "when", "name", "in the sense of", "meaning", "by", "key"), rows),
        ]
        if state.passkeys:
            blocks.append("Ask each person for the SHA-256 of their public key, and compare.")
            keys = [(key.person, key.algorithm, key.relying_party, key.number, key.fingerprint)
                    for key in state.passkeys.values()]  # fmt: skip
            header = (
                "person",
                "algorithm",
                "made for",
                "registered in entry",
                "SHA-256 of the key",
            )
            blocks.append(Table(header, keys))
        yield Section("Signatures", "21 CFR 11.50, 11.70", blocks)
    if len(state.comments):
        # A comment by an unblinded person may reveal returns.
        rows = [(one.number, one.at, one.actor, one.payload["meaning"], one.reason)
                for one in state.comments]  # fmt: skip
        table = Table(("entry", "when", "who", "meaning", "comment"), rows)
        yield Section("Comments and reviews", "", [table], closed=True)


def _row(signed: dict[str, Any]) -> tuple[Any, ...]:
    names = ("entry", "at", "by", "sense", "meaning", "method")
    key = signed["fingerprint"]
    return (*(signed[name] for name in names), key and f"{key[:FEW_DIGITS]}…")


def candidate_signatures(state: State, candidate: Candidate) -> list[str]:
    """Describe the signatures for a candidate, if any person signed."""
    found = [*decisions_of(candidate), *comments_on(state, candidate.number)]
    return [signed_line(signed_plain(state, one)) for one in found if method_of(one) is not None]


def approval_words(approval: Approval) -> str:
    """Describe how a candidate comes into force."""
    if not approval.two_persons:
        return "by the switching rule alone"
    if not approval.several:
        return "by one person besides the proposer, who may be the schedule"
    words = f"by at least {max(approval.quorum, len(approval.groups))} persons, who did not propose"
    groups = [f"{name} ({', '.join(persons)})" for name, persons in approval.groups.items()]
    return f"{words}; one of each of {'; '.join(groups)}" if groups else words
