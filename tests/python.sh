#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# The Python package: builds a wheel, installs it into a virtual environment in a cache, and runs its tests there.
# Usage: tests/python.sh [OPTIONS OF PYTEST]. KYMO: the command (default: target/release/kymo). CARGO, CARGO_TARGET_DIR.
# KYMO_PYTHON_VENV: a virtual environment that has all packages. KYMO_PYTHON_PROFILE: cargo's profile (release).
# KYMO_PYTHON_SMALL=1: only the tests marked so (a small Spark cluster), where the environment is there already.
# Without pip, or without packages, it skips and says why. Last line: N passed, N failed, N skipped.
set -u
cd "$(dirname "$0")/.."
root=$PWD
export CARGO=${CARGO:-cargo}
target=${CARGO_TARGET_DIR:-$root/target}
export KYMO=${KYMO:-$target/release/kymo}
python=${PYTHON:-python3}
profile=${KYMO_PYTHON_PROFILE:-release}

skip() {
	echo "SKIP Python package: $1"
	echo '0 passed, 0 failed'
	exit 0
}

fail() {
	echo "FAILED Python package: $1"
	echo '0 passed, 1 failed'
	exit 1
}

command -v "$python" >/dev/null || skip "$python is not installed"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || skip "$("$python" --version) is older than 3.10"
[ -x "$KYMO" ] || fail "$KYMO is missing: make build"

packages='maturin>=1.8,<2 pytest>=8.3 mypy pyarrow polars pandas duckdb pyspark==4.3.0'
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
venv=${KYMO_PYTHON_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/kymo/python-$version}
if [ -n "${KYMO_PYTHON_SMALL:-}" ]; then
	[ -x "$venv/bin/maturin" ] || skip "a small Spark cluster: no environment in $venv, which make python-test makes (1 GB, of PyPI)"
	set -- -m small "$@"
elif [ -z "${KYMO_PYTHON_VENV:-}" ] && [ "$(cat "$venv/packages" 2>/dev/null)" != "$packages" ]; then
	why=$("$python" -m venv "$venv" 2>&1) || skip "no virtual environment (Debian: apt-get install python3-venv): ${why##*$'\n'}"
	# shellcheck disable=SC2086 # A list of words.
	why=$("$venv/bin/pip" install -q --disable-pip-version-check $packages 2>&1) || skip "pip: ${why##*$'\n'}"
	echo "$packages" >"$venv/packages"
fi
[ -x "$venv/bin/maturin" ] || skip "$venv has no maturin"
export PATH=$venv/bin:$PATH

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
maturin build -q --profile "$profile" -m python/Cargo.toml -i "$venv/bin/python" -o "$work" >"$work/log" 2>&1 ||
	{ cat "$work/log"; fail 'the wheel was not built'; }
wheel=$(ls "$work"/*.whl)
case $wheel in *-abi3-*) ;; *) fail "$wheel is for one version of Python" ;; esac
pip install -q --disable-pip-version-check --force-reinstall --no-deps "$wheel" || fail 'the wheel was not installed'

# In a directory without the sources: the tests are of what is in the wheel.
passed=0 failed=0
if [ -n "${KYMO_PYTHON_SMALL:-}" ]; then
	: # Types are checked with the rest.
elif (cd "$work" && mypy --config-file "$root/python/pyproject.toml" -p kymotrace); then
	passed=1
else
	echo 'FAILED types of the Python package'
	failed=1
fi
export KYMO_LIB=${KYMO_LIB:-$root/build/emit}
(cd "$work" && timeout 1800 pytest -q -p no:cacheprovider -rs --no-fold-skipped --rootdir "$root/python/tests" \
	-c /dev/null "$root/python/tests" "$@") 2>&1 | tee "$work/tests" |
	grep -vE '^(=+ )?[0-9]+ (passed|failed|skipped|error)|^SKIPPED '
status=${PIPESTATUS[0]}
# A line for each, as scripts/test.sh counts them.
sed -nE 's/^SKIPPED ([^ ]*\/)?(.*) - Skipped: (.*)$/skipped Python package, \2: \3/p' "$work/tests"
count() { grep -oE "[0-9]+ $1" "$work/tests" | tail -n 1 | grep -oE '[0-9]+' || echo 0; }
passed=$((passed + $(count passed))) failed=$((failed + $(count failed) + $(count errors?)))
[ "$status" = 0 ] || [ "$failed" != 0 ] || failed=1
echo "$passed passed, $failed failed, $(count skipped) skipped"
[ "$failed" = 0 ]
