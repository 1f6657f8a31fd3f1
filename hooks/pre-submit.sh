#!/bin/sh
# vramplan before a submission, for any scheduler that runs a command or a wrapper first:
#
#   hooks/pre-submit.sh job.sh && bsub < job.sh
#   hooks/pre-submit.sh --gpu a100-80gb job.sh
#
# It ends with 1 where the job surely does not fit its card and VRAMPLAN_MODE is enforce, and with 0 in every
# other case: no vramplan, no answer in time, no job to be found, anything that is not understood. Arguments in front
# of the script are those of "vramplan check": the card of the queue with --gpu, or --gres, --partition and --site.
#
# Settings: VRAMPLAN (the program), VRAMPLAN_MODE (audit, warn, enforce; warn if not set), VRAMPLAN_HOOK_SECONDS (1),
# VRAMPLAN_DECISIONS (a file, or syslog), VRAMPLAN_SITE, VRAMPLAN_OVERRIDE (a reason to run the job anyway).
set -u

if [ $# -eq 0 ]; then
	echo "usage: pre-submit.sh [options of vramplan check] SCRIPT" >&2
	exit 0 # a wrapper that calls it wrongly is no reason to hold up a job
fi
mode=${VRAMPLAN_MODE:-warn}
seconds=${VRAMPLAN_HOOK_SECONDS:-1}
case $mode in
audit | warn | enforce) ;;
*) mode=audit ;;
esac
limit="timeout -s KILL $seconds"
command -v timeout >/dev/null 2>&1 || limit=

# The last argument is the script; the others stay as they are.
n=$#
while [ "$n" -gt 1 ]; do
	set -- "$@" "$1"
	shift
	n=$((n - 1))
done
script=$1
shift

# At most 16 KiB of an answer are read, so that a program that prints without end does no harm.
answer=$({
	$limit "${VRAMPLAN:-vramplan}" check --script "$script" --mode "$mode" --hook pre-submit --advice-timeout "${VRAMPLAN_ADVICE_TIMEOUT:-500ms}" \
		--override-help "VRAMPLAN_OVERRIDE='REASON'" "$@" </dev/null 2>&1
	echo "vramplan-exit $?"
} 2>/dev/null | head -c 16384 | tr -d '\000')
code=${answer##*vramplan-exit }
text=${answer%vramplan-exit *}

refused=no
case $code in
1) case "
$text" in *"
does not fit: "*) refused=yes ;; esac ;;
esac
if [ "$mode" = audit ]; then
	exit 0
fi
if [ $refused = yes ]; then
	printf '%s' "$text" >&2
	[ "$mode" = enforce ] && exit 1
	echo "pre-submit: the job goes on all the same" >&2
	exit 0
fi
case $text in
*"no job found"*) ;;
*"vramplan check: "*) printf '%s\n' "$text" | grep '^vramplan check: ' >&2 ;;
*"fits: "*) ;;
*) echo "pre-submit: the job was not checked and goes on" >&2 ;;
esac
exit 0
