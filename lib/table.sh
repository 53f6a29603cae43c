#!/bin/sh
# table.sh env|nn|cpu: print the C table of the files lib/env/env_*.c, lib/nn/net_*.c or lib/cpu/fast_*.c.
case $1 in
env) prefix='env' ;;
nn) prefix='net' ;;
cpu) prefix='fast' ;;
*) exit 2 ;;
esac
names=$(for f in "lib/$1/${prefix}_"*.c; do b=${f##*/"${prefix}"_}; echo "${b%.c}"; done)
echo "#include \"$1/$prefix.h\""
for n in $names; do echo "extern const struct mf_$prefix mf_${prefix}_$n;"; done
echo "const struct mf_$prefix *const mf_${prefix}s[] = {"
for n in $names; do echo "    &mf_${prefix}_$n,"; done
echo "    0};"
