# Completion of the keys, choices, options and configurations of every mf-* program: source this file in bash.
# It asks the program itself, so it knows what that one knows, and looks for configurations where that one does.

# _mf_options PROGRAM LINE GROUP: the names of GROUP/*.yaml, "." for the configurations themselves.
_mf_options() {
    local dir file at=configs
    [[ $2 =~ (--config-dir|-cd)[=\ ]([^ ]+) ]] && at=${BASH_REMATCH[2]}
    for dir in "$at" "$(dirname "$(readlink -f "$(type -P "$1")")")"/../{configs,share/maniflow/configs}; do
        for file in "$dir/$3"/*.yaml; do
            [[ -e $file ]] && basename "$file" .yaml
        done
    done | sort -u
}

# _mf_values KEY: of its row in the help, the choices, or true and false.
_mf_values() {
    sed -n "s/^  $1=[^ ]* *\([a-z0-9_]*|[a-z0-9_|]*\):.*/\1/p; s/^  $1=\(true\|false\) .*/true false/p" | tr '|' ' '
}

_mf() {
    local line=${COMP_LINE:0:COMP_POINT} help words
    local word=${line##* } before=${line% *} key
    before=${before##* } key=${word%%=*}
    help=$("$1" --help 2>/dev/null) || return
    [[ $1 != *mf-conf ]] || help+=$'\n'$("$1" --doc)
    case $word in
    --config-name=* | -cn=*) words=$(_mf_options "$1" "$line" .) word=${word#*=} ;;
    -*) words=$(grep -oE -- '--[a-z-]+' <<<"$help" | sort -u) ;;
    *=*)
        words=$(_mf_values "$key" <<<"$help") word=${word#*=}
        [[ $key != env.name ]] || key=env
        [[ $key == *.* ]] || words+=" $(_mf_options "$1" "$line" "${key//+/}")"
        ;;
    *)
        if [[ $before == --config-name || $before == -cn ]]; then
            words=$(_mf_options "$1" "$line" .)
        else
            words=$(sed -n 's/^  \([a-z_.]*=\).*/\1/p' <<<"$help")
        fi
        ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}
mapfile -t _mf_programs < <(compgen -c mf- | sort -u)
complete -o default -o nospace -F _mf "${_mf_programs[@]}"
unset _mf_programs
