# SPDX-License-Identifier: MIT OR Apache-2.0
# Completion of kymo for bash: asks kymo itself.

_kymo() {
	local line=${COMP_LINE:0:COMP_POINT} answer one typed= prefix= rest=
	answer=$("${COMP_WORDS[0]}" __complete --line "$line" 2>/dev/null) || return 0
	COMPREPLY=()
	while IFS= read -r one; do
		case $one in
		:*) rest=${one#:} ;;
		=*) typed=${one#=} ;;
		*) COMPREPLY+=("${one%%$'\t'*}") ;;
		esac
	done <<<"$answer"
	# Bash replaces only what is behind the last colon or equals sign, except between quotes.
	case ${line##*[[:space:]]} in
	\'* | \"*) ;;
	*[:=]*) prefix=${typed%"${typed##*[:=]}"} ;;
	esac
	COMPREPLY=("${COMPREPLY[@]#"$prefix"}")
	typed=${typed#"$prefix"}
	case $rest in
	files) mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- "$typed") ;;
	dirs) mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -d -- "$typed") ;;
	command\ *)
		if declare -F _command_offset >/dev/null; then
			_command_offset "${rest#command }"
		else
			mapfile -t COMPREPLY < <(compgen -c -f -- "$typed")
		fi
		;;
	esac
	[ -z "$rest" ] || compopt -o filenames 2>/dev/null
	return 0
}

complete -F _kymo kymo
