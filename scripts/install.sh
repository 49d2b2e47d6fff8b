#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Puts library, headers, preload helpers, the kymo command, its man pages and completions in place; kymo-sql, which lies
# beside the given kymo, if it was built.
# Usage: install.sh DESTDIR PREFIX KYMO; install.sh --remove DESTDIR PREFIX. Called by `make install` and `make uninstall`.
# What was installed is listed in share/kymo/manifest.
set -eu
cd "$(dirname "$0")/.."
if [ "$1" = --remove ]; then
	manifest=$2$3/share/kymo/manifest
	[ -e "$manifest" ] || { echo "nothing of kymo is installed below $2$3" >&2; exit 1; }
	(cd "$2$3" && xargs -d '\n' rm -f <share/kymo/manifest)
	rm -f "$manifest"
	(cd "$2$3" && find include/kymo lib/kymo lib/cmake share/kymo -depth -type d -empty -delete)
	if [ -z "$2" ] && [ "$(id -u)" = 0 ]; then ldconfig; fi
	echo "removed from $2$3"
	exit 0
fi
destdir=$1 prefix=$2 kymo=$3
to=$destdir$prefix

install -d "$to/bin" "$to/lib/pkgconfig" "$to/lib/kymo" "$to/include" "$to/share/man/man1" "$to/share/man/man3" "$to/share/man/man7" \
	"$to/share/bash-completion/completions" "$to/share/zsh/site-functions" "$to/share/fish/vendor_completions.d"
# Without its symbols a command is a quarter smaller; `make debug-info` has them, and lines.
command_to() {
	if command -v strip >/dev/null; then
		install -s -m 755 "$1" "$2"
	else
		install -m 755 "$1" "$2"
	fi
}
command_to "$kymo" "$to/bin/kymo"
sql=$(dirname "$kymo")/kymo-sql
if [ -x "$sql" ]; then
	command_to "$sql" "$to/lib/kymo/kymo-sql"
else
	# One of an earlier installation would be of another version.
	rm -f "$to/lib/kymo/kymo-sql"
	echo 'kymo-sql was not built and is not installed; kymo export --format parquet needs it: make sql, then make install'
fi
install -m 644 build/emit/libkymo.a "$to/lib/"
install -m 755 build/emit/libkymo.so.1 "$to/lib/"
ln -sf libkymo.so.1 "$to/lib/libkymo.so"
for helper in build/emit/libkymo-*.so; do
	[ ! -e "$helper" ] || install -m 755 "$helper" "$to/lib/kymo/"
done
install -m 755 build/lab/kymo-probe build/lab/kymo-load "$to/lib/kymo/"
# The helpers look for libkymo beside themselves.
ln -sf ../libkymo.so.1 "$to/lib/kymo/libkymo.so.1"
sed "s|@PREFIX@|$prefix|" build/emit/kymo.pc >"$to/lib/pkgconfig/kymo.pc"
install -m 644 build/posix/full/libkymo-posix.a "$to/lib/"
install -m 755 build/posix/full/libkymo-posix.so.1 "$to/lib/"
ln -sf libkymo-posix.so.1 "$to/lib/libkymo-posix.so"
sed "s|@PREFIX@|$prefix|" build/posix/full/kymo-posix.pc >"$to/lib/pkgconfig/kymo-posix.pc"
install -d "$to/lib/cmake/kymo"
install -m 644 build/emit/kymoConfig.cmake build/emit/kymoConfigVersion.cmake "$to/lib/cmake/kymo/"
(cd emit/include && find . -name '*.h' -exec install -D -m 644 {} "$to/include/{}" \;)
docs=$(mktemp -d)
trap 'rm -rf "$docs"' EXIT
"$kymo" docs "$docs" --sources .
install -m 644 "$docs"/man1/*.1 "$to/share/man/man1/"
install -m 644 "$docs"/man7/*.7 "$to/share/man/man7/"
emit/posix/man/pages.py "$docs/man3"
install -m 644 "$docs"/man3/*.3 "$to/share/man/man3/"
install -d "$docs/man0p" "$to/share/man/man0p"
mv "$docs/man3/trace.h.0p" "$docs/man0p/"
install -m 644 "$docs/man0p/trace.h.0p" "$to/share/man/man0p/"
install -m 644 "$docs"/bash/* "$to/share/bash-completion/completions/kymo"
install -m 644 "$docs"/zsh/* "$to/share/zsh/site-functions/"
install -m 644 "$docs"/fish/* "$to/share/fish/vendor_completions.d/"
install -d "$to/share/kymo"
{
	echo bin/kymo
	for name in libkymo.a libkymo.so libkymo.so.1 pkgconfig/kymo.pc kymo/libkymo.so.1 kymo/kymo-probe kymo/kymo-load \
		libkymo-posix.a libkymo-posix.so libkymo-posix.so.1 pkgconfig/kymo-posix.pc cmake/kymo/kymoConfig.cmake \
		cmake/kymo/kymoConfigVersion.cmake; do
		echo "lib/$name"
	done
	for helper in build/emit/libkymo-*.so; do echo "lib/kymo/$(basename "$helper")"; done
	[ ! -x "$sql" ] || echo lib/kymo/kymo-sql
	(cd emit/include && find . -name '*.h' | sed 's|^\.|include|')
	(cd "$docs" && ls man0p/*.0p man1/*.1 man3/*.3 man7/*.7) | sed 's|^|share/man/|'
	echo share/bash-completion/completions/kymo
	(cd "$docs/zsh" && ls) | sed 's|^|share/zsh/site-functions/|'
	(cd "$docs/fish" && ls) | sed 's|^|share/fish/vendor_completions.d/|'
} >"$to/share/kymo/manifest"
# Without it the loader would not find libkymo.so.1 in /usr/local/lib.
if [ -z "$destdir" ] && [ "$(id -u)" = 0 ]; then ldconfig; fi
echo "installed below $to"
