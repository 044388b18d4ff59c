"""The results page takes what the analysis itself writes, and the builders' documents have that very shape."""

from __future__ import annotations

import json
from typing import Any

import pytest

from campaigns.analysis.criteria import DEFAULT_CRITERIA
from campaigns.analysis.summary import RunInput, analyse_run
from campaigns.analysis.wire import results_dict
from campaigns.pages.results import results_page
from tests.analysis import tables
from tests.campaigns.builders import make_run


@pytest.fixture(scope="module")
def analysed() -> dict[str, Any]:
    """The analysis of a whole run, without the generator's summaries."""
    stages = (
        tables.stage(1, "baseline"),
        *(tables.stage(users, ttft=1 + 0.02 * (users - 1), n=600) for users in (5, 10, 20, 30, 50)),
        tables.stage(1, "closing", seed=9, n=200),
    )
    run = RunInput(stages, DEFAULT_CRITERIA, tables.WEIGHTS, seed=7)
    return results_dict(analyse_run(run))


def shape(value: Any) -> Any:
    """The names in a document, without its numbers; of a list its first entry."""
    if isinstance(value, dict):
        return {name: shape(one) for name, one in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return None


def test_the_builders_write_what_the_analysis_writes(analysed, db):
    built = make_run(ticks=False).result.document
    assert built.keys() - {"run", "findings"} == analysed.keys()
    for part in ("max_concurrency", "baseline", "scaling"):
        assert built[part].keys() == analysed[part].keys(), part
    assert built["per_criterion"][0].keys() == analysed["per_criterion"][0].keys()
    for stage in built["stages"]:
        assert stage.keys() >= analysed["stages"][0].keys()
    assert shape(built["stages"][1]["checks"]) == shape(analysed["stages"][1]["checks"])
    built_change, change = (one["stages"][1]["degradation"]["ttft_ms"]["p50"] for one in (built, analysed))
    assert built_change.keys() == change.keys()


def test_the_page_takes_what_the_analysis_writes(analysed):
    document = {"run": {"id": 1, "simulated": False}, "findings": [], **analysed}
    found = results_page(document, list(tables.WEIGHTS))
    assert found.headline.value == str(analysed["max_concurrency"]["value"])
    assert found.headline.limited_by == "TTFT p50"
    assert [row.mark for row in found.stages] == ["within"] * 4 + ["beyond"] * 2 + ["none"]
    json.dumps(found.charts, allow_nan=False)
    assert found.charts["throughput"]["fit"][-1]["x"] == pytest.approx(50)


def test_a_run_of_a_dead_target_is_words_and_gaps(analysed):
    dead = {**analysed, "stages": [], "scaling": None, "per_criterion": [], "verdict": "no_valid_stage"}
    dead["max_concurrency"] = dict.fromkeys(analysed["max_concurrency"]) | {
        "text": "none: no valid stage",
        "unsure": [],
    }
    dead["baseline"] = {"opening": None, "closing": None, "drift_pct": None, "drift": {}}
    found = results_page({"run": {}, **dead}, [])
    assert found.headline.value is None
    assert found.charts["load_line"] is None
    assert found.charts["latency"]["ttft_ms"]["points"] == []
