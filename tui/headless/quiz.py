"""The user's answers to the questions of a lesson: the keys that choose one, and the score."""

from __future__ import annotations

from workloads.protocol.results import WorkloadInfo


def choice_keys(info: WorkloadInfo) -> str:
    """Return the keys that choose an answer, for a prompt: ``1, 2 or 3``; empty without choices."""
    numbers = [str(number) for number in range(1, len(info.choices) + 1)]
    return f"{', '.join(numbers[:-1])} or {numbers[-1]}" if numbers else ""


def parse_choice(info: WorkloadInfo, key: str) -> int:
    """Return the number of the choice that a key picks; 0 if it picks none."""
    if len(key) == 1 and key.isascii() and key.isdigit() and int(key) <= len(info.choices):
        return int(key)
    return 0


def choose_number(typed: str, key: str, most: int) -> str:
    """Return a typed number after one more key: a digit continues it, or else begins it anew.

    Args:
        typed: the digits typed so far.
        key: the next key; any but a digit erases the number.
        most: the highest number; the lowest is 1.
    """
    for number in (typed + key, key):
        if number.isascii() and number.isdigit() and 1 <= int(number) <= most:
            return number
    return ""


class Quiz:
    """Stores the first choice for each question: a later one may know the answer."""

    def __init__(self) -> None:
        self._chosen: dict[str, tuple[int, bool]] = {}
        self._ended: set[str] = set()

    def chosen(self, info: WorkloadInfo) -> int:
        """Return the number of the choice for a workload's question; 0 if there is none yet."""
        return self._chosen.get(info.name, (0, False))[0]

    def store(self, info: WorkloadInfo, number: int) -> None:
        """Store the choice for a workload's question; 0 stores none."""
        if number:
            self._chosen.setdefault(info.name, (number, number == info.right_choice))

    def end(self, info: WorkloadInfo) -> None:
        """Record that the answer to a workload's question was shown."""
        self._ended.add(info.name)

    def list_answers(self) -> dict[str, str]:
        """Return how each ended step was answered, by name: ``right``, ``wrong`` or ``done``."""
        words = {True: "right", False: "wrong"}
        return {
            name: words[self._chosen[name][1]] if name in self._chosen else "done"
            for name in sorted(self._ended)
        }

    def format_score(self) -> str:
        """Return how many answers were right, of the ended steps: ``9 of your 13 answers …``.

        Without any answer it is empty.
        """
        ended = [right for name, (_, right) in self._chosen.items() if name in self._ended]
        count, right = len(ended), sum(ended)
        if count == 1:
            return "Your answer was right." if right else "Your answer was wrong."
        verb = "was" if right == 1 else "were"
        return f"{right} of your {count} answers {verb} right." if count else ""
