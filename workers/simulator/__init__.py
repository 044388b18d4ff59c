"""The simulated engine (`python -m workers.simulator`): a discrete-event model of an LLM server behind a real port.

For demonstrations, tests and ground truth; every answer says that it is simulated. It knows nothing of Django or of the
rest of the product. `cost`, `kv_cache`, `scheduler`, `replica`, `scenarios`, `mixes`, `openai` and `truth` are pure.
"""
