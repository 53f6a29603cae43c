# Completion of the keys, choices and options of every mf-* program: source this file in bash.
# It asks the program itself, so it knows what that one knows.
_mf() {
    local line=${COMP_LINE:0:COMP_POINT} help words
    local word=${line##* }
    help=$("$1" --help 2>/dev/null) || return
    case $word in
    -*) words=$(grep -oE -- '--[a-z-]+' <<<"$help" | sort -u) ;;
    *=*) words=$(sed -n "s/^  ${word%%=*}=[^ ]* *\([a-z0-9_]*|[a-z0-9_|]*\):.*/\1/p" <<<"$help") word=${word#*=} ;;
    *) words=$(sed -n 's/^  \([a-z_.]*=\).*/\1/p' <<<"$help") ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "${words//|/ }" -- "$word")
}
mapfile -t _mf_programs < <(compgen -c mf- | sort -u)
complete -o default -o nospace -F _mf "${_mf_programs[@]}"
unset _mf_programs
