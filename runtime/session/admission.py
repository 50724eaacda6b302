"""Admission: the one place where it is decided whether a new leg may come in. Decided and entered in one step."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from runtime.primitives.ids import Epoch, SessionId
from runtime.primitives.load_snapshot import RuntimeState
from runtime.primitives.reasons import RefusalReason
from runtime.session.guard import OverloadGuard, Saturation
from runtime.session.inflow import InflowBucket
from runtime.session.ledger import DuplicateSession, Ledger, Leg
from runtime.session.lifecycle import LegState
from runtime.session.settlement import PlacementRef, Settlements

__all__ = ["Admission", "AdmissionRequest", "Admitted", "Refused", "Suitability"]

_LIMIT_RETRY_MS: Final = 1_000
_OVERLOAD_RETRY_MS: Final = 2_000
_NOT_READY_RETRY_MS: Final = 1_000
_REMEMBERED_EPOCHS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Suitability:
    """What this runtime can serve."""

    agents: frozenset[str]
    abilities: frozenset[str]


@dataclass(frozen=True, slots=True)
class AdmissionRequest:
    """A wish for a place. Empty `agent` asks for the default one."""

    session_id: SessionId
    epoch: Epoch
    lease_ns: int
    is_adoption: bool = False
    is_relayed: bool = False
    agent: str = ""
    abilities: frozenset[str] = frozenset()
    fair_share_per_s: float = 0.0
    placement: PlacementRef | None = None
    oldest_open_placement: int = 0
    tenant: str = ""


@dataclass(frozen=True, slots=True)
class Admitted:
    leg: Leg


@dataclass(frozen=True, slots=True)
class Refused:
    reason: RefusalReason
    retry_after_ms: int
    message: str


class Admission:
    """Admits or refuses, and enters what it admits in the ledger within the same step, so the next decision sees it.

    Adoption (a moved leg) skips bucket and guard and may use the room between `hard_limit` and `emergency_limit`.
    """

    def __init__(
        self,
        ledger: Ledger,
        settlements: Settlements,
        bucket: InflowBucket,
        guard: OverloadGuard,
        suitability: Suitability,
        *,
        hard_limit: int,
        emergency_limit: int,
    ) -> None:
        self._ledger = ledger
        self._settlements = settlements
        self._bucket = bucket
        self._guard = guard
        self._suitability = suitability
        self._hard_limit = hard_limit
        self._emergency_limit = emergency_limit
        self._epochs: OrderedDict[SessionId, Epoch] = OrderedDict()

    def reserve(self, request: AdmissionRequest, state: RuntimeState, saturation: Saturation, now_ns: int) -> Admitted | Refused:
        """Decides on one wish.

        Idempotent per (session, epoch): a live reservation answers again. A balancer's wish with a newer epoch takes the place of
        a reservation that nobody has attached to: its answer was lost, and the balancer asks anew. Raises DuplicateSession
        where the session is attached or active here. Whatever the outcome, the placement that asked is settled.
        """
        self._ledger.expire(now_ns)
        held = self._ledger.find(request.session_id)
        if held is not None:
            self._settle(request)
            if held.state is LegState.RESERVED and held.epoch == request.epoch:
                return Admitted(held)
            if not self._supersedes(request, held):
                raise DuplicateSession(request.session_id)
            self._ledger.release(held.ticket)
        refusal = self._refusal(request, state, saturation, now_ns)
        if refusal is not None:
            self._ledger.count_refusal(refusal.reason)
            self._settle(request)
            return refusal
        leg = self._ledger.reserve(
            request.session_id,
            request.epoch,
            lease_ns=request.lease_ns,
            now_ns=now_ns,
            is_adoption=request.is_adoption,
            is_relayed=request.is_relayed,
            placement=request.placement,
            tenant=request.tenant,
        )
        self._remember(request.session_id, request.epoch)
        self._settle(request)
        return Admitted(leg)

    @staticmethod
    def _supersedes(request: AdmissionRequest, held: Leg) -> bool:
        """A direct caller never does: it names no placement, and could take others' places."""
        return held.state is LegState.RESERVED and request.epoch > held.epoch and request.placement is not None

    def release(self, ticket: str) -> bool:
        return self._ledger.release(ticket)

    def release_placement(self, session_id: SessionId, epoch: Epoch, placement: PlacementRef) -> bool:
        """Settles a placement whose answer never arrived and gives its reservation back, if it is still unused."""
        self._settlements.settle(placement)
        leg = self._ledger.find(session_id)
        if leg is None or leg.epoch != epoch or leg.placement != placement:
            return False
        return self._ledger.release(leg.ticket)

    def _refusal(self, request: AdmissionRequest, state: RuntimeState, saturation: Saturation, now_ns: int) -> Refused | None:
        if state is RuntimeState.DRAINING or state is RuntimeState.OFFLINE:
            return Refused(RefusalReason.DRAINING, _NOT_READY_RETRY_MS, "the runtime takes nothing new: it is leaving")
        if state is not RuntimeState.READY:
            return Refused(RefusalReason.NOT_READY, _NOT_READY_RETRY_MS, f"the runtime is {state}")
        known = self._epochs.get(request.session_id)
        if known is not None and request.epoch < known:
            return Refused(RefusalReason.STALE_EPOCH, 0, f"epoch {request.epoch} is older than {known}, seen here")
        unsuitable = self._unsuitable(request)
        if unsuitable:
            return Refused(RefusalReason.UNSUITABLE, 0, unsuitable)
        limit = self._emergency_limit if request.is_adoption else self._hard_limit
        held = self._ledger.active + self._ledger.reserved
        if held >= limit:
            return Refused(RefusalReason.LIMIT, _LIMIT_RETRY_MS, f"{held} sessions of at most {limit}")
        if request.is_adoption:
            return None
        if not self._guard.admits(saturation):
            text = f"utilisation {saturation.utilisation:.2f}, event-loop lag {saturation.loop_lag_ms:.0f} ms"
            return Refused(RefusalReason.OVERLOAD, _OVERLOAD_RETRY_MS, text)
        self._bucket.set_fair_share(request.fair_share_per_s, now_ns)
        if not self._bucket.take(now_ns):
            return Refused(RefusalReason.INFLOW, self._bucket.wait_ms(), "too many new sessions at once")
        return None

    def _unsuitable(self, request: AdmissionRequest) -> str:
        if request.agent and request.agent not in self._suitability.agents:
            return f"agent {request.agent!r} is not served here; served: {', '.join(sorted(self._suitability.agents))}"
        missing = request.abilities - self._suitability.abilities
        return f"abilities missing here: {', '.join(sorted(missing))}" if missing else ""

    def _settle(self, request: AdmissionRequest) -> None:
        placement = request.placement
        if placement is not None:
            self._settlements.settle_below(placement.balancer_id, placement.balancer_incarnation, request.oldest_open_placement)
            self._settlements.settle(placement)

    def _remember(self, session_id: SessionId, epoch: Epoch) -> None:
        self._epochs[session_id] = epoch
        self._epochs.move_to_end(session_id)
        if len(self._epochs) > _REMEMBERED_EPOCHS:
            self._epochs.popitem(last=False)
