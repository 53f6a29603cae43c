#!/bin/sh
# table.sh ROOM: print the C tables of the files that are one: lib/env/env_*.c, lib/nn/net_*.c, lib/cpu/fast_*.c,
# lib/cuda/kernel_*.cu and fusion_*.cu, lib/*/device_*.c (for dev), lib/rl/weigh_*.c; conf: the names of networks, encoders
# and estimators, for the help of policy.network, policy.encoder and clone.weight.
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
help() { # KEY TEXT FILE..
    key=$1 text=$2
    shift 2
    names=$(for f; do b=${f##*/}; b=${b#*_}; printf ', %s' "${b%.c}"; done)
    echo "extern const char mf_${key}_help[];"
    echo "const char mf_${key}_help[] = \"$text${names#, }\";"
}
case $room in
env) table env lib/env/env_*.c ;;
nn)
    table net lib/nn/net_*.c
    table encoder lib/nn/encoder_*.c
    ;;
conf)
    help network "velocity network: " lib/nn/net_*.c
    help encoder "encoder of pictures, one for all networks: " lib/nn/encoder_*.c
    help weigh "weights of the samples (offline reinforcement learning): none, " lib/rl/weigh_*.c
    ;;
rl) table weigh lib/rl/weigh_*.c ;;
cpu) table fast lib/cpu/fast_*.c ;;
cuda)
    table kernel lib/cuda/kernel_*.cu
    table fusion lib/cuda/fusion_*.cu
    ;;
dev) table device lib/*/device_*.c ;;
*) exit 2 ;;
esac
