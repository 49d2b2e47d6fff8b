#!/bin/sh
# trace_cmd.sh TRACEFS NOTHING OUT ARGUMENTS...: `trace-cmd record -o OUT ARGUMENTS` where an instance of its own is all the tracefs
# that there is. NOTHING: an empty file that it may write to in place of the machine's switches.
set -eu
instance=$1/instances/kymo-test-exchange-$$
mkdir "$instance"
trap 'rmdir "$instance"' EXIT
tracefs=$1 nothing=$2 out=$3
shift 3
unshare --mount --propagation private sh -eu -c '
	tracefs=$1 instance=$2 nothing=$3
	at=$(mktemp -d)
	mount --bind "$instance" "$at"
	grep " - tracefs " /proc/self/mountinfo | cut -d" " -f5 | while read -r other; do
		[ "$other" = "$at" ] || umount -l "$other"
	done
	mount --bind "$at" /sys/kernel/tracing
	umount "$at"
	rmdir "$at"
	mount --bind "$nothing" /proc/sys/kernel/ftrace_enabled
	for file in set_ftrace_filter set_ftrace_notrace set_ftrace_pid set_ftrace_notrace_pid; do
		[ ! -e /sys/kernel/tracing/$file ] || mount --bind "$nothing" /sys/kernel/tracing/$file
	done
	[ "$(grep -c " - tracefs " /proc/self/mountinfo)" = 1 ]
	shift 3
	exec "$@"' sh "$tracefs" "$instance" "$nothing" trace-cmd record -o "$out" "$@"
