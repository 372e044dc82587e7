"""Metrics in the text format of Prometheus: requests, times, answers by status.

Nothing here depends on private rows: which questions are answered, repeated or relaxed follows from
the questions alone.
"""

from __future__ import annotations

from collections import Counter
from threading import Lock

from scumble.private.database.live.results import LiveAnswer
from scumble.private.database.results import Answer
from scumble.public.estimate import Estimate

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Metrics:
    """Counters of one server process."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._within: Counter[float] = Counter()
        self._seconds = 0.0
        self._answers: Counter[str] = Counter()
        self._failed_logins = 0
        self.running = 0

    def request(self, route: str, status: int, seconds: float) -> None:
        """Count a request that was served."""
        with self._lock:
            self._requests[route, status] += 1
            self._seconds += seconds
            for limit in _SECONDS:
                self._within[limit] += seconds <= limit

    def answered(self, reply: Answer | LiveAnswer) -> None:
        """Count the numbers of an answer by their status; those of a release are "free"."""
        answer = reply.estimate
        free = reply.status if isinstance(reply, LiveAnswer) else "free"
        if isinstance(answer, Estimate):
            found = [answer]
        else:
            rows = (row for _, row in answer.rows)
            found = [one for row in rows for one in (row if isinstance(row, tuple) else (row,))]
        with self._lock:
            self._answers.update(each.status_label or free for each in found)

    def requests(self) -> dict[tuple[str, int], int]:
        """Return the number of requests by route and status."""
        with self._lock:
            return dict(self._requests)

    def failed_login(self) -> None:
        with self._lock:
            self._failed_logins += 1

    def text(self) -> str:
        """Return all counters as Prometheus reads them."""
        with self._lock:
            total = sum(self._requests.values())
            lines = ["# TYPE scumble_requests_total counter"]
            lines += [
                f'scumble_requests_total{{route="{route}",status="{status}"}} {count}'
                for (route, status), count in sorted(self._requests.items())
            ]
            lines += ["# TYPE scumble_request_seconds histogram"]
            lines += [
                f'scumble_request_seconds_bucket{{le="{limit:g}"}} {self._within[limit]}'
                for limit in _SECONDS
            ]
            lines += [
                f'scumble_request_seconds_bucket{{le="+Inf"}} {total}',
                f"scumble_request_seconds_sum {self._seconds:.6f}",
                f"scumble_request_seconds_count {total}",
                "# TYPE scumble_answers_total counter",
            ]
            lines += [
                f'scumble_answers_total{{status="{status}"}} {count}'
                for status, count in sorted(self._answers.items())
            ]
            lines += [
                "# TYPE scumble_failed_logins_total counter",
                f"scumble_failed_logins_total {self._failed_logins}",
                "# TYPE scumble_requests_running gauge",
                f"scumble_requests_running {self.running}",
            ]
        return "\n".join(lines) + "\n"
