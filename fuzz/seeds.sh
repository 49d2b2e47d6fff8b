#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# seeds.sh: fills corpus/ from the tests' metadata, pages, format texts, filters and results of other tools, so that fuzzing begins behind the first brace or head.
# Writes nothing else.
set -eu
cd "$(dirname "$0")"
tests=../host/kymo-ctf/tests
mkdir -p corpus/ctf_metadata corpus/ctf_trace
cp "$tests"/hostile.tsdl "$tests"/metadata/*.tsdl corpus/ctf_metadata/
# Good and bad cases have the same names.
for file in "$tests"/metadata_valid/*.tsdl; do
	cp "$file" "corpus/ctf_metadata/valid_$(basename "$file")"
done
for file in "$tests"/metadata_valid/*.ctf2; do
	sed 's/␞/\x1e/g' "$file" > "corpus/ctf_metadata/valid_$(basename "$file")"
done
for file in "$tests"/metadata/*.ctf2; do
	sed 's/␞/\x1e/g' "$file" > "corpus/ctf_metadata/$(basename "$file")"
done
for file in corpus/ctf_metadata/*; do
	size=$(wc -c < "$file")
	{
		# Length of the metadata as two bytes, little endian.
		printf "\\$(printf %o $((size % 256)))\\$(printf %o $((size / 256)))"
		cat "$file"
		printf '\2\1\11\4\2\11\3\7\7\7'
	} > "corpus/ctf_trace/$(basename "$file")"
done
mkdir -p corpus/ctf_tsdl corpus/ctf_json corpus/ctf_stream
cp corpus/ctf_metadata/*.tsdl corpus/ctf_tsdl/
cp corpus/ctf_metadata/*.ctf2 corpus/ctf_json/
printf '\2\1\11\4\2\11\3\7\7\7' > corpus/ctf_stream/records
tests=../host/kymo-ftrace/tests
mkdir -p corpus/ftrace_format corpus/ftrace_page
cp "$tests"/formats/* corpus/ftrace_format/
cp "$tests"/pages/*.page corpus/ftrace_page/
tests=../host/kymo-filter/tests
mkdir -p corpus/filter
for file in "$tests"/errors/*.txt; do
	head -n 1 "$file" | tr -d '\n' > "corpus/filter/$(basename "$file" .txt)"
done
number=0
grep -v '^#' "$tests/vectors.txt" | cut -d ' ' -f 6- | grep -v '^#' | sort -u | while IFS= read -r filter; do
	number=$((number + 1))
	printf '%s' "$filter" > "corpus/filter/good_$number"
done
mkdir -p corpus/lab_import
for file in ../host/kymo-lab/tests/import/*; do
	case $file in
	*.expect) ;;
	*) cp "$file" corpus/lab_import/ ;;
	esac
done
mkdir -p corpus/ftrace_report
cp ../host/kymo-ftrace/tests/reports/*.txt corpus/ftrace_report/
mkdir -p corpus/symbols
# An address, then a program with symbols (any small one), or a kernel's text.
{ printf '\0\020\0\0\0\0\0\0'; cat /bin/true; } > corpus/symbols/program
{ printf '\0\0\0\201\377\377\377\377'; printf 'ffffffff81000000 T _stext\nffffffffc0000000 t probe_it\t[e1000]\n'; } > corpus/symbols/kernel
# Files of trace-cmd and logs of POSIX Trace streams: those that the crates' tests make.
mkdir -p corpus/posix_log corpus/import_dat corpus/import_text
seeds=$PWD/corpus
(cd .. && KYMO_FUZZ_SEEDS=$seeds "${CARGO:-cargo}" test --release -q -p kymo-export --test dat -p kymo-posix --test logs >/dev/null)
cp ../host/kymo-ftrace/tests/reports/*.txt corpus/import_text/
printf '%s\n' 'prog 7/7 [000] 1.000001: sched:sched_switch: prev_comm=a prev_pid=7 ==> next_comm=b next_pid=9' \
	'	ffffffff81000010 do_one+0x10 ([kernel.kallsyms])' '	    7f0000001234 main+0x4 (/bin/a)' '' > corpus/import_text/perf
# Lines of a small target, made by its crate's tests.
mkdir -p corpus/target_line
(cd .. && KYMO_FUZZ_SEEDS=$seeds "${CARGO:-cargo}" test --release -q -p kymo-target --test line whole_stream >/dev/null)
# A relay daemon's answers behind the version: no session, and a session with one stream.
mkdir -p corpus/live
printf '\0\0\0\0' > corpus/live/nothing
{ printf '\0\0\0\1'; head -c 339 /dev/zero; printf '\0\0\0\1\0\0\0\1\0\0\0\1'; head -c 4371 /dev/zero
	printf '\0\0\0\2\0\0\0\0'; head -c 64 /dev/zero; } > corpus/live/session
