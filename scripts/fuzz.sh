#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# scripts/fuzz.sh [TARGET...]: builds the targets of fuzz/ (all, or those named) with coverage counters and runs each for FUZZ_SECONDS (60)
# on seeds of the tests. Needs no nightly compiler: the counters are stable options, and address checks are left out, because what is
# fuzzed is safe code; memory bombs are seen by limits. Inputs stay in fuzz/corpus, what was found in fuzz/artifacts.
# Exit status 1: a target failed; the input and the command that repeats it are printed.
set -u
cd "$(dirname "$0")/.."
seconds=${FUZZ_SECONDS:-60}
host=$(rustc -vV | sed -n 's/^host: //p')
built=${CARGO_TARGET_DIR:-$PWD/fuzz/target}/fuzz
counters=-Cpasses=sancov-module
for option in level=4 inline-8bit-counters pc-table trace-compares; do
	counters="$counters -Cllvm-args=-sanitizer-coverage-$option"
done
all=$(cd fuzz/fuzz_targets && ls -- *.rs | sed 's/\.rs$//')
[ $# -gt 0 ] || set -- $all
for target in "$@"; do
	[ -f "fuzz/fuzz_targets/$target.rs" ] || {
		echo "fuzz.sh: no target $target; there are:" $all >&2
		exit 2
	}
done

echo "fuzz.sh: building $*" >&2
names=
for target in "$@"; do names="$names --bin $target"; done
# A target of its own keeps the counters out of build scripts.
# shellcheck disable=SC2086 # lists of words
RUSTFLAGS="$counters --cfg fuzzing -Cdebug-assertions" \
	"${CARGO:-cargo}" build -q --release --target "$host" --target-dir "$built" --manifest-path fuzz/Cargo.toml $names || exit 2
sh fuzz/seeds.sh || exit 2

failed=
for target in "$@"; do
	mkdir -p "fuzz/corpus/$target" "fuzz/artifacts/$target"
	# shellcheck disable=SC2046 # no option or one
	"$built/$host/release/$target" "fuzz/corpus/$target" "-artifact_prefix=fuzz/artifacts/$target/" \
		"-max_total_time=$seconds" -timeout=20 -rss_limit_mb=1024 -malloc_limit_mb=512 -print_final_stats=1 \
		-max_len=65536 >"fuzz/artifacts/$target/log" 2>&1
	status=$?
	done=$(sed -n 's/^stat::number_of_executed_units: *//p' "fuzz/artifacts/$target/log")
	covered=$(grep -a -o 'cov: [0-9]*' "fuzz/artifacts/$target/log" | tail -n 1)
	if [ $status = 0 ]; then
		echo "fuzz.sh: $target: ${done:-?} inputs in $seconds s, $covered"
	else
		failed=1
		echo "fuzz.sh: $target FAILED: $(grep -a -m 1 -E 'panicked at|ERROR: libFuzzer' "fuzz/artifacts/$target/log")"
		grep -a 'Test unit written to' "fuzz/artifacts/$target/log"
		echo "  again: $built/$host/release/$target FILE"
	fi
done
[ -z "$failed" ]
