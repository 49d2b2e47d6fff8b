#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Formatting, clippy, and the checks that hold spec and code together. Called by `make lint`, and by `make test` with
# --quick: then clippy, which compiles everything, is only looked for. Last line: N passed, N failed.
set -u
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
passed=0 failed=0

check() { # name command...
	local name=$1
	shift
	if "$@"; then
		passed=$((passed + 1))
	else
		echo "FAILED $name"
		failed=$((failed + 1))
	fi
}

scripts/tidy.sh
tidy=$?
if "$cargo" fmt --version >/dev/null 2>&1; then
	check "formatting of Rust" "$cargo" fmt --all --check
else
	echo "SKIP formatting of Rust: rustfmt is not installed"
fi
if ! "$cargo" clippy --version >/dev/null 2>&1; then
	echo "SKIP clippy: it is not installed"
elif [ "${1:-}" != --quick ]; then
	check "clippy" "$cargo" clippy -q --release --workspace --all-targets -- -D warnings
fi
echo "$passed passed, $failed failed"
[ $failed = 0 ] && [ $tidy = 0 ]
