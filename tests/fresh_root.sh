#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# `make demo` on a minimal Debian 12 that has only make and git besides: in a root folder of its own, made by debootstrap,
# from a clone of this repository. It downloads packages and crates. Only under `make stress`.
# Usage: fresh_root.sh (KYMO_CACHE: where the root is made, default ~/.cache/kymo). Last line: N passed, N failed.
set -u
cd "$(dirname "$0")/.."
passed=0 failed=0

skip() {
	echo "SKIP an empty Debian: $*"
	echo '0 passed, 0 failed'
	exit 0
}

check() {
	local name=$1
	shift
	if "$@"; then
		passed=$((passed + 1))
	else
		echo "FAILED an empty Debian: $name"
		failed=$((failed + 1))
	fi
}

[ "$(id -u)" = 0 ] || skip 'needs root, for chroot'
command -v debootstrap >/dev/null || skip 'debootstrap is not installed'
cache=${KYMO_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kymo}
mkdir -p "$cache"
work=$(mktemp -d "$cache/fresh.XXXXXX")
root=$work/root
trap 'rm -rf --one-file-system "$work"' EXIT

# The archive that this machine uses, a mirror perhaps.
. scripts/private_apt.sh
uri=$(private_apt_archives | awk '$2 !~ /-/ {print $1; exit}')
debootstrap --variant=minbase --include=make,git bookworm "$root" "${uri:-http://deb.debian.org/debian/}" >"$work/log" 2>&1 || {
	tail -n 5 "$work/log"
	skip 'debootstrap made no root: is there a network?'
}
# A network may have certificates of its own; the package ca-certificates takes them from there.
if [ -d /usr/local/share/ca-certificates ]; then cp -a /usr/local/share/ca-certificates "$root/usr/local/share/"; fi
cp /etc/resolv.conf "$root/etc/resolv.conf"
git clone -q . "$root/root/kymo" || exit 1

# A mount namespace: what is mounted here goes with it. Nothing of this machine's environment is handed on.
in_root() {
	unshare --mount --pid --fork bash -c '
		mount -t proc proc "$1/proc" && mount -t tmpfs tmpfs "$1/tmp" && mount --rbind /dev "$1/dev" || exit
		exec chroot "$1" env -i HOME=/root LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin bash -c "cd /root/kymo && $2"' \
		sh "$root" "$1"
}

check 'there is no compiler and no cargo' in_root '! command -v cc && ! command -v cargo'
start=$SECONDS
check 'make demo' in_root 'make demo' >"$work/demo" 2>&1
echo "make demo took $((SECONDS - start)) s from a root without a compiler"
for line in 'records in' 'nothing was lost' 'libc:malloc' 'bytes by ' 'What happened'; do
	check "make demo shows \"$line\"" grep -q -- "$line" "$work/demo"
done
[ "$failed" = 0 ] || tail -n 30 "$work/demo"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
