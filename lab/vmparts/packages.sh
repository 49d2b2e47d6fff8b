# SPDX-License-Identifier: MIT OR Apache-2.0
# Debian packages, downloaded by an apt of its own (scripts/private_apt.sh) and unpacked.

# What `tools` holds besides QEMU: busybox for the guest's first steps, the rest to take kernel packages apart.
tool_packages='qemu-system-x86 busybox-static kmod xz-utils zstd'

debian_codename() {
	. /etc/os-release
	[ "${ID:-}" = debian ] && echo "${VERSION_CODENAME:-}"
}

# The Debian archives that this machine uses (a mirror, perhaps), as lines "URI SUITE"; else those of deb.debian.org.
debian_archives() {
	local codename=$1 archives
	archives=$(private_apt_archives)
	if ! grep -q " $codename\$" <<<"$archives"; then
		archives="http://deb.debian.org/debian/ $codename
http://deb.debian.org/debian-security/ $codename-security"
	fi
	printf '%s\n' "$archives" | grep -v -- -backports
	awk -v suite="$codename" '$2 == suite {print $1, suite "-backports"; exit}' <<<"$archives"
}

write_apt_configuration() {
	local root=$1 codename=$2 uri suite
	private_apt_folder "$root" || return
	# Packages of another architecture than this machine's.
	[ -z "${apt_architecture:-}" ] ||
		printf 'APT::Architecture "%s";\nAPT::Architectures { "%s"; };\n' "$apt_architecture" "$apt_architecture" >>"$root/apt.conf"
	debian_archives "$codename" | while read -r uri suite; do private_apt_source "$uri" "$suite"; done >"$root/sources.list"
}

# Brings the lists up to date once an hour. Without the backports it goes on: their QEMU is better, not necessary.
lists_refresh() {
	local root=$cache/packages codename log
	[ -n "$(find "$root/refreshed" -mmin -60 2>/dev/null)" ] && return
	codename=$(debian_codename) || fail "this is not Debian: its packages are needed"
	write_apt_configuration "$root" "$codename" || fail "cannot write to $root"
	log=$root/update.log
	say "reading the lists of Debian's packages"
	if ! private_apt "$cache/packages" apt-get update -o APT::Update::Error-Mode=any >"$log" 2>&1; then
		sed -i '/-backports /d' "$root/sources.list"
		private_apt "$cache/packages" apt-get update -o APT::Update::Error-Mode=any >"$log" 2>&1 ||
			fail "no Debian archive answers: $(tail -n 1 "$log")"
		say "the backports of $codename do not answer: going on without them"
	fi
	touch "$root/refreshed"
}

have_backports() {
	grep -q -- '-backports ' "$cache/packages/sources.list"
}

# One caller at a time, because apt's lists and archives are shared.
with_packages() {
	mkdir -p "$cache/locks" "$cache/packages" || fail "cannot write to $cache: set KYMO_VM_CACHE to a folder of yours"
	(
		flock 7
		lists_refresh || exit
		"$@"
	) 7>"$cache/locks/packages"
}

# download_package PACKAGE FOLDER
download_package() {
	(cd "$2" && private_apt "$cache/packages" apt-get download "$1" >download.log 2>&1) ||
		fail "apt cannot download $1: $(tail -n 1 "$2/download.log")"
}

# download_tools FOLDER "PACKAGE..."
download_tools() {
	local folder=$1 packages=$2 release=()
	if have_backports; then release=(-t "$(debian_codename)-backports"); fi
	mkdir -p "$folder/partial" || return
	# shellcheck disable=SC2086 # a list of names
	private_apt "$cache/packages" apt-get install -y --download-only -o Dir::Cache::archives="$folder" "${release[@]}" $packages \
		>"$folder/install.log" 2>&1 </dev/null ||
		fail "apt cannot download $packages: $(tail -n 1 "$folder/install.log")"
}

# make_tools PROGRAM "PACKAGE..." NEW: QEMU's PROGRAM is in the first package.
make_tools() {
	local program=$1 packages=$2 new=$3 package
	say "downloading $program and what it needs (36 MB)"
	mkdir "$new/debs" && with_packages download_tools "$new/debs" "$packages" || return
	for package in "$new"/debs/*.deb; do
		# The loader is the machine's, and a C library has to be of the same build.
		case ${package##*/} in libc6_* | debconf_* | adduser_* | passwd_* | libpam*) continue ;; esac
		dpkg-deb -x "$package" "$new" || fail "cannot unpack ${package##*/}"
	done
	# Their links are absolute, to the machine's own.
	[ ! -e "$new/bin/kmod" ] || for package in depmod modprobe; do ln -sf ../bin/kmod "$new/sbin/$package"; done
	package=$(basename "$new/debs/${packages%% *}"_*.deb)
	package=${package#*_}
	echo "Debian's ${package%_*}" | sed 's/%3a/:/' >"$new/origin"
	rm -rf "$new/debs" "$new/usr/share/doc" "$new/usr/share/man"
	in_tools "$new" "$program" --version >"$new/version" 2>"$new/version.log" ||
		fail "the unpacked QEMU does not run: $(cat "$new/version.log")"
}

tools_dir() {
	echo "$cache/tools/$(debian_codename)"
}

tools_cached() {
	[ -e "$(tools_dir)" ]
}

tools_provide() {
	[ "$(uname -m)" = x86_64 ] || fail "only for x86-64 so far, and this is $(uname -m)"
	tools_cached || provide "tools/$(debian_codename)" make_tools qemu-system-x86_64 "$tool_packages"
}

# in_tools FOLDER PROGRAM ARGUMENT...: runs an unpacked program with the libraries that were unpacked beside it.
in_tools() {
	local root=$1 program=$2 folder
	shift 2
	for folder in usr/bin bin usr/sbin sbin; do
		[ -x "$root/$folder/$program" ] && break
	done
	LD_LIBRARY_PATH=$(tools_libraries "$root") "$root/$folder/$program" "$@"
}

tools_libraries() {
	echo "$1/usr/lib/x86_64-linux-gnu:$1/lib/x86_64-linux-gnu"
}

tool() {
	in_tools "$(tools_dir)" "$@"
}
