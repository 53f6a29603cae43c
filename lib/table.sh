#!/bin/sh
# table.sh ROOM: print the C table of the files that are one: lib/env/env_*.c, lib/nn/net_*.c, lib/cpu/fast_*.c,
# lib/cuda/kernel_*.cu, lib/*/device_*.c (for dev); conf: the names of the networks, for the help of policy.network.
case $1 in
env) prefix='env' files='lib/env/env_*.c' ;;
nn) prefix='net' files='lib/nn/net_*.c' ;;
conf)
    names=$(for f in lib/nn/net_*.c; do b=${f##*/net_}; printf ', %s' "${b%.c}"; done)
    echo "extern const char mf_network_help[];"
    echo "const char mf_network_help[] = \"velocity network: ${names#, }\";"
    exit
    ;;
cpu) prefix='fast' files='lib/cpu/fast_*.c' ;;
cuda) prefix='kernel' files='lib/cuda/kernel_*.cu' ;;
dev) prefix='device' files='lib/*/device_*.c' ;;
*) exit 2 ;;
esac
names=$(for f in $files; do b=${f##*/"${prefix}"_}; echo "${b%.c*}"; done)
echo "#include \"$1/$prefix.h\""
for n in $names; do echo "extern const struct mf_$prefix mf_${prefix}_$n;"; done
echo "const struct mf_$prefix *const mf_${prefix}s[] = {"
for n in $names; do echo "    &mf_${prefix}_$n,"; done
echo "    0};"
