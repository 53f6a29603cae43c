#!/bin/sh
# table.sh ROOM: print the C tables of the files that are one: lib/env/env_*.c, lib/nn/net_*.c, lib/cpu/fast_*.c,
# lib/cuda/kernel_*.cu and fusion_*.cu, lib/*/device_*.c (for dev); conf: the names of the networks, for the help of
# policy.network.
room=$1
table() { # PREFIX FILE..
    prefix=$1
    shift
    names=$(for f; do b=${f##*/"${prefix}"_}; echo "${b%.c*}"; done)
    echo "#include \"$room/$prefix.h\""
    for n in $names; do echo "extern const struct mf_$prefix mf_${prefix}_$n;"; done
    echo "const struct mf_$prefix *const mf_${prefix}s[] = {"
    for n in $names; do echo "    &mf_${prefix}_$n,"; done
    echo "    0};"
}
case $room in
env) table env lib/env/env_*.c ;;
nn) table net lib/nn/net_*.c ;;
conf)
    names=$(for f in lib/nn/net_*.c; do b=${f##*/net_}; printf ', %s' "${b%.c}"; done)
    echo "extern const char mf_network_help[];"
    echo "const char mf_network_help[] = \"velocity network: ${names#, }\";"
    ;;
cpu) table fast lib/cpu/fast_*.c ;;
cuda)
    table kernel lib/cuda/kernel_*.cu
    table fusion lib/cuda/fusion_*.cu
    ;;
dev) table device lib/*/device_*.c ;;
*) exit 2 ;;
esac
