"""What to do when a cloud or an operator tells of a server's fate: from the type of a CloudEvent to an action; pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Action = Literal["drain", "restore"]
Cause = Literal["preemption", "maintenance", "scale-in"]


@dataclass(frozen=True, slots=True)
class Notice:
    """`cause` is the class under which the recovery is counted; None where the server is back."""

    action: Action
    cause: Cause | None = None


# In order: the first that fits. Words are looked for in the type, however it is written: AWS says "EC2 Spot Instance
# Interruption Warning", Azure "Preempt", Google "compute.instances.preempted". A rebalance recommendation is only a
# forecast, and fits none.
_BY_WORDS: tuple[tuple[re.Pattern[str], Notice], ...] = (
    (
        re.compile(r"restored|recovered|resumed|maintenance.?(ended|completed)|instance.?(started|running)"),
        Notice("restore"),
    ),
    (re.compile(r"preempt|spot.*(interrupt|evict|terminat)|evict"), Notice("drain", "preemption")),
    (re.compile(r"scale.?in|lifecycle.*terminat|shutdown|terminat"), Notice("drain", "scale-in")),
    (re.compile(r"maintenance|freeze|reboot|redeploy|retire"), Notice("drain", "maintenance")),
)


def read_notice(event_type: str) -> Notice | None:
    """None for events that ask for nothing."""
    words = event_type.lower()
    return next((notice for pattern, notice in _BY_WORDS if pattern.search(words)), None)
