"""Any mixture of requests to a store, and restarts in between: nothing is lost, nothing is applied twice."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis.stateful import rule

from nareg.unlearning import CertifiedGPR, Ledger, verify
from tests.helpers import examples
from tests.unlearning.requests import Requests


class StoredRequests(Requests):
    """What :class:`Requests` checks of a model, of one that goes on from its store."""

    folder: tempfile.TemporaryDirectory[str] | None = None

    def begun(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "store"
        self.model.save(self.path)

    @rule()
    def restart(self):
        self.model.close()
        self.model = CertifiedGPR.load(self.path, rng=self.rng)
        assert self.model.certificate() == self.certificate.rounded()

    def teardown(self):
        if self.folder is not None:
            self.model.close()
            ledger = Ledger(self.path)
            assert ledger.history()[-1][1] == self.certificate.rounded()
            ledger.close()
            assert verify(self.path).holds
            self.folder.cleanup()


TestStoredRequests = StoredRequests.TestCase
TestStoredRequests.settings = examples(4, 15, stateful_step_count=15)
