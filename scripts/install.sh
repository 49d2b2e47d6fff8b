#!/bin/bash
# Puts library, headers, preload helpers, the kymo command, its man pages and completions in place.
# Usage: install.sh DESTDIR PREFIX KYMO. Called by `make install`.
set -eu
cd "$(dirname "$0")/.."
destdir=$1 prefix=$2 kymo=$3
to=$destdir$prefix

install -d "$to/bin" "$to/lib/pkgconfig" "$to/lib/kymo" "$to/include" "$to/share/man/man1" \
	"$to/share/bash-completion/completions" "$to/share/zsh/site-functions" "$to/share/fish/vendor_completions.d"
install -m 755 "$kymo" "$to/bin/kymo"
install -m 644 build/emit/libkymo.a "$to/lib/"
install -m 755 build/emit/libkymo.so.1 "$to/lib/"
ln -sf libkymo.so.1 "$to/lib/libkymo.so"
for helper in build/emit/libkymo-*.so; do
	[ ! -e "$helper" ] || install -m 755 "$helper" "$to/lib/kymo/"
done
# The helpers look for libkymo beside themselves.
ln -sf ../libkymo.so.1 "$to/lib/kymo/libkymo.so.1"
sed "s|@PREFIX@|$prefix|" build/emit/kymo.pc >"$to/lib/pkgconfig/kymo.pc"
(cd emit/include && find . -name '*.h' -exec install -D -m 644 {} "$to/include/{}" \;)
docs=$(mktemp -d)
trap 'rm -rf "$docs"' EXIT
"$kymo" docs "$docs"
install -m 644 "$docs"/man1/*.1 "$to/share/man/man1/"
install -m 644 "$docs"/bash/* "$to/share/bash-completion/completions/kymo"
install -m 644 "$docs"/zsh/* "$to/share/zsh/site-functions/"
install -m 644 "$docs"/fish/* "$to/share/fish/vendor_completions.d/"
# Without it the loader would not find libkymo.so.1 in /usr/local/lib.
if [ -z "$destdir" ] && [ "$(id -u)" = 0 ]; then ldconfig; fi
echo "installed below $to"
