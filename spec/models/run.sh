#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# run.sh [PART OF A NAME]: verifies the models with Spin. Every good configuration must have no error in
# its full state space; every broken one must fail, and by the property that it is about.
# Exit: 0 all as expected, 1 something is not, 77 skipped.
set -u

here=$(cd "$(dirname "$0")" && pwd) || exit 1
wanted=${1:-}

# name | model | expected: ok, ends (ok, and no endless loop), a property, or cycle (an endless loop) | flags
configurations() {
	cat <<-'END'
	good-rseq-wrap           |rseq    |ok            |-DCPUS=1 -DCALM -DRECORDS_1=2
	good-rseq-migration      |rseq    |ok            |-DRECORDS_0=1
	good-rseq-spill          |rseq    |ok            |-DCPUS=1
	good-rseq-handler        |rseq    |ok            |-DCPUS=1 -DHANDLER
	good-rseq-kill           |rseq    |ok            |-DCPUS=1 -DKILL -DRECORDS_0=1
	good-rseq-unmap          |rseq    |ok            |-DCALM -DUNMAP -DRECORDS_0=1
	good-rseq-waits          |rseq    |ok            |-DCPUS=1 -DCALM -DRECORDS_1=2 -DWAITS
	good-rseq-unmap-spill    |rseq    |ok            |-DCPUS=1 -DUNMAP -DRECORDS_0=1
	good-rseq-ends           |rseq    |ends          |-DCPUS=1 -DRECORDS_0=1
	good-rseq-single-step    |rseq    |ends          |-DCPUS=1 -DSINGLE_STEP
	broken-commit-first      |rseq    |whole         |-DCPUS=1 -DBROKEN_COMMIT_FIRST
	broken-abort-ignored     |rseq    |whole         |-DRECORDS_0=1 -DBROKEN_ABORT_IGNORED -DWATCH=whole
	broken-abort-order       |rseq    |ordered       |-DRECORDS_0=1 -DBROKEN_ABORT_IGNORED -DWATCH=ordered
	broken-abort-overwrites  |rseq    |unread_kept   |-DRECORDS_0=1 -DBROKEN_ABORT_IGNORED -DWATCH=unread_kept
	broken-abort-head        |rseq    |plausible     |-DRECORDS_0=1 -DBROKEN_ABORT_IGNORED -DWATCH=plausible
	broken-abort-lost        |rseq    |published_read|-DRECORDS_0=1 -DBROKEN_ABORT_IGNORED -DWATCH=published_read
	broken-cs-gap            |rseq    |whole         |-DCPUS=1 -DHANDLER -DRESTARTS=0 -DRECORDS_0=1 -DRECORDS_1=2 -DBROKEN_CS_GAP -DWATCH=whole
	broken-clock-before      |rseq    |ordered       |-DCPUS=1 -DCALM -DBROKEN_CLOCK_BEFORE
	broken-no-bound          |rseq    |cycle         |-DCPUS=1 -DSINGLE_STEP -DBROKEN_NO_BOUND
	broken-tail-early        |rseq    |unread_kept   |-DCPUS=1 -DCALM -DRECORDS_1=2 -DBROKEN_TAIL_EARLY
	broken-no-rounding       |rseq    |unread_kept   |-DCPUS=1 -DCALM -DRECORDS_1=2 -DBROKEN_NO_ROUNDING
	broken-last-after        |rseq    |newest_bounded|-DCPUS=1 -DCALM -DBROKEN_LAST_AFTER
	broken-count-early       |rseq    |exact         |-DCPUS=1 -DCALM -DRECORDS_1=2 -DBROKEN_COUNT_EARLY
	broken-count-plain       |rseq    |exact         |-DCPUS=1 -DCALM -DWAITS -DBROKEN_COUNT_PLAIN
	broken-count-lane        |rseq    |exact         |-DCALM -DBROKEN_COUNT_LANE
	broken-stale             |rseq    |mapped        |-DCPUS=1 -DUNMAP -DBROKEN_STALE
	broken-no-fence          |rseq    |mapped        |-DCPUS=1 -DUNMAP -DBROKEN_NO_FENCE
	broken-fence-first       |rseq    |mapped        |-DCPUS=1 -DUNMAP -DBROKEN_FENCE_FIRST
	broken-unheld            |rseq    |mapped        |-DCPUS=1 -DUNMAP -DBROKEN_UNHELD
	broken-answer-early      |rseq    |exact         |-DCPUS=1 -DUNMAP -DBROKEN_ANSWER_EARLY
	good-portable            |portable|ok            |-DRECORDS_1=1
	good-portable-handlers   |portable|ok            |-DRECORDS_0=1
	good-portable-kill       |portable|ok            |-DKILL -DRECORDS_0=1 -DRECORDS_1=1
	good-portable-unmap      |portable|ok            |-DUNMAP -DRECORDS_0=1 -DRECORDS_1=1
	good-portable-ends       |portable|ends          |-DRECORDS_0=1 -DRECORDS_1=1
	good-portable-overwrite  |portable|ok            |-DOVERWRITE -DRECORDS_1=1 -DRECORDS_2=0
	good-portable-burst      |portable|ok            |-DOVERWRITE -DRECORDS_0=1 -DRECORDS_1=3 -DRECORDS_2=0
	broken-portable-beyond   |portable|whole         |-DOVERWRITE -DRECORDS_0=1 -DRECORDS_1=3 -DRECORDS_2=0 -DBROKEN_BEYOND_HEAD
	broken-nested-publishes  |portable|whole         |-DBROKEN_NESTED_PUBLISHES -DWATCH=whole
	broken-clock-first       |portable|ordered       |-DBROKEN_CLOCK_FIRST -DWATCH=ordered
	broken-no-recheck        |portable|nothing_left  |-DBROKEN_NO_RECHECK
	broken-plain-store       |portable|exact         |-DBROKEN_PLAIN_STORE
	broken-portable-tail     |portable|unread_kept   |-DBROKEN_TAIL_EARLY
	broken-portable-room     |portable|unread_kept   |-DBROKEN_NO_ROOM
	broken-portable-overrun  |portable|whole         |-DBROKEN_OVERRUN
	broken-portable-last     |portable|newest_bounded|-DBROKEN_LAST_STALE
	broken-portable-depth    |portable|mapped        |-DUNMAP -DRECORDS_0=1 -DRECORDS_1=1 -DBROKEN_DEPTH_HOLDS
	broken-portable-off      |portable|nothing_left  |-DUNMAP -DRECORDS_0=1 -DRECORDS_1=1 -DBROKEN_OFF_SILENT
	good-compact             |compact |ok            |
	good-compact-marks       |compact |ok            |-DMARKS -DRECORDS_0=1
	broken-compact-last      |compact |time_known    |-DRECORDS_0=3 -DBROKEN_LAST_FIRST
	broken-compact-no-place  |compact |thread_known  |-DRECORDS_1=2 -DBROKEN_NO_PLACE -DWATCH=thread_known
	broken-compact-no-time   |compact |time_known    |-DBROKEN_NO_TIME
	broken-compact-one-look  |compact |thread_known  |-DRECORDS_1=2 -DBROKEN_ONE_LOOK -DWATCH=thread_known
	broken-compact-mark-look |compact |thread_known  |-DMARKS -DBROKEN_MARK_ONE_LOOK -DWATCH=thread_known
	broken-compact-mark-torn |compact |time_known    |-DMARKS -DBROKEN_MARK_UNNAMED -DWATCH=time_known
	good-compact-portable    |compact_portable|ok    |-DRECORDS_2=0
	good-compact-nested      |compact_portable|ok    |-DRECORDS_0=1
	good-compact-no-room     |compact_portable|ok    |-DNO_ROOM -DRECORDS_2=0
	broken-compact-store     |compact_portable|time_known|-DBROKEN_PLAIN_STORE
	broken-compact-state     |compact_portable|time_known|-DBROKEN_STATE_FIRST
	broken-compact-lost      |compact_portable|time_known|-DNO_ROOM -DRECORDS_2=0 -DBROKEN_LOST_VALID
	broken-compact-progress  |compact_portable|time_known|-DBROKEN_IN_PROGRESS
	broken-compact-reserve   |compact_portable|time_known|-DBROKEN_ONE_LOOK
	good-attach              |attach  |ok            |
	good-attach-three        |attach  |ok            |-DGENERATIONS=3
	good-attach-same         |attach  |ok            |-DSAME
	good-attach-sequence     |attach  |ok            |-DSEQUENCE
	good-attach-same-sequence|attach  |ok            |-DSAME -DSEQUENCE
	broken-attach-unmap-first|attach  |is_mapped     |-DSAME -DBROKEN_UNMAP_FIRST -DBROKEN_STALE
	broken-attach-leave      |attach  |recorded      |-DBROKEN_LEAVE
	broken-attach-no-count   |attach  |is_mapped     |-DBROKEN_NO_COUNT
	broken-attach-no-recheck |attach  |is_mapped     |-DBROKEN_NO_RECHECK
	broken-attach-no-fence   |attach  |is_mapped     |-DSEQUENCE -DBROKEN_NO_FENCE
	broken-attach-header     |attach  |one_stream    |-DSEQUENCE -DBROKEN_HEADER_FIRST
	broken-attach-fixed      |attach  |one_stream    |-DBROKEN_FIXED_ADDRESS
	END
}

list=$(configurations | grep -e "^[^|]*$wanted[^|]*|") || {
	echo "run.sh: no configuration has \"$wanted\" in its name" >&2
	exit 1
}
count=$(echo "$list" | wc -l)

for tool in spin gcc; do
	command -v $tool >/dev/null 2>&1 || {
		echo "$list" | sed "s/ *|.*/: $tool is not installed (apt-get install $tool)/; s/^/skipped: /"
		echo "0 passed, 0 failed, $count skipped"
		exit 77
	}
done

folder=$(mktemp -d) || exit 1
workers=
trap 'rm -rf "$folder"' EXIT
trap 'kill $workers 2>/dev/null; exit 1' INT TERM

# verify NAME MODEL EXPECTED FLAGS...: prints the line of one configuration.
verify() {
	name=$1 model=$2 expected=$3
	shift 3
	mkdir "$folder/$name" && cd "$folder/$name" || return
	level=-O2 search=-DSAFETY loops= table=-w22 pack=
	case $model in compact*) pack=-DCOLLAPSE ;; esac
	case $expected in
	ok) ;;
	ends | cycle) search=-DNP loops=-l; set -- "$@" -DENDS ;;
	*) level=-O0 table=-w18 ;; # a short search: compiling would take longer
	esac
	if ! { spin -a "$@" "$here/$model.pml" &&
		gcc $level -w $search $pack -DMEMLIM=1500 -o pan pan.c; } >build 2>&1; then
		echo "FAILED $name: does not build: $(tail -1 build)"
		return
	fi
	./pan -m20000 $table $loops >out 2>&1
	states=$(sed -n 's/^ *\([0-9]*\) states, stored.*/\1/p' out)
	errors=$(sed -n 's/.*errors: \([0-9]*\)$/\1/p' out)
	seconds=$(sed -n 's/^pan: elapsed time \([0-9.]*\) seconds$/\1/p' out)
	broke=$(sed -n -e 's/^pan:1: assertion violated \([a-z_]*\) (at depth.*/\1/p' \
		-e 's/^pan:1: non-progress cycle.*/cycle/p' out)
	unfinished=$(grep -m1 -e 'max search depth too small' -e 'Search not completed' -e 'MEMLIM' \
		-e 'out of memory' -e 'hash table is full' out)
	case $expected in
	ok | ends)
		if [ "$errors" = 0 ] && [ -z "$unfinished" ] && grep -q '^Full statespace search' out; then
			echo "ok $name: $states states, 0 errors, $seconds s"
		else
			echo "FAILED $name: ${errors:-no result} errors${broke:+, $broke}${unfinished:+, $unfinished}"
		fi
		;;
	*)
		kind=assertion
		[ "$expected" = cycle ] && kind="endless"
		if [ "$broke" = "$expected" ]; then
			echo "ok $name: fails as it must ($kind $expected)"
		else
			echo "FAILED $name: should break $expected, but ${broke:-nothing} broke ($(grep -m1 '^pan:1:' out))"
		fi
		;;
	esac
	cd "$folder" && rm -rf "$name"
}

# Two workers, one for each parity of the line number; lines appear as they are done.
work() {
	echo "$list" | awk "NR % 2 == $1" | while IFS='|' read -r name model expected flags; do
		# The columns are padded and the flags are several words: splitting is wanted.
		# shellcheck disable=SC2086
		verify $name $model $expected $flags
	done
}

for parity in 0 1; do
	work $parity 2>&1 | tee "$folder/lines.$parity" &
	workers="$workers $!"
done
wait
passed=$(cat "$folder"/lines.* | grep -c '^ok ')
failed=$((count - passed))
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
