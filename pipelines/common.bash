# Sourced by the scripts here: where a run goes, what became of its stages, and what to look at then.
# tree has pipelines/, bin/, configs/ and examples/, in a clone and where make install puts them.
tree=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
PATH=$tree/bin:$PATH
script=pipelines/$(basename "$0")

# printf and sort of every script here write and read numbers with a point; characters stay the terminal's.
export LC_CTYPE=${LC_ALL:-${LC_CTYPE:-${LANG:-C}}} LC_NUMERIC=C LC_COLLATE=C
unset LC_ALL

# The comment at the top of the script is its help.
help() { sed -n '2,/^[^#]/s/^#  *//p' "$0"; }

# word KEY VALUE: KEY=VALUE as a word that gives VALUE whatever is in it; a plain path stays readable.
word() {
    if [[ $2 =~ ^[A-Za-z/][A-Za-z0-9_./-]*$ && $2 == *[./]* ]]; then
        printf '%s=%s' "$1" "$2"
    else
        printf "%s='%s'" "$1" "$(printf %s "$2" | sed -zE -e 's/(\\*)\$\{/\1\1\\${/g' -e "s/(\\\\*)'/\\1\\1\\\\'/g" -e 's/(\\+)$/\1\1/')"
    fi
}

# file PATH: as a word that no program takes for a key.
file() { if [[ $1 == *=* && $1 != [./]* ]]; then echo "./$1"; else echo "$1"; fi; }

# run_dir WORDS..: run.dir, or outputs/NAME; the name is run.name, wandb_run_name, or that of the environment, which the
# checkpoint says where nobody does.
run_dir() {
    local value
    mapfile -t value < <(mf-conf "$@" run.dir run.name wandb_run_name env.name policy.checkpoint)
    ((${#value[@]} <= 5)) || echo "$script: run.dir, run.name and policy.checkpoint have no room for a second line" >&2
    ((${#value[@]} == 5)) || return 1
    if [ "${value[3]}" = point ] && [ -e "${value[4]}" ]; then
        value[3]=$(mf-ckpt show "${value[4]}" 2>/dev/null | sed -n 's/^spec.env  *\(..*\)/\1/p')
    fi
    value[3]=${value[3]:-point}
    echo "${value[0]:-outputs/${value[1]:-${value[2]:-${value[3]}}}}"
}

# why DIR STAGE STATUS: the signal, or the last error that the stage's log has.
why() {
    if (($3 > 128)); then echo "died by SIG$(kill -l $(($3 - 128)))" && return; fi
    local said=
    [ ! -e "$1/logs/$2.log" ] || said=$(grep ': error: ' "$1/logs/$2.log" | tail -1 | sed 's/^.*: error: //')
    echo "ended with $3${said:+: $said}"
}

# deaths DIR 'STAGE..' 'STATUS..': one line for the stage that began it. Those behind it read a stream that is cut, those
# before it write to nobody: what ended with 3 or by SIGPIPE is not to blame where another is. Nor is the first, which
# waits for the learner's policy, where it ended with 1 and a later one by itself too.
deaths() {
    local stage status i worst=-1
    read -ra stage <<<"$2"
    read -ra status <<<"$3"
    for i in "${!status[@]}"; do
        case ${status[i]} in
        0) ;;
        141) [ "$worst" -ge 0 ] || worst=$i ;;
        3) if [ "$worst" -lt 0 ] || [ "${status[worst]}" -eq 141 ]; then worst=$i; fi ;;
        *) worst=$i && ((i > 0 || status[i] != 1)) && break ;;
        esac
    done
    ((worst >= 0)) || return 0
    local again=
    [ "${status[worst]}" -eq 2 ] || again="; the same words go on from there"
    echo "$script: ${stage[worst]} $(why "$1" "${stage[worst]}" "${status[worst]}"); $(last_frame "$1")$again" >&2
    return 1
}

# last_frame DIR
last_frame() {
    { [ ! -e "$1/logs/metrics.mf" ] || mf-view <"$1/logs/metrics.mf" 2>/dev/null || true; } |
        jq -rs 'map(select(.mf == "metrics")) | last |
            if . then "the last metrics are of iteration \(.iter + 1), \(.step) steps" else "no metrics were written" end'
}

# look_at DIR 'COMMAND'..: DIR in a command is quoted for a shell, and not to be taken for a key.
look_at() {
    local quoted
    printf -v quoted %q "$(file "$1")"
    printf '\n%s is done. Next:\n' "$1"
    set -- "${@//"$1"/"$quoted"}"
    printf '    %s\n' "${@:2}"
} >&2
