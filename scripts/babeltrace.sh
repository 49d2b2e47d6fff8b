#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# A babeltrace2 that reads CTF 2 (2.1 or later), which Debian 12 does not have: packages of a later Debian, unpacked into
# a cache and run by chroot. Nothing is installed. Prints the folder.
# Usage: babeltrace.sh (KYMO_CACHE: where, default ~/.cache/kymo)
set -eu
. "$(dirname "$0")/private_apt.sh"
suites='trixie sid'
cache=${KYMO_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kymo}
root=$cache/babeltrace

fail() {
	printf 'babeltrace.sh: %s\n' "$*" >&2
	exit 1
}

[ ! -x "$root/usr/bin/babeltrace2" ] || { echo "$root"; exit 0; }
[ "$(id -u)" = 0 ] || fail 'needs root, for chroot'
command -v apt-get dpkg-deb >/dev/null || fail 'no apt and dpkg-deb: packages of Debian are needed'
mkdir -p "$cache"
exec 9>"$cache/babeltrace.lock"
flock 9
[ ! -x "$root/usr/bin/babeltrace2" ] || { echo "$root"; exit 0; }
new=$cache/babeltrace.new
trap 'rm -rf "$new"' EXIT
rm -rf "$new"
mkdir -p "$new/tmp"
private_apt_folder "$new/apt"
uri=$(private_apt_archives | awk '$2 !~ /-/ {print $1; exit}')

version=
for suite in $suites; do
	private_apt_source "${uri:-http://deb.debian.org/debian/}" "$suite" >"$new/apt/sources.list"
	private_apt "$new/apt" apt-get update -o APT::Update::Error-Mode=any >"$new/apt/log" 2>&1 || continue
	version=$(private_apt "$new/apt" apt-cache show babeltrace2 2>/dev/null | sed -n 's/^Version: //p' | head -n 1)
	case $version in 2.0.* | '') version= ;; *) break ;; esac
done
[ -n "$version" ] || fail "no Debian archive has babeltrace2 2.1: $(tail -n 1 "$new/apt/log")"
echo "babeltrace.sh: downloading babeltrace2 $version of $suite" >&2
private_apt "$new/apt" apt-get install -y --download-only babeltrace2 >"$new/apt/log" 2>&1 </dev/null || fail "$(tail -n 1 "$new/apt/log")"
for link in bin lib lib64 sbin; do
	mkdir -p "$new/usr/$link"
	ln -s "usr/$link" "$new/$link"
done
for package in "$new"/apt/cache/archives/*.deb; do
	dpkg-deb --fsys-tarfile "$package" | tar -x -C "$new" --keep-directory-symlink
done
rm -rf "$new/apt"
chroot "$new" /usr/bin/babeltrace2 --version >/dev/null || fail 'the unpacked babeltrace2 does not run'
trap - EXIT
rm -rf "$root"
mv -T "$new" "$root"
echo "$root"
