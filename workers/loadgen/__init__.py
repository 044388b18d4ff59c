"""The load generator: one stage of load on one server, as a program (`python -m workers.loadgen PLAN.json --out DIR`).

It knows nothing of Django, campaigns or databases; `plan`, `endpoint`, `sse`, `payload` and `answer` are pure.
"""
