"""The books: by identity, once, and always adding up. Example cases and a rule-based machine."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from balancer.fleet.books import Books, LegChange, Recorded

A = ("call-a", 1)
B = ("call-b", 1)


def started(books: Books, leg: tuple[str, int], version: int) -> Recorded:
    return books.record("r1", 1, leg, LegChange.STARTED, "", version, 0)


def ended(books: Books, leg: tuple[str, int], version: int) -> Recorded:
    return books.record("r1", 1, leg, LegChange.ENDED, "closed_by_caller", version, 0)


def test_a_leg_starts_and_ends_once() -> None:  # bugs B47, B48
    books = Books()
    books.enroll("r1", 1, (), 0, 0)
    assert started(books, A, 1) is Recorded.APPLIED
    assert started(books, A, 1) is Recorded.DUPLICATE
    assert ended(books, A, 2) is Recorded.APPLIED
    assert ended(books, A, 2) is Recorded.DUPLICATE
    assert ended(books, B, 3) is Recorded.DUPLICATE  # never started here
    assert (books.active, books.totals.started, books.totals.ended.total()) == (0, 1, 1)
    assert books.is_balanced
    assert books.last_epoch("call-a") == 1


def test_a_gap_changes_nothing_and_a_new_enrolment_tells_the_truth() -> None:
    books = Books()
    books.enroll("r1", 1, (), 0, 0)
    started(books, A, 1)
    assert started(books, ("call-c", 1), 3) is Recorded.GAP
    assert books.active == 1
    books.enroll("r1", 1, [("call-c", 1)], 4, 0)
    assert books.totals.started == 2
    assert dict(books.totals.ended) == {"unreported": 1}
    assert books.is_balanced


def test_a_lost_life_is_counted_once_and_may_come_back() -> None:  # bugs R1, B18
    books = Books()
    books.enroll("r1", 1, (), 0, 0)
    started(books, A, 1)
    assert [leg.session_id for leg in books.lose("r1", 1, 0)] == ["call-a"]
    assert books.lose("r1", 1, 0) == ()
    assert books.totals.runtime_lost == 1
    assert ended(books, A, 2) is Recorded.UNKNOWN
    books.enroll("r1", 1, [A], 1, 0)
    assert (books.totals.recovered, books.totals.started, books.active) == (1, 1, 1)
    assert books.is_balanced


def test_a_new_balancer_recovers_what_is_live() -> None:
    books = Books()
    books.enroll("r1", 7, [A, B], 40, 0)
    assert (books.totals.recovered, books.active) == (2, 2)
    assert [leg.runtime_id for leg in books.where("call-a")] == ["r1"]


def test_snapshots_are_compared_at_equal_versions_only() -> None:
    books = Books()
    books.enroll("r1", 1, (), 0, 0)
    started(books, A, 1)
    books.compare("r1", 1, 2, 5, 5)
    assert books.is_balanced
    books.compare("r1", 1, 1, 2, 1)
    assert not books.is_balanced
    books.compare("r1", 1, 1, 1, 2)
    assert not books.is_balanced
    books.compare("r1", 1, 1, 1, 1)
    assert books.is_balanced
    books.compare("r1", 1, 1, 1, None)
    assert books.is_balanced


def test_legs_that_nobody_heard_of_are_counted_by_number() -> None:
    books = Books()
    books.enroll("r1", 1, [A], 5, 0)  # before: two legs that came and went, and A
    assert (books.totals.recovered, books.totals.unheard) == (1, 2)
    started(books, B, 6)
    books.enroll("r1", 1, [("call-c", 1)], 13, 0)  # A and B ended, C began, and two more came and went
    assert (books.totals.started, books.totals.ended["unreported"], books.totals.unheard) == (2, 2, 4)
    books.compare("r1", 1, 13, 1, 7)
    assert books.is_balanced


class Truth:
    """One runtime life, which knows what it did."""

    def __init__(self) -> None:
        self.live: list[tuple[str, int]] = []
        self.arrived = self.version = 0

    def start(self) -> tuple[str, int]:
        self.arrived += 1
        self.version += 1
        self.live.append((f"s{self.arrived}", 1))
        return self.live[-1]

    def end(self) -> tuple[str, int]:
        self.version += 1
        return self.live.pop(0)


@given(st.lists(st.sampled_from(["start", "end", "listen", "break", "lose"]), max_size=60))
def test_whatever_is_missed_the_next_enrolment_has_the_number_of_all_legs(history: list[str]) -> None:
    books, truth = Books(), Truth()
    is_heard = False
    for step in history:
        match step:
            case "listen":
                books.enroll("r1", 1, list(truth.live), truth.version, 0)
                is_heard = True
            case "break":
                is_heard = False
            case "lose":
                books.lose("r1", 1, 0)
                is_heard = False
            case "start":
                leg = truth.start()
                if is_heard:
                    assert started(books, leg, truth.version) is Recorded.APPLIED
            case _ if truth.live:
                leg = truth.end()
                if is_heard:
                    assert ended(books, leg, truth.version) is Recorded.APPLIED
    books.enroll("r1", 1, list(truth.live), truth.version, 0)
    books.compare("r1", 1, truth.version, len(truth.live), truth.arrived)
    assert books.is_balanced


class BooksMachine(RuleBasedStateMachine):
    """Two runtimes, few sessions, events that repeat, skip and come from lives that are gone."""

    def __init__(self) -> None:
        super().__init__()
        self.books = Books()
        self.truth: dict[tuple[str, int], set[tuple[str, int]]] = {}
        self.version: dict[tuple[str, int], int] = {}

    lives = st.tuples(st.sampled_from(["r1", "r2"]), st.integers(1, 2))
    legs = st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(1, 2))

    @rule(life=lives, live=st.sets(legs, max_size=3), version=st.integers(0, 5))
    def enroll(self, life: tuple[str, int], live: set[tuple[str, int]], version: int) -> None:
        self.books.enroll(*life, live, version, 0)
        self.truth[life] = set(live)
        self.version[life] = version

    @rule(life=lives, leg=legs, change=st.sampled_from(LegChange), step=st.sampled_from([1, 1, 1, 1, 0, 2]))
    def event(self, life: tuple[str, int], leg: tuple[str, int], change: LegChange, step: int) -> None:
        version = self.version.get(life, 0) + step
        before = self.books.totals.implied_active
        found = self.books.record(*life, leg, change, "why", version, 0)
        arrives = change in (LegChange.STARTED, LegChange.MOVED_IN)
        if life not in self.truth:
            assert found is Recorded.UNKNOWN
        elif step == 1:
            self.version[life] = version
            if arrives != (leg in self.truth[life]):
                assert found is Recorded.APPLIED
                (self.truth[life].add if arrives else self.truth[life].remove)(leg)
            else:
                assert found is Recorded.DUPLICATE
        else:
            assert found is (Recorded.DUPLICATE if step == 0 else Recorded.GAP)
        if found is not Recorded.APPLIED:
            assert self.books.totals.implied_active == before

    @rule(life=lives)
    def lose(self, life: tuple[str, int]) -> None:
        before = self.books.totals.runtime_lost
        lost = self.books.lose(*life, 0)
        assert {(leg.session_id, leg.epoch) for leg in lost} == self.truth.pop(life, set())
        self.version.pop(life, None)
        assert self.books.totals.runtime_lost == before + len(lost)

    @invariant()
    def the_books_are_the_truth(self) -> None:
        assert self.books.active == sum(len(live) for live in self.truth.values()) >= 0
        assert self.books.totals.implied_active == self.books.active
        assert self.books.is_balanced
        for session_id in "abc":
            expected = {(life, leg) for life, live in self.truth.items() for leg in live if leg[0] == session_id}
            found = self.books.where(session_id)
            assert {((leg.runtime_id, leg.incarnation), (leg.session_id, leg.epoch)) for leg in found} == expected


BooksMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestBooks = BooksMachine.TestCase
