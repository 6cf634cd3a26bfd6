"""The planted faults still fit the code that they break; ``python -m tests.faults`` shows that tests catch them."""

from __future__ import annotations

import pytest

from tests.faults.__main__ import ROOT, Fault, all_faults


def test_there_are_thirty_faults_each_with_its_own_words() -> None:
    assert len({fault.says for fault in all_faults()}) >= 30


@pytest.mark.parametrize("fault", all_faults(), ids=lambda fault: fault.name)
def test_a_fault_can_be_planted_and_names_tests_that_are_there(fault: Fault) -> None:
    assert fault.count(ROOT) == 1
    assert fault.new != fault.old
    assert (ROOT / fault.tests).is_file()
