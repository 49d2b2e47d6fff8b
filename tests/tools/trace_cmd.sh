#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# trace_cmd.sh NOTHING OUT ARGUMENTS...: `trace-cmd record -o OUT ARGUMENTS` where an instance of its own is all the tracefs
# that there is, whether the machine has tracefs mounted or not. NOTHING: a file that it may write to in place of the machine's switches.
set -eu
exec unshare --mount --propagation private sh -eu -c '
	nothing=$1 out=$2
	shift 2
	at=$(mktemp -d)
	name=kymo-test-exchange-$$
	mount -t tracefs none "$at"
	mkdir "$at/instances/$name"
	remove() {
		umount -l /sys/kernel/tracing || true
		mount -t tracefs none "$at"
		rmdir "$at/instances/$name"
		umount "$at"
		rmdir "$at"
	}
	trap remove EXIT
	grep " - tracefs " /proc/self/mountinfo | cut -d" " -f5 | while read -r other; do
		[ "$other" = "$at" ] || umount -l "$other"
	done
	mount --bind "$at/instances/$name" /sys/kernel/tracing
	umount "$at"
	mount --bind "$nothing" /proc/sys/kernel/ftrace_enabled
	for file in set_ftrace_filter set_ftrace_notrace set_ftrace_pid set_ftrace_notrace_pid; do
		[ ! -e /sys/kernel/tracing/$file ] || mount --bind "$nothing" /sys/kernel/tracing/$file
	done
	[ "$(grep -c " - tracefs " /proc/self/mountinfo)" = 1 ]
	trace-cmd record -o "$out" "$@"' sh "$@"
